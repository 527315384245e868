// Attention of a few queries, with one key per lane. Networks often have one token more than fills whole vectors: with
// one query per lane, most lanes would be empty.

constexpr int kFewQueries = Vec::width / 2;

// The scores of Q queries from `position` on, for N vectors of keys from `key` on. Those of a query lie in a row.
template <int Q, int N>
static inline void score_few(const Attention& j, ptrdiff_t position, ptrdiff_t key, ptrdiff_t row) {
  Vec sum[Q][N];
#pragma GCC unroll 16
  for (int i = 0; i < Q; i++)
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) sum[i][n] = Vec::zero();
  const float *q = j.q + position, *k = j.k + key;
  for (int d = 0; d < j.dim; d++, q += j.q_plane, k += j.k_plane) {
    Vec x[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) x[n] = Vec::load(k + n * Vec::width);
#pragma GCC unroll 16
    for (int i = 0; i < Q; i++)
#pragma GCC unroll 4
      for (int n = 0; n < N; n++) sum[i][n] = Vec::fma(x[n], Vec::all(q[i]), sum[i][n]);
  }
  for (ptrdiff_t i = 0; i < Q; i++)
    for (int n = 0; n < N; n++)
      (sum[i][n] * Vec::all(j.scale * kLog2OfE)).store(j.scores + i * row + key + n * Vec::width);
}

// Add the biases of a query, and what is between regions, to its scores.
static inline void shift_scores(const Attention& j, ptrdiff_t query, float* scores) {
  for (ptrdiff_t key = 0; j.bias && key < j.keys; key++) scores[key] += kLog2OfE * j.bias[key * j.bias_plane + query];
  for (ptrdiff_t key = 0; j.regions && key < j.keys; key++)
    if (j.regions[query] != j.regions[key]) scores[key] += kLog2OfE * j.apart;
}

// Replace the scores of a query by their powers, and those of the padding by 0; return one divided by their sum.
static inline float weigh_keys(float* scores, ptrdiff_t keys, ptrdiff_t row) {
  for (ptrdiff_t key = keys; key < row; key++) scores[key] = -__builtin_inff();
  Vec largest = Vec::load(scores);
  for (ptrdiff_t key = 0; key < row; key += Vec::width) largest = Vec::max(largest, Vec::load(scores + key));
  alignas(64) float lanes[Vec::width];
  largest.store(lanes);
  float most = lanes[0];
  for (float lane : lanes) most = most < lane ? lane : most;
  Vec sum = Vec::zero();
  for (ptrdiff_t key = 0; key < row; key += Vec::width) {
    const Vec power = power_of_two(Vec::load(scores + key) - Vec::all(most));
    power.store(scores + key);
  }
  for (ptrdiff_t key = keys; key < row; key++) scores[key] = 0.0f;
  for (ptrdiff_t key = 0; key < row; key += Vec::width) sum = sum + Vec::load(scores + key);
  return 1.0f / sum.sum();
}

// R channels of the results of Q queries.
template <int Q, int R>
static inline void mean_few(const Attention& j, ptrdiff_t position, ptrdiff_t channel, ptrdiff_t row,
                            const float (&factor)[Q]) {
  Vec sum[R][Q];
#pragma GCC unroll 16
  for (int r = 0; r < R; r++)
#pragma GCC unroll 16
    for (int i = 0; i < Q; i++) sum[r][i] = Vec::zero();
  for (ptrdiff_t key = 0; key < row; key += Vec::width) {
    const ptrdiff_t left = j.keys - key;  // lanes of padding may hold anything
    const auto mask = Vec::mask(left < Vec::width ? (1u << left) - 1 : ~0u);
    Vec power[Q];
#pragma GCC unroll 16
    for (int i = 0; i < Q; i++) power[i] = Vec::load(j.scores + i * row + key);
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
      const Vec v = Vec::load(j.v + (channel + r) * j.v_plane + key, mask);
#pragma GCC unroll 16
      for (int i = 0; i < Q; i++) sum[r][i] = Vec::fma(v, power[i], sum[r][i]);
    }
  }
  for (ptrdiff_t r = 0; r < R; r++)
    for (int i = 0; i < Q; i++) j.output[(channel + r) * j.output_plane + position + i] = sum[r][i].sum() * factor[i];
}

template <int Q>
static void attend_few(const Attention& j, ptrdiff_t position) {
  constexpr int channels = Q * Vec::width <= 16 ? 8 : Q * 8 <= 3 * Vec::width ? 4 : 2;  // whose sums fit the registers
  const ptrdiff_t row = (j.keys + kBlock - 1) / kBlock * kBlock;
  ptrdiff_t key = 0;
  for (; key + 2 * Vec::width <= row; key += 2 * Vec::width) score_few<Q, 2>(j, position, key, row);
  for (; key < row; key += Vec::width) score_few<Q, 1>(j, position, key, row);
  float factor[Q];
  for (ptrdiff_t i = 0; i < Q; i++) {
    shift_scores(j, position + i, j.scores + i * row);
    factor[i] = weigh_keys(j.scores + i * row, j.keys, row);
  }
  ptrdiff_t channel = 0;
  for (; channel + channels <= j.width; channel += channels) mean_few<Q, channels>(j, position, channel, row, factor);
  for (; channel < j.width; channel++) mean_few<Q, 1>(j, position, channel, row, factor);
}

// Whether the queries from `position` on are few, and their scores fit. This says nothing about biases: a domain
// without any answers as one whose biases are 0.
static inline bool are_few(const Attention& j, ptrdiff_t position) {
  return j.queries - position <= kFewQueries && j.keys >= kBlock;
}

template <int Q = 1>
static inline void attend_few_of(const Attention& j, ptrdiff_t position, ptrdiff_t queries) {
  if constexpr (Q <= kFewQueries) {
    if (Q < queries) return attend_few_of<Q + 1>(j, position, queries);
    attend_few<Q>(j, position);
  }
}
