// The kernels, once for all instruction sets; included inside a namespace that defines V.


template <class V>
static inline V exponential(V x) {
  x = V::min(V::max(x, V::all(-87.0f)), V::all(88.0f));
  const V n = V::round(x * V::all(1.44269504f));
  V r = V::fma(n, V::all(-0.693359375f), x);
  r = V::fma(n, V::all(2.12194440e-4f), r);
  V p = V::all(1.9875691500e-4f);
  p = V::fma(p, r, V::all(1.3981999507e-3f));
  p = V::fma(p, r, V::all(8.3334519073e-3f));
  p = V::fma(p, r, V::all(4.1665795894e-2f));
  p = V::fma(p, r, V::all(1.6666665459e-1f));
  p = V::fma(p, r, V::all(5.0000001201e-1f));
  return V::fma(p * r, r, r + V::all(1.0f)) * V::pow2(n);
}

template <class V>
static inline V sigmoid(V x) { return V::all(1.0f) / (V::all(1.0f) + exponential(V::zero() - x)); }

template <class V>
static inline V tanh(V x) {
  // near zero the quotient below would lose digits
  const V square = x * x;
  V series = V::all(-17.0f / 315.0f);
  series = V::fma(series, square, V::all(2.0f / 15.0f));
  series = V::fma(series, square, V::all(-1.0f / 3.0f));
  series = V::fma(series * square, x, x);
  const V e = exponential(V::min(x, V::all(20.0f)) * V::all(2.0f));
  const V quotient = (e - V::all(1.0f)) / (e + V::all(1.0f));
  return V::select(V::less(V::abs(x), V::all(0.1f)), series, quotient);
}

// Abramowitz and Stegun 7.1.26: at most 1.5e-7 away
template <class V>
static inline V error_function(V x) {
  const V a = V::abs(x), t = V::all(1.0f) / V::fma(a, V::all(0.3275911f), V::all(1.0f));
  V p = V::all(1.061405429f);
  p = V::fma(p, t, V::all(-1.453152027f));
  p = V::fma(p, t, V::all(1.421413741f));
  p = V::fma(p, t, V::all(-0.284496736f));
  p = V::fma(p, t, V::all(0.254829592f));
  const V y = V::all(1.0f) - p * t * exponential(V::zero() - a * a);
  return V::select(V::less(x, V::zero()), V::zero() - y, y);
}

template <class V>
static inline V logarithm_of_one_plus_exp(V x) {  // softplus, for mish
  alignas(64) float lanes[V::width];
  x.store(lanes);
  for (float& each : lanes) each = each > 20.0f ? each : __builtin_log1pf(__builtin_expf(each));
  return V::load(lanes);
}

template <class V>
static inline V activate(V x, Activation activation, float slope) {
  const V zero = V::zero(), one = V::all(1.0f);
  switch (activation) {
    case Activation::none: return x;
    case Activation::relu: return V::max(x, zero);
    case Activation::relu6: return V::min(V::max(x, zero), V::all(6.0f));
    case Activation::leaky_relu: return V::select(V::less(x, zero), x * V::all(slope), x);
    case Activation::elu: return V::select(V::less(x, zero), (exponential(x) - one) * V::all(slope), x);
    case Activation::silu: return x * sigmoid(x);
    case Activation::gelu:
      return x * V::all(0.5f) * (one + error_function(x * V::all(0.70710678f)));
    case Activation::gelu_tanh:
      return x * V::all(0.5f) *
             (one + tanh(V::all(0.79788456f) * V::fma(x * x * x, V::all(0.044715f), x)));
    case Activation::mish: return x * tanh(logarithm_of_one_plus_exp(x));
    case Activation::hard_swish:
      return x * V::min(V::max(x + V::all(3.0f), zero), V::all(6.0f)) * V::all(1.0f / 6.0f);
    case Activation::hard_sigmoid:
      return V::min(V::max(x + V::all(3.0f), zero), V::all(6.0f)) * V::all(1.0f / 6.0f);
    case Activation::sigmoid: return sigmoid(x);
    case Activation::tanh: return tanh(x);
  }
  return x;
}

