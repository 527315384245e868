// Attention of one head: softmax(scale * k q + bias) v, with one query per lane. Scores are stored key by key, so that
// maxima and sums over keys need no sums across lanes.

constexpr float kLog2OfE = 1.44269504f;  // scores are stored as logarithms to the base of 2

// 2 to the power of x, for x of about 0 at most. The polynomial's relative error is at most 2e-9, plus that of
// rounding.
template <class V>
static inline V power_of_two(V x) {
  x = V::max(V::all(-126.0f), x);
  const V n = V::round(x), r = x - n;
  V p = V::all(1.53533620e-4f);
  p = V::fma(p, r, V::all(1.33988746e-3f));
  p = V::fma(p, r, V::all(9.61843736e-3f));
  p = V::fma(p, r, V::all(5.55033247e-2f));
  p = V::fma(p, r, V::all(2.40226479e-1f));
  p = V::fma(p, r, V::all(6.93147203e-1f));
  return V::times_pow2(V::fma(p, r, V::all(1.0f)), n);
}

// The scores of R keys from `key` on, for N vectors of queries.
template <class V, int R, int N>
static inline void score_keys(const Attention& j, ptrdiff_t key, ptrdiff_t position, V (&most)[N]) {
  V sum[R][N];
#pragma GCC unroll 16
  for (int r = 0; r < R; r++)
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) sum[r][n] = V::zero();
  const float *q = j.q + position, *k = j.k + key;
  for (int d = 0; d < j.dim; d++, q += j.q_plane, k += j.k_plane) {
    V x[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) x[n] = V::load(q + n * V::width);
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
      const V w = V::all(k[r]);
#pragma GCC unroll 4
      for (int n = 0; n < N; n++) sum[r][n] = V::fma(x[n], w, sum[r][n]);
    }
  }
  const V scale = V::all(j.scale * kLog2OfE), apart = V::all(j.apart * kLog2OfE), half = V::all(0.5f);
  for (ptrdiff_t r = 0; r < R; r++) {
    float* scores = j.scores + (key + r) * (N * V::width);
    for (int n = 0; n < N; n++) {
      V x = sum[r][n] * scale;
      if (j.bias) x = V::fma(V::load(j.bias + (key + r) * j.bias_plane + position + n * V::width), V::all(kLog2OfE), x);
      if (j.regions) {
        const V distance = V::load(j.regions + position + n * V::width) - V::all(j.regions[key + r]);
        x = x + V::select(V::less(V::abs(distance), half), V::zero(), apart);
      }
      most[n] = V::max(most[n], x);
      x.store(scores + n * V::width);
    }
  }
}

// R channels of the result from `channel` on: means of v.
template <class V, int R, int N>
static inline void mean_values(const Attention& j, ptrdiff_t channel, ptrdiff_t position, const V (&factor)[N]) {
  V sum[R][N];
#pragma GCC unroll 16
  for (int r = 0; r < R; r++)
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) sum[r][n] = V::zero();
  const float *v = j.v + channel * j.v_plane, *scores = j.scores;
  for (int key = 0; key < j.keys; key++, scores += N * V::width) {
    V x[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) x[n] = V::load(scores + n * V::width);
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
      const V w = V::all(v[r * j.v_plane + key]);
#pragma GCC unroll 4
      for (int n = 0; n < N; n++) sum[r][n] = V::fma(x[n], w, sum[r][n]);
    }
  }
#pragma GCC unroll 16
  for (ptrdiff_t r = 0; r < R; r++)
#pragma GCC unroll 4
    for (int n = 0; n < N; n++)
      (sum[r][n] * factor[n]).store(j.output + (channel + r) * j.output_plane + position + n * V::width);
}

// Call `many` for groups of R items, then `four` for groups of four. The last four may begin early and compute some
// items again, which is faster than one at a time; `one` is for less than four items.
template <int R, class Many, class Four, class One>
static inline void in_groups(ptrdiff_t count, Many many, Four four, One one) {
  ptrdiff_t done = 0;
  for (; done + R <= count; done += R) many(done);
  for (; done < count && count >= 4; done += 4) four(done + 4 <= count ? done : count - 4);
  for (; done < count; done++) one(done);
}

template <class V, int N>
static inline void attention_tile(const Attention& j, ptrdiff_t position) {
  constexpr int rows = Vec::width == 8 ? 6 : 8;  // whose sums fit the registers
  V most[N], sum[N];
  for (int n = 0; n < N; n++) {
    most[n] = V::all(-__builtin_inff());
    sum[n] = V::zero();
  }
  in_groups<rows>(
      j.keys, [&](ptrdiff_t key) { score_keys<V, rows, N>(j, key, position, most); },
      [&](ptrdiff_t key) { score_keys<V, 4, N>(j, key, position, most); },
      [&](ptrdiff_t key) { score_keys<V, 1, N>(j, key, position, most); });
  for (ptrdiff_t key = 0; key < j.keys; key++) {
    float* scores = j.scores + key * (N * V::width);
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) {
      const V power = power_of_two(V::load(scores + n * V::width) - most[n]);
      sum[n] = sum[n] + power;
      power.store(scores + n * V::width);
    }
  }
  for (int n = 0; n < N; n++) sum[n] = V::all(1.0f) / sum[n];
  in_groups<rows>(
      j.width, [&](ptrdiff_t channel) { mean_values<V, rows, N>(j, channel, position, sum); },
      [&](ptrdiff_t channel) { mean_values<V, 4, N>(j, channel, position, sum); },
      [&](ptrdiff_t channel) { mean_values<V, 1, N>(j, channel, position, sum); });
}

#include "few_queries.inl"

// Two vectors of queries at a time: their scores mostly stay in the L1 cache. The last may be half a vector, or few.
static void attention(const Attention& j) {
  ptrdiff_t position = 0;
  for (; position + Vec::width < j.queries; position += 2 * Vec::width) {
    const ptrdiff_t second = position + Vec::width;
    if (fits_half_vector(second, j.queries) || are_few(j, second)) break;
    attention_tile<Vec, 2>(j, position);
  }
  for (; position < j.queries; position += Vec::width) {
    if (are_few(j, position)) return attend_few_of(j, position, j.queries - position);
    if (fits_half_vector(position, j.queries)) {
      attention_tile<HalfVec, 1>(j, position);
    } else {
      attention_tile<Vec, 1>(j, position);
    }
  }
}
