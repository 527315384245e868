// Attention of one head: softmax(scale * k q + bias) v, with one query per lane. Scores are stored key by key, so that
// maxima and sums over keys need no sums across lanes.

// The scores of R keys from `key` on, for N vectors of queries.
template <int R, int N>
static inline void score_keys(const Attention& j, ptrdiff_t key, ptrdiff_t position, Vec (&most)[N]) {
  Vec sum[R][N];
#pragma GCC unroll 8
  for (int r = 0; r < R; r++)
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) sum[r][n] = Vec::zero();
  const float *q = j.q + position, *k = j.k + key;
  for (int d = 0; d < j.dim; d++, q += j.q_plane, k += j.k_plane) {
    Vec x[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) x[n] = Vec::load(q + n * Vec::width);
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) {
      const Vec w = Vec::all(k[r]);
#pragma GCC unroll 4
      for (int n = 0; n < N; n++) sum[r][n] = Vec::fma(x[n], w, sum[r][n]);
    }
  }
  const Vec scale = Vec::all(j.scale), apart = Vec::all(j.apart), half = Vec::all(0.5f);
  for (ptrdiff_t r = 0; r < R; r++) {
    float* scores = j.scores + (key + r) * kAttentionTile;
    for (int n = 0; n < N; n++) {
      Vec x = sum[r][n] * scale;
      if (j.bias) x = x + Vec::load(j.bias + (key + r) * j.bias_plane + position + n * Vec::width);
      if (j.regions) {
        const Vec distance = Vec::load(j.regions + position + n * Vec::width) - Vec::all(j.regions[key + r]);
        x = x + Vec::select(Vec::less(Vec::abs(distance), half), Vec::zero(), apart);
      }
      most[n] = Vec::max(most[n], x);
      x.store(scores + n * Vec::width);
    }
  }
}

// R channels of the result from `channel` on: means of v.
template <int R, int N>
static inline void mean_values(const Attention& j, ptrdiff_t channel, ptrdiff_t position, const Vec (&factor)[N]) {
  Vec sum[R][N];
#pragma GCC unroll 8
  for (int r = 0; r < R; r++)
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) sum[r][n] = Vec::zero();
  const float *v = j.v + channel * j.v_plane, *scores = j.scores;
  for (int key = 0; key < j.keys; key++, scores += kAttentionTile) {
    Vec x[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) x[n] = Vec::load(scores + n * Vec::width);
#pragma GCC unroll 8
    for (int r = 0; r < R; r++) {
      const Vec w = Vec::all(v[r * j.v_plane + key]);
#pragma GCC unroll 4
      for (int n = 0; n < N; n++) sum[r][n] = Vec::fma(x[n], w, sum[r][n]);
    }
  }
#pragma GCC unroll 8
  for (ptrdiff_t r = 0; r < R; r++)
#pragma GCC unroll 4
    for (int n = 0; n < N; n++)
      (sum[r][n] * factor[n]).store(j.output + (channel + r) * j.output_plane + position + n * Vec::width);
}

template <int N>
static inline void attention_tile(const Attention& j, ptrdiff_t position) {
  Vec most[N], sum[N];
  for (int n = 0; n < N; n++) {
    most[n] = Vec::all(-__builtin_inff());
    sum[n] = Vec::zero();
  }
  ptrdiff_t done = 0;
  for (; done + kRows <= j.keys; done += kRows) score_keys<kRows, N>(j, done, position, most);
  for (; done < j.keys; done++) score_keys<1, N>(j, done, position, most);
  for (ptrdiff_t key = 0; key < j.keys; key++) {
    float* scores = j.scores + key * kAttentionTile;
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) {
      const Vec power = exponential(Vec::load(scores + n * Vec::width) - most[n]);
      sum[n] = sum[n] + power;
      power.store(scores + n * Vec::width);
    }
  }
  for (int n = 0; n < N; n++) sum[n] = Vec::all(1.0f) / sum[n];
  done = 0;
  for (; done + kRows <= j.width; done += kRows) mean_values<kRows, N>(j, done, position, sum);
  for (; done + 4 <= j.width; done += 4) mean_values<4, N>(j, done, position, sum);
  for (; done < j.width; done++) mean_values<1, N>(j, done, position, sum);
}

// Tiles of about the same number of vectors.
static void attention(const Attention& j) {
  constexpr ptrdiff_t most = Vec::width == 8 ? 2 : 4;
  const ptrdiff_t vectors = (j.queries + Vec::width - 1) / Vec::width, tiles = (vectors + most - 1) / most;
  for (ptrdiff_t tile = 0; tile < tiles; tile++) {
    const ptrdiff_t first = vectors * tile / tiles, count = vectors * (tile + 1) / tiles - first;
    const ptrdiff_t position = first * Vec::width;
    switch (count) {
      case 1: attention_tile<1>(j, position); break;
      case 2: attention_tile<2>(j, position); break;
      case 3: attention_tile<3>(j, position); break;
      default: attention_tile<4>(j, position);
    }
  }
}