// Finish the sums of one output channel at one place.
template <class V, int N>
static inline void finish(V (&x)[N], const Epilogue& e, long channel, long place, float* output) {
  const V scale = e.scale ? V::all(e.scale[channel]) : V::all(1.0f);
  const V bias = e.bias ? V::all(e.bias[channel]) : V::zero();
  for (int i = 0; i < N; i++) x[i] = V::fma(x[i], scale, bias);
  if (e.residual) {
    const float* residual = e.residual + channel * e.residual_plane + place;
    for (int i = 0; i < N; i++) x[i] = x[i] + V::load(residual + i * V::width);
  }
  if (e.activation == Activation::relu) {  // by far the most frequent: no jump
    for (int i = 0; i < N; i++) x[i] = V::max(x[i], V::zero());
  } else if (e.activation != Activation::none) {
    for (int i = 0; i < N; i++) x[i] = activate(x[i], e.activation, e.slope);
  }
  for (int i = 0; i < N; i++) x[i].store(output + i * V::width);
}

// Ask for the lines that a later output channel will read and write: planes lie too far apart for the processor to guess.
template <class V, int N>
static inline void expect_output(const Epilogue& e, long channel, long place, const float* output, long plane) {
  for (int i = 0; i < N * V::width; i += kBlock) {
    __builtin_prefetch(output + channel * plane + place + i, 1);
    if (e.residual) __builtin_prefetch(e.residual + channel * e.residual_plane + place + i, 0);
  }
}
constexpr long kAhead = 4;  // output channels

template <class V>
static inline uint32_t lane_bits(const Window& w, long place, int tap) {
  constexpr uint32_t all = V::width == 32 ? 0xffffffffu : (1u << V::width) - 1;
  return w.bits[place / kBlock * w.taps + tap] >> (place % kBlock) & all;
}

