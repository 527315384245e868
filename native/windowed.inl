// Convolutions of windows: direct and depthwise.

// Load the shifted inputs of one tile into registers, and let each used kernel of this input add to its output.
template <class V, int T, int N>
static inline void accumulate(const float* input, const ptrdiff_t* offset, const typename V::Mask (*masks)[N],
                              const uint16_t* list, ptrdiff_t count, const float* weights, const float* next,
                              ptrdiff_t taps, float* sums) {
  V x[T][N];
#pragma GCC unroll 16
  for (int t = 0; t < T; t++)
#pragma GCC unroll 4
    for (int i = 0; i < N; i++) x[t][i] = V::load(input + offset[t] + i * V::width, masks[t][i]);
  for (ptrdiff_t k = 0; k < count; k++) {
    const ptrdiff_t kernel = list[k] >> 8, output = list[k] & 0xff;
    const float* w = weights + kernel * taps;
    __builtin_prefetch(next + kernel * taps);  // the next input's kernels are elsewhere in memory
    float* sum = sums + output * static_cast<ptrdiff_t>(N * V::width);
    V s[N];
#pragma GCC unroll 4
    for (int i = 0; i < N; i++) s[i] = V::load(sum + i * V::width);
#pragma GCC unroll 16
    for (int t = 0; t < T; t++) {
      const V weight = V::all(w[t]);
#pragma GCC unroll 4
      for (int i = 0; i < N; i++) s[i] = V::fma(x[t][i], weight, s[i]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < N; i++) s[i].store(sum + i * V::width);
  }
}

template <class V, int N>
using Accumulate = void (*)(const float*, const ptrdiff_t*, const typename V::Mask (*)[N], const uint16_t*, ptrdiff_t,
                            const float*, const float*, ptrdiff_t, float*);
template <class V, int N>
static constexpr Accumulate<V, N> kAccumulate[kMaxTaps + 1] = {nullptr,
                                                               accumulate<V, 1, N>,
                                                               accumulate<V, 2, N>,
                                                               accumulate<V, 3, N>,
                                                               accumulate<V, 4, N>,
                                                               accumulate<V, 5, N>,
                                                               accumulate<V, 6, N>,
                                                               accumulate<V, 7, N>,
                                                               accumulate<V, 8, N>,
                                                               accumulate<V, 9, N>};

struct Counting {
  uint16_t n[kOutputBlock];
  constexpr Counting() : n() {
    for (int i = 0; i < kOutputBlock; i++) n[i] = static_cast<uint16_t>(i << 8 | i);
  }
};
static constexpr Counting kCounting;

// Prefetch the edges of the next input, which another core may have written, and claim some of the output's cache lines
// by writing to them. A prefetch does not claim a line, and claiming all lines at the end would take a third of the
// time.
template <class V, int N>
static inline void expect_and_claim(const Direct& d, ptrdiff_t input, ptrdiff_t position, const ptrdiff_t* offset,
                                    int taps) {
  const float* next = d.input + (input + 1) * d.channel + position;
  __builtin_prefetch(next + offset[0]);
  __builtin_prefetch(next + offset[taps - 1] + N * V::width - 1);
  for (ptrdiff_t o = d.outputs * input / d.inputs; o < d.outputs * (input + 1) / d.inputs; o++)
    for (int i = 0; i < N * V::width; i += kBlock) d.output[o * d.output_plane + position + i] = 0.0f;
}

// Widen the used kernels of one input, each to its index among the kept kernels.
static inline void widen_kernels(const Direct& d, const uint16_t* list, ptrdiff_t count, ptrdiff_t first_weight,
                                 ptrdiff_t next_weight, int taps) {
  const uint16_t* narrow = d.weights.as_bits16();
  const bool is_float16 = d.weights.precision == Precision::float16;
  for (ptrdiff_t k = 0; k < count; k++) {  // in order, because each write may run into the next kernel
    const ptrdiff_t kernel = list[k] >> 8;
    __builtin_prefetch(narrow + next_weight + kernel * d.window.taps);
    Vec::widen_few(narrow + first_weight + kernel * d.window.taps, is_float16, taps, d.widened + kernel * kMaxTaps);
  }
}

template <class V, int N, bool Shared, bool Narrow>
static void direct_tile(const Direct& d, ptrdiff_t position) {
  constexpr ptrdiff_t tile = N * V::width;
  const int taps = d.window.taps;
  typename V::Mask masks[kMaxTaps][N];
  for (ptrdiff_t i = 0; i < d.outputs * tile; i += V::width) V::zero().store(d.sums + i);
  for (int first = 0; first < taps; first += kMaxTaps) {  // large windows: nine taps at a time
    const int some = taps - first < kMaxTaps ? taps - first : kMaxTaps;
    for (int t = 0; t < some; t++)
      for (int n = 0; n < N; n++) masks[t][n] = V::mask(lane_bits<V>(d.window, position + n * V::width, first + t));
    const ptrdiff_t* offset = d.window.offset + first;
    const Accumulate<V, N> step = kAccumulate<V, N>[some];
    for (ptrdiff_t i = 0; i < d.inputs; i++) {
      const uint32_t begin = d.start[i], end = d.start[i + 1], kept = d.union_start[i];
      if (begin == end) continue;
      const float* input = d.input + i * d.channel + position;
      const ptrdiff_t first_weight = static_cast<ptrdiff_t>(kept) * taps + first;
      const ptrdiff_t next_weight =
          i + 1 < d.inputs ? static_cast<ptrdiff_t>(d.union_start[i + 1]) * taps + first : first_weight;
      const uint16_t* list = d.list + begin;
      if (Shared) expect_and_claim<V, N>(d, i, position, offset, some);
      const ptrdiff_t count = end - begin, row = Narrow ? kMaxTaps : taps;
      const float *weights = d.widened, *ahead = d.widened;
      if (Narrow) {
        widen_kernels(d, list, count, first_weight, next_weight, some);
      } else {
        weights = d.weights.as_float32() + first_weight;
        ahead = d.weights.as_float32() + next_weight;
      }
      if (some == kMaxTaps) {
        accumulate<V, kMaxTaps, N>(input, offset, masks, list, count, weights, ahead, row, d.sums);
      } else {
        step(input, offset, masks, list, count, weights, ahead, row, d.sums);
      }
    }
    if (d.ones)
      step(d.ones + position, offset, masks, kCounting.n, d.outputs, d.ones_weights + first, d.ones_weights + first,
           taps, d.sums);
  }
  for (ptrdiff_t o = 0; o < d.outputs; o++) {
    V x[N];
    for (int n = 0; n < N; n++) x[n] = V::load(d.sums + o * tile + n * V::width);
    finish<V, N>(x, d.epilogue, o, position, d.output + o * d.output_plane + position);
  }
}

template <bool Shared, bool Narrow>
static void direct_blocks(const Direct& d, ptrdiff_t first_block, ptrdiff_t last_block) {
  constexpr int many = Vec::width == 8 ? 1 : 3;  // nine shifted inputs of this many vectors fit the registers
  constexpr ptrdiff_t w = Vec::width;
  const ptrdiff_t end = last_block * kBlock;
  ptrdiff_t position = first_block * kBlock;
  const auto fits = [&](ptrdiff_t vectors) { return position + vectors * w <= end; };
  while (fits(many) && (many == 1 || end - position != 4 * w || fits_half_vector(position + 3 * w, d.pixels))) {
    direct_tile<Vec, many, Shared, Narrow>(d, position);
    position += many * w;
  }
  while (many > 1 && fits(2)) {
    direct_tile<Vec, 2, Shared, Narrow>(d, position);
    position += 2 * w;
  }
  for (; position < end; position += w) {
    if (fits_half_vector(position, d.pixels)) {
      direct_tile<HalfVec, 1, Shared, Narrow>(d, position);
    } else {
      direct_tile<Vec, 1, Shared, Narrow>(d, position);
    }
  }
}

static void direct(const Direct& d, ptrdiff_t first_block, ptrdiff_t last_block) {
  const bool narrow = d.weights.precision != Precision::float32;
  const auto blocks = d.shared ? (narrow ? direct_blocks<true, true> : direct_blocks<true, false>)
                               : (narrow ? direct_blocks<false, true> : direct_blocks<false, false>);
  blocks(d, first_block, last_block);
}

template <int N>
static inline void depthwise_tile(const Depthwise& d, ptrdiff_t position) {
  Vec sum[N];
  for (int n = 0; n < N; n++) sum[n] = Vec::zero();
  for (int t = 0; t < d.window.taps; t++) {
    const Vec w = Vec::all(d.weights[t]);
    for (int n = 0; n < N; n++) {
      const ptrdiff_t p = position + n * Vec::width;
      const Vec::Mask mask = Vec::mask(lane_bits<Vec>(d.window, p, t));
      sum[n] = Vec::fma(Vec::load(d.input + d.window.offset[t] + p, mask), w, sum[n]);
      if (d.ones)
        sum[n] = Vec::fma(Vec::load(d.ones + d.window.offset[t] + p, mask), Vec::all(d.ones_weights[t]), sum[n]);
    }
  }
  finish<Vec, N>(sum, d.epilogue, 0, position, d.output + position);
}

static void depthwise(const Depthwise& d, ptrdiff_t first_block, ptrdiff_t last_block) {
  const ptrdiff_t end = last_block * kBlock;
  ptrdiff_t position = first_block * kBlock;
  for (; position + 4 * Vec::width <= end; position += 4 * Vec::width) depthwise_tile<4>(d, position);
  for (; position < end; position += Vec::width) depthwise_tile<1>(d, position);
}