// Take the shifted inputs of one tile into registers, and let every kernel that reads this input add to its output.
template <class V, int T, int N>
static inline void accumulate(const float* input, const long* offset, const typename V::Mask (*masks)[N], const uint16_t* list,
                              long count, const uint16_t* outputs, const float* weights, const float* next, long taps,
                              float* sums) {
  V x[T][N];
#pragma GCC unroll 16
  for (int t = 0; t < T; t++)
#pragma GCC unroll 4
    for (int i = 0; i < N; i++) x[t][i] = V::load(input + offset[t] + i * V::width, masks[t][i]);
  for (long k = 0; k < count; k++) {
    const long kernel = list[k];
    const float* w = weights + kernel * taps;
    __builtin_prefetch(next + kernel * taps);  // the next input's kernels lie elsewhere
    float* sum = sums + outputs[kernel] * static_cast<long>(N * V::width);
    V s[N];
#pragma GCC unroll 4
    for (int i = 0; i < N; i++) s[i] = V::load(sum + i * V::width);
#pragma GCC unroll 16
    for (int t = 0; t < T; t++) {
      const V each = V::all(w[t]);
#pragma GCC unroll 4
      for (int i = 0; i < N; i++) s[i] = V::fma(x[t][i], each, s[i]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < N; i++) s[i].store(sum + i * V::width);
  }
}

template <class V, int N>
using Accumulate = void (*)(const float*, const long*, const typename V::Mask (*)[N], const uint16_t*, long, const uint16_t*,
                            const float*, const float*, long, float*);
template <class V, int N>
static constexpr Accumulate<V, N> kAccumulate[kMaxTaps + 1] = {
    nullptr,          accumulate<V, 1, N>, accumulate<V, 2, N>, accumulate<V, 3, N>, accumulate<V, 4, N>,
    accumulate<V, 5, N>, accumulate<V, 6, N>, accumulate<V, 7, N>, accumulate<V, 8, N>, accumulate<V, 9, N>};

struct Counting {
  uint16_t n[kOutputBlock];
  constexpr Counting() : n() {
    for (int i = 0; i < kOutputBlock; i++) n[i] = static_cast<uint16_t>(i);
  }
};
static constexpr Counting kCounting;

template <class V, int N>
static void direct_tile(const Direct& d, long place) {
  constexpr long tile = N * V::width;
  const int taps = d.window.taps;
  typename V::Mask masks[kMaxTaps][N];
  for (long i = 0; i < d.outputs * tile; i += V::width) V::zero().store(d.sums + i);
  for (int first = 0; first < taps; first += kMaxTaps) {  // large windows: nine taps at a time
    const int some = taps - first < kMaxTaps ? taps - first : kMaxTaps;
    for (int t = 0; t < some; t++)
      for (int n = 0; n < N; n++) masks[t][n] = V::mask(lane_bits<V>(d.window, place + n * V::width, first + t));
    const long* offset = d.window.offset + first;
    const Accumulate<V, N> step = kAccumulate<V, N>[some];
    for (long i = 0; i < d.inputs; i++) {
      const uint32_t begin = d.start[i], end = d.start[i + 1], kept = d.union_start[i];
      if (begin == end) continue;
      const float* input = d.input + i * d.channel + place;
      const float* weights = d.weights + static_cast<long>(kept) * taps + first;
      const float* next = i + 1 < d.inputs ? d.weights + static_cast<long>(d.union_start[i + 1]) * taps + first : weights;
      const uint16_t *list = d.list + begin, *outputs = d.union_output + kept;
      if (some == kMaxTaps) accumulate<V, kMaxTaps, N>(input, offset, masks, list, end - begin, outputs, weights, next, taps, d.sums);
      else step(input, offset, masks, list, end - begin, outputs, weights, next, taps, d.sums);
    }
    if (d.ones)
      step(d.ones + place, offset, masks, kCounting.n, d.outputs, kCounting.n, d.ones_weights + first, d.ones_weights + first,
           taps, d.sums);
  }
  for (long o = 0; o < d.outputs; o++) {
    V x[N];
    for (int n = 0; n < N; n++) x[n] = V::load(d.sums + o * tile + n * V::width);
    finish<V, N>(x, d.epilogue, o, place, d.output + o * d.output_plane + place);
  }
}

// The last block of a plane is often half empty: then half a vector will do.
static inline bool half_is_enough(long place, long pixels) { return Half::width < Vec::width && pixels - place <= Half::width; }

static void direct(const Direct& d, long first_block, long last_block) {
  constexpr int many = Vec::width == 8 ? 1 : 3;  // nine shifted inputs of so many vectors fit the registers
  constexpr long w = Vec::width;
  const long end = last_block * kBlock;
  long place = first_block * kBlock;
  const auto fits = [&](long vectors) { return place + vectors * w <= end; };
  while (fits(many) && (many == 1 || end - place != 4 * w || half_is_enough(place + 3 * w, d.pixels)))
    direct_tile<Vec, many>(d, place), place += many * w;
  while (many > 1 && fits(2)) direct_tile<Vec, 2>(d, place), place += 2 * w;
  for (; place < end; place += w)
    half_is_enough(place, d.pixels) ? direct_tile<Half, 1>(d, place) : direct_tile<Vec, 1>(d, place);
}

template <int N>
static inline void depthwise_tile(const Depthwise& d, long place) {
  Vec sum[N];
  for (int n = 0; n < N; n++) sum[n] = Vec::zero();
  for (int t = 0; t < d.window.taps; t++) {
    const Vec w = Vec::all(d.weights[t]);
    for (int n = 0; n < N; n++) {
      const long p = place + n * Vec::width;
      const Vec::Mask mask = Vec::mask(lane_bits<Vec>(d.window, p, t));
      sum[n] = Vec::fma(Vec::load(d.input + d.window.offset[t] + p, mask), w, sum[n]);
      if (d.ones) sum[n] = Vec::fma(Vec::load(d.ones + d.window.offset[t] + p, mask), Vec::all(d.ones_weights[t]), sum[n]);
    }
  }
  finish<Vec, N>(sum, d.epilogue, 0, place, d.output + place);
}

static void depthwise(const Depthwise& d, long blocks) {
  const long end = blocks * kBlock;
  long place = 0;
  for (; place + 4 * Vec::width <= end; place += 4 * Vec::width) depthwise_tile<4>(d, place);
  for (; place < end; place += Vec::width) depthwise_tile<1>(d, place);
}

static void select(const Selection& s) {
  const uint16_t* bits = s.bits;
  const uint32_t* list = s.union_start;
  for (long o = 0; o < s.outputs; o++) {
    for (long block = 0; block < s.blocks; block++, list++) {
      uint32_t found = s.start[block * (s.outputs + 1) + o];
      for (uint32_t k = list[0]; k < list[1]; k += kBlock) {
        const auto compress = k + kBlock <= s.all ? Vec::compress : compress_bit_by_bit;  // nothing is read behind the last
        found += static_cast<uint32_t>(compress(s.weights + k, s.places + k, *bits++, s.kept + found, s.offsets + found));
      }
    }
  }
}

// N vectors of pixels, C chains of sums each: together enough to hide the latency of multiply-add
template <class V, int N, int C>
static inline void gather(const Pointwise& j, const float* input, uint32_t k, uint32_t end, V (&total)[N]) {
  V sum[C][N];
#pragma GCC unroll 4
  for (int c = 1; c < C; c++)
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) sum[c][n] = V::zero();
#pragma GCC unroll 8
  for (int n = 0; n < N; n++) sum[0][n] = total[n];
  for (; k + C <= end; k += C) {
#pragma GCC unroll 4
    for (int c = 0; c < C; c++) {
      const V w = V::all(j.weights[k + c]);
      const float* x = input + j.offsets[k + c];
#pragma GCC unroll 8
      for (int n = 0; n < N; n++) sum[c][n] = V::fma(V::load(x + n * V::width), w, sum[c][n]);
    }
  }
  for (; k < end; k++) {
    const V w = V::all(j.weights[k]);
    const float* x = input + j.offsets[k];
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) sum[0][n] = V::fma(V::load(x + n * V::width), w, sum[0][n]);
  }
#pragma GCC unroll 4
  for (int c = 1; c < C; c++)
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) sum[0][n] = sum[0][n] + sum[c][n];
#pragma GCC unroll 8
  for (int n = 0; n < N; n++) total[n] = sum[0][n];
}

template <class V, int N, int C>
static void pointwise_tile(const Pointwise& j, long place) {
  constexpr long tile = N * V::width;
  for (int block = 0; block < j.blocks; block++) {
    for (long o = 0; o < j.outputs; o++) {
      float* kept = j.sums + o * tile;
      V sum[N];
#pragma GCC unroll 8
      for (int n = 0; n < N; n++) sum[n] = block ? V::load(kept + n * V::width) : V::zero();
      const uint32_t* start = j.start + block * (j.outputs + 1L) + o;
      if (block + 1 == j.blocks) expect_output<V, N>(j.epilogue, o + kAhead, place, j.output, j.output_plane);
      gather<V, N, C>(j, j.input + place, start[0], start[1], sum);
      if (block + 1 == j.blocks) finish<V, N>(sum, j.epilogue, o, place, j.output + o * j.output_plane + place);
      else
#pragma GCC unroll 8
        for (int n = 0; n < N; n++) sum[n].store(kept + n * V::width);
    }
  }
}

// Tiles of four vectors; one vector alone would cost nearly as much as four, so that five go together at the end.
static void pointwise(const Pointwise& j, long first_block, long last_block) {
  constexpr long w = Vec::width;
  const long end = last_block * kBlock;
  long place = first_block * kBlock;
  if (j.few_inputs)
    for (; place + 6 * w <= end; place += 6 * w) pointwise_tile<Vec, 6, 1>(j, place);
  for (; place + 4 * w <= end && end - place != 5 * w; place += 4 * w) pointwise_tile<Vec, 4, 1>(j, place);
  if (place + 5 * w <= end) pointwise_tile<Vec, 5, 1>(j, place), place += 5 * w;
  if (place + 3 * w <= end) pointwise_tile<Vec, 3, 2>(j, place), place += 3 * w;
  if (place + 2 * w <= end) pointwise_tile<Vec, 2, 2>(j, place), place += 2 * w;
  for (; place < end; place += w)
    half_is_enough(place, j.pixels) ? pointwise_tile<Half, 1, 4>(j, place) : pointwise_tile<Vec, 1, 4>(j, place);
}

template <class V, int N>
static inline void dense_tile(const DensePointwise& j, int panel, long place) {
  V sum[kRows][N];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r++)
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) sum[r][n] = V::zero();
  for (long r = 0; r < kRows; r++) expect_output<V, N>(j.epilogue, panel * kRows + r, place, j.output, j.output_plane);
  const float* weights = j.packed + static_cast<long>(panel) * j.inputs * kRows;
  const float* input = j.input + place;
  for (int i = 0; i < j.inputs; i++, weights += kRows, input += j.plane) {
    V x[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) x[n] = V::load(input + n * V::width);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; r++) {
      const V w = V::all(weights[r]);
#pragma GCC unroll 4
      for (int n = 0; n < N; n++) sum[r][n] = V::fma(x[n], w, sum[r][n]);
    }
  }
  for (int r = 0; r < kRows && panel * kRows + r < j.outputs; r++) {
    const long o = static_cast<long>(panel) * kRows + r;
    finish<V, N>(sum[r], j.epilogue, o, place, j.output + o * j.output_plane + place);
  }
}

template <class V, int N>
static inline void dense_panels(const DensePointwise& j, int first_panel, int last_panel, long place) {
  for (int p = first_panel; p < last_panel; p++) dense_tile<V, N>(j, p, place);
}

static void dense_pointwise(const DensePointwise& j, int first_panel, int last_panel, long first_block, long last_block) {
  constexpr int many = Vec::width == 8 ? 2 : 4;  // 6 x 2 or 6 x 4 sums fit the registers
  constexpr long w = Vec::width;
  const long end = last_block * kBlock;
  long place = first_block * kBlock;
  for (; place + many * w <= end; place += many * w) dense_panels<Vec, many>(j, first_panel, last_panel, place);
  if (place + 2 * w <= end) dense_panels<Vec, 2>(j, first_panel, last_panel, place), place += 2 * w;
  for (; place < end; place += w)
    half_is_enough(place, j.pixels) ? dense_panels<Half, 1>(j, first_panel, last_panel, place)
                                    : dense_panels<Vec, 1>(j, first_panel, last_panel, place);
}

static void vectorwise(const Vectorwise& j, int first_output, int last_output) {
  for (int o = first_output; o < last_output; o++) {
    Vec sum[2] = {Vec::zero(), Vec::zero()};
    const float* row = j.rows + static_cast<long>(o) * j.blocks * kBlock;
    const uint16_t* bits = j.bits ? j.bits + static_cast<long>(o) * j.blocks : nullptr;
    for (long b = 0; b < j.blocks; b++) {
      const uint32_t on = bits ? bits[b] : 0xffffu;
      if (!on) continue;
      for (int lane = 0; lane < kBlock; lane += Vec::width) {
        const Vec w = Vec::load(row + b * kBlock + lane, Vec::mask(on >> lane));
        Vec& s = sum[(b + lane / Vec::width) & 1];
        s = Vec::fma(w, Vec::load(j.input + b * kBlock + lane), s);
      }
    }
    Vec x[1] = {Vec::all((sum[0] + sum[1]).sum())};
    alignas(64) float found[Vec::width], residual[Vec::width] = {};
    Epilogue e = j.epilogue;
    if (e.residual) residual[0] = e.residual[o * e.residual_plane], e.residual = residual;
    e.residual_plane = 0;  // one pixel only: a vector would read what is not there
    finish<Vec, 1>(x, e, o, 0, found);
    j.output[o * j.output_plane] = found[0];
  }
}

static void pool(const Pooling& j, long blocks) {
  for (long place = 0; place < blocks * kBlock; place += Vec::width) {
    const Vec start = Vec::all(j.largest ? -__builtin_inff() : 0.0f);
    Vec found = start;
    for (int t = 0; t < j.window.taps; t++) {
      const Vec::Mask mask = Vec::mask(lane_bits<Vec>(j.window, place, t));
      const Vec x = Vec::load(j.input + j.window.offset[t] + place, mask);
      found = j.largest ? Vec::max(found, Vec::select(mask, x, start)) : found + x;
    }
    if (!j.largest) found = found * Vec::load(j.factors + place);
    found.store(j.output + place);
  }
}

static void elementwise(const Elementwise& j, long blocks) {
  const Vec scale = Vec::all(j.scale), bias = Vec::all(j.bias);
  const Vec pixel = j.kind == Elementwise::Kind::mul_pixel ? Vec::all(*j.second) : Vec::zero();
  for (long place = 0; place < blocks * kBlock; place += Vec::width) {
    Vec x = Vec::load(j.first + place);
    switch (j.kind) {
      case Elementwise::Kind::affine: x = Vec::fma(x, scale, bias); break;
      case Elementwise::Kind::add: x = x + Vec::load(j.second + place); break;
      case Elementwise::Kind::mul: x = x * Vec::load(j.second + place); break;
      case Elementwise::Kind::mul_pixel: x = x * pixel; break;
    }
    activate(x, j.activation, j.slope).store(j.output + place);
  }
}

static void layer_norm(const LayerNorm& j, long first_block, long last_block) {
  const Vec count = Vec::all(static_cast<float>(j.channels));
  for (long place = first_block * kBlock; place < last_block * kBlock; place += Vec::width) {
    Vec mean = Vec::zero(), variance = Vec::zero();
    for (long c = 0; c < j.channels; c++) mean = mean + Vec::load(j.input + c * j.plane + place);
    mean = mean / count;
    for (long c = 0; c < j.channels; c++) {
      const Vec d = Vec::load(j.input + c * j.plane + place) - mean;
      variance = Vec::fma(d, d, variance);
    }
    const Vec factor = Vec::all(1.0f) / Vec::sqrt(variance / count + Vec::all(j.eps));
    for (long c = 0; c < j.channels; c++) {
      Vec x = (Vec::load(j.input + c * j.plane + place) - mean) * factor;
      x = Vec::fma(x, Vec::all(j.scale ? j.scale[c] : 1.0f), Vec::all(j.bias ? j.bias[c] : 0.0f));
      x.store(j.output + c * j.output_plane + place);
    }
  }
}

static float sum(const float* plane, long count) {
  Vec total = Vec::zero();
  long i = 0;
  for (; i + Vec::width <= count; i += Vec::width) total = total + Vec::load(plane + i);
  float found = total.sum();
  for (; i < count; i++) found += plane[i];
  return found;
}

// Split a row: even and odd floats; either may be null. May read up to two vectors behind the row.
static void every_second(const float* from, long count, float* even, float* odd) {
  for (long i = 0; i < count; i += 2 * Vec::width) {
    Vec a, b;
    Vec::deinterleave(from + i, a, b);
    if (i + 2 * Vec::width <= count) {
      if (even) a.store(even + i / 2);
      if (odd) b.store(odd + i / 2);
    } else {
      if (even) a.store(even + i / 2, (count - i + 1) / 2);
      if (odd) b.store(odd + i / 2, (count - i) / 2);
    }
  }
}

static constexpr Kernels make_table(const char* name) {
  return {name,           direct, depthwise,   select,     pointwise, dense_pointwise,
          vectorwise,     pool,   elementwise, layer_norm, sum,       every_second};
}
