// The kernels, once for all instruction sets; included inside a namespace that defines Vec.


static inline Vec exponential(Vec x) {
  x = Vec::min(Vec::max(x, Vec::all(-87.0f)), Vec::all(88.0f));
  const Vec n = Vec::round(x * Vec::all(1.44269504f));
  Vec r = Vec::fma(n, Vec::all(-0.693359375f), x);
  r = Vec::fma(n, Vec::all(2.12194440e-4f), r);
  Vec p = Vec::all(1.9875691500e-4f);
  p = Vec::fma(p, r, Vec::all(1.3981999507e-3f));
  p = Vec::fma(p, r, Vec::all(8.3334519073e-3f));
  p = Vec::fma(p, r, Vec::all(4.1665795894e-2f));
  p = Vec::fma(p, r, Vec::all(1.6666665459e-1f));
  p = Vec::fma(p, r, Vec::all(5.0000001201e-1f));
  return Vec::fma(p * r, r, r + Vec::all(1.0f)) * Vec::pow2(n);
}

static inline Vec sigmoid(Vec x) { return Vec::all(1.0f) / (Vec::all(1.0f) + exponential(Vec::zero() - x)); }

static inline Vec tanh(Vec x) {
  // near zero the quotient below would lose digits
  const Vec square = x * x;
  Vec series = Vec::all(-17.0f / 315.0f);
  series = Vec::fma(series, square, Vec::all(2.0f / 15.0f));
  series = Vec::fma(series, square, Vec::all(-1.0f / 3.0f));
  series = Vec::fma(series * square, x, x);
  const Vec e = exponential(Vec::min(x, Vec::all(20.0f)) * Vec::all(2.0f));
  const Vec quotient = (e - Vec::all(1.0f)) / (e + Vec::all(1.0f));
  return Vec::select(Vec::less(Vec::abs(x), Vec::all(0.1f)), series, quotient);
}

// Abramowitz and Stegun 7.1.26: at most 1.5e-7 away
static inline Vec error_function(Vec x) {
  const Vec a = Vec::abs(x), t = Vec::all(1.0f) / Vec::fma(a, Vec::all(0.3275911f), Vec::all(1.0f));
  Vec p = Vec::all(1.061405429f);
  p = Vec::fma(p, t, Vec::all(-1.453152027f));
  p = Vec::fma(p, t, Vec::all(1.421413741f));
  p = Vec::fma(p, t, Vec::all(-0.284496736f));
  p = Vec::fma(p, t, Vec::all(0.254829592f));
  const Vec y = Vec::all(1.0f) - p * t * exponential(Vec::zero() - a * a);
  return Vec::select(Vec::less(x, Vec::zero()), Vec::zero() - y, y);
}

static inline Vec logarithm_of_one_plus_exp(Vec x) {  // softplus, for mish
  alignas(64) float lanes[Vec::width];
  x.store(lanes);
  for (float& each : lanes) each = each > 20.0f ? each : __builtin_log1pf(__builtin_expf(each));
  return Vec::load(lanes);
}

static inline Vec activate(Vec x, Activation activation, float slope) {
  const Vec zero = Vec::zero(), one = Vec::all(1.0f);
  switch (activation) {
    case Activation::none: return x;
    case Activation::relu: return Vec::max(x, zero);
    case Activation::relu6: return Vec::min(Vec::max(x, zero), Vec::all(6.0f));
    case Activation::leaky_relu: return Vec::select(Vec::less(x, zero), x * Vec::all(slope), x);
    case Activation::elu: return Vec::select(Vec::less(x, zero), (exponential(x) - one) * Vec::all(slope), x);
    case Activation::silu: return x * sigmoid(x);
    case Activation::gelu:
      return x * Vec::all(0.5f) * (one + error_function(x * Vec::all(0.70710678f)));
    case Activation::gelu_tanh:
      return x * Vec::all(0.5f) *
             (one + tanh(Vec::all(0.79788456f) * Vec::fma(x * x * x, Vec::all(0.044715f), x)));
    case Activation::mish: return x * tanh(logarithm_of_one_plus_exp(x));
    case Activation::hard_swish:
      return x * Vec::min(Vec::max(x + Vec::all(3.0f), zero), Vec::all(6.0f)) * Vec::all(1.0f / 6.0f);
    case Activation::hard_sigmoid:
      return Vec::min(Vec::max(x + Vec::all(3.0f), zero), Vec::all(6.0f)) * Vec::all(1.0f / 6.0f);
    case Activation::sigmoid: return sigmoid(x);
    case Activation::tanh: return tanh(x);
  }
  return x;
}

// Finish the sums of one output channel at one place.
template <int N>
static inline void finish(Vec (&x)[N], const Epilogue& e, long channel, long place, float* output) {
  const Vec scale = e.scale ? Vec::all(e.scale[channel]) : Vec::all(1.0f);
  const Vec bias = e.bias ? Vec::all(e.bias[channel]) : Vec::zero();
  for (int i = 0; i < N; i++) x[i] = Vec::fma(x[i], scale, bias);
  if (e.residual) {
    const float* residual = e.residual + channel * e.residual_plane + place;
    for (int i = 0; i < N; i++) x[i] = x[i] + Vec::load(residual + i * Vec::width);
  }
  if (e.activation == Activation::relu) {  // by far the most frequent: no jump
    for (int i = 0; i < N; i++) x[i] = Vec::max(x[i], Vec::zero());
  } else if (e.activation != Activation::none) {
    for (int i = 0; i < N; i++) x[i] = activate(x[i], e.activation, e.slope);
  }
  for (int i = 0; i < N; i++) x[i].store(output + i * Vec::width);
}

static inline uint32_t lane_bits(const Window& w, long place, int tap) {
  constexpr uint32_t all = Vec::width == 32 ? 0xffffffffu : (1u << Vec::width) - 1;
  return w.bits[place / kBlock * w.taps + tap] >> (place % kBlock) & all;
}

// Take the shifted inputs of one tile into registers, and let every kernel that reads this input add to its output.
template <int T, int N>
static inline void accumulate(const float* input, const long* offset, const Vec::Mask (*masks)[N], const uint16_t* list,
                              long count, const uint16_t* outputs, const float* weights, long taps, float* sums) {
  Vec x[T][N];
#pragma GCC unroll 16
  for (int t = 0; t < T; t++)
#pragma GCC unroll 4
    for (int i = 0; i < N; i++) x[t][i] = Vec::load(input + offset[t] + i * Vec::width, masks[t][i]);
  for (long k = 0; k < count; k++) {
    const long kernel = list[k];
    const float* w = weights + kernel * taps;
    float* sum = sums + outputs[kernel] * static_cast<long>(N * Vec::width);
    Vec s[N];
#pragma GCC unroll 4
    for (int i = 0; i < N; i++) s[i] = Vec::load(sum + i * Vec::width);
#pragma GCC unroll 16
    for (int t = 0; t < T; t++) {
      const Vec each = Vec::all(w[t]);
#pragma GCC unroll 4
      for (int i = 0; i < N; i++) s[i] = Vec::fma(x[t][i], each, s[i]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < N; i++) s[i].store(sum + i * Vec::width);
  }
}

template <int N>
using Accumulate = void (*)(const float*, const long*, const Vec::Mask (*)[N], const uint16_t*, long, const uint16_t*,
                            const float*, long, float*);
template <int N>
static constexpr Accumulate<N> kAccumulate[kMaxTaps + 1] = {
    nullptr,          accumulate<1, N>, accumulate<2, N>, accumulate<3, N>, accumulate<4, N>,
    accumulate<5, N>, accumulate<6, N>, accumulate<7, N>, accumulate<8, N>, accumulate<9, N>};

struct Counting {
  uint16_t n[kOutputBlock];
  constexpr Counting() : n() {
    for (int i = 0; i < kOutputBlock; i++) n[i] = static_cast<uint16_t>(i);
  }
};
static constexpr Counting kCounting;

template <int N>
static void direct_tile(const Direct& d, long place) {
  constexpr long tile = N * Vec::width;
  const int taps = d.window.taps;
  Vec::Mask masks[kMaxTaps][N];
  for (long i = 0; i < d.outputs; i++)
    for (int n = 0; n < N; n++) Vec::zero().store(d.sums + i * tile + n * Vec::width);
  for (int first = 0; first < taps; first += kMaxTaps) {  // large windows: nine taps at a time
    const int some = taps - first < kMaxTaps ? taps - first : kMaxTaps;
    for (int t = 0; t < some; t++)
      for (int n = 0; n < N; n++) masks[t][n] = Vec::mask(lane_bits(d.window, place + n * Vec::width, first + t));
    const long* offset = d.window.offset + first;
    const Accumulate<N> step = kAccumulate<N>[some];
    for (long i = 0; i < d.inputs; i++) {
      const uint32_t begin = d.start[i], end = d.start[i + 1], kept = d.union_start[i];
      if (begin == end) continue;
      const float* input = d.input + i * d.channel + place;
      if (some == kMaxTaps) {
        accumulate<kMaxTaps, N>(input, offset, masks, d.list + begin, end - begin, d.union_output + kept,
                                d.weights + static_cast<long>(kept) * taps + first, taps, d.sums);
      } else {
        step(input, offset, masks, d.list + begin, end - begin, d.union_output + kept,
             d.weights + static_cast<long>(kept) * taps + first, taps, d.sums);
      }
    }
    if (d.ones)
      step(d.ones + place, offset, masks, kCounting.n, d.outputs, kCounting.n, d.ones_weights + first, taps, d.sums);
  }
  for (long o = 0; o < d.outputs; o++) {
    Vec x[N];
    for (int n = 0; n < N; n++) x[n] = Vec::load(d.sums + o * tile + n * Vec::width);
    finish<N>(x, d.epilogue, o, place, d.output + o * d.output_plane + place);
  }
}

static void direct(const Direct& d, long first_block, long last_block) {
  constexpr int many = Vec::width == 8 ? 1 : 2;  // nine shifted inputs of so many vectors fit the registers
  const long end = last_block * kBlock;
  long place = first_block * kBlock;
  for (; place + many * Vec::width <= end; place += many * Vec::width) direct_tile<many>(d, place);
  for (; place < end; place += Vec::width) direct_tile<1>(d, place);
}

template <int N>
static inline void depthwise_tile(const Depthwise& d, long place) {
  Vec sum[N];
  for (int n = 0; n < N; n++) sum[n] = Vec::zero();
  for (int t = 0; t < d.window.taps; t++) {
    const Vec w = Vec::all(d.weights[t]);
    for (int n = 0; n < N; n++) {
      const long p = place + n * Vec::width;
      const Vec::Mask mask = Vec::mask(lane_bits(d.window, p, t));
      sum[n] = Vec::fma(Vec::load(d.input + d.window.offset[t] + p, mask), w, sum[n]);
      if (d.ones) sum[n] = Vec::fma(Vec::load(d.ones + d.window.offset[t] + p, mask), Vec::all(d.ones_weights[t]), sum[n]);
    }
  }
  finish<N>(sum, d.epilogue, 0, place, d.output + place);
}

static void depthwise(const Depthwise& d, long blocks) {
  const long end = blocks * kBlock;
  long place = 0;
  for (; place + 4 * Vec::width <= end; place += 4 * Vec::width) depthwise_tile<4>(d, place);
  for (; place < end; place += Vec::width) depthwise_tile<1>(d, place);
}

static void select(const Selection& s) {
  const uint16_t* bits = s.bits;
  uint32_t found = 0;
  for (long list = 0; list < s.lists; list++) {
    s.start[list] = found;
    for (uint32_t k = s.union_start[list]; k < s.union_start[list + 1]; k += kBlock) {
      const auto compress = k + kBlock <= s.all ? Vec::compress : compress_bit_by_bit;  // a vector must not read behind the last
      found += static_cast<uint32_t>(compress(s.weights + k, s.columns + k, *bits++, s.plane, s.kept + found, s.offsets + found));
    }
  }
  s.start[s.lists] = found;
}

// N vectors of pixels, C chains of sums each: together enough to hide the latency of multiply-add
template <int N, int C>
static inline void gather(const Pointwise& j, const float* input, uint32_t k, uint32_t end, Vec (&total)[N]) {
  Vec sum[C][N];
#pragma GCC unroll 4
  for (int c = 1; c < C; c++)
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) sum[c][n] = Vec::zero();
#pragma GCC unroll 8
  for (int n = 0; n < N; n++) sum[0][n] = total[n];
  for (; k + C <= end; k += C) {
#pragma GCC unroll 4
    for (int c = 0; c < C; c++) {
      const Vec w = Vec::all(j.weights[k + c]);
      const float* x = input + j.offsets[k + c];
#pragma GCC unroll 8
      for (int n = 0; n < N; n++) sum[c][n] = Vec::fma(Vec::load(x + n * Vec::width), w, sum[c][n]);
    }
  }
  for (; k < end; k++) {
    const Vec w = Vec::all(j.weights[k]);
    const float* x = input + j.offsets[k];
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) sum[0][n] = Vec::fma(Vec::load(x + n * Vec::width), w, sum[0][n]);
  }
#pragma GCC unroll 4
  for (int c = 1; c < C; c++)
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) sum[0][n] = sum[0][n] + sum[c][n];
#pragma GCC unroll 8
  for (int n = 0; n < N; n++) total[n] = sum[0][n];
}

template <int N, int C>
static void pointwise_tile(const Pointwise& j, long place) {
  constexpr long tile = N * Vec::width;
  for (int block = 0; block < j.blocks; block++) {
    for (long o = 0; o < j.outputs; o++) {
      float* kept = j.sums + o * tile;
      Vec sum[N];
#pragma GCC unroll 8
      for (int n = 0; n < N; n++) sum[n] = block ? Vec::load(kept + n * Vec::width) : Vec::zero();
      const uint32_t* start = j.start + o * j.blocks + block;
      gather<N, C>(j, j.input + place, start[0], start[1], sum);
      if (block + 1 == j.blocks) finish<N>(sum, j.epilogue, o, place, j.output + o * j.output_plane + place);
      else
#pragma GCC unroll 8
        for (int n = 0; n < N; n++) sum[n].store(kept + n * Vec::width);
    }
  }
}

static void pointwise(const Pointwise& j, long first_block, long last_block) {
  constexpr long w = Vec::width;
  const long end = last_block * kBlock;
  long place = first_block * kBlock;
  if (j.few_inputs)
    for (; place + 6 * w <= end; place += 6 * w) pointwise_tile<6, 1>(j, place);
  for (; place + 4 * w <= end; place += 4 * w) pointwise_tile<4, 1>(j, place);
  for (; place + 2 * w <= end; place += 2 * w) pointwise_tile<2, 2>(j, place);
  for (; place < end; place += w) pointwise_tile<1, 4>(j, place);
}

template <int N>
static inline void dense_tile(const DensePointwise& j, int panel, long place) {
  Vec sum[kRows][N];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r++)
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) sum[r][n] = Vec::zero();
  const float* weights = j.packed + static_cast<long>(panel) * j.inputs * kRows;
  const float* input = j.input + place;
  for (int i = 0; i < j.inputs; i++, weights += kRows, input += j.plane) {
    Vec x[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) x[n] = Vec::load(input + n * Vec::width);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; r++) {
      const Vec w = Vec::all(weights[r]);
#pragma GCC unroll 4
      for (int n = 0; n < N; n++) sum[r][n] = Vec::fma(x[n], w, sum[r][n]);
    }
  }
  for (int r = 0; r < kRows && panel * kRows + r < j.outputs; r++) {
    const long o = static_cast<long>(panel) * kRows + r;
    finish<N>(sum[r], j.epilogue, o, place, j.output + o * j.output_plane + place);
  }
}

static void dense_pointwise(const DensePointwise& j, int first_panel, int last_panel, long first_block, long last_block) {
  constexpr int many = Vec::width == 8 ? 2 : 4;  // 6 x 2 or 6 x 4 sums fit the registers
  const long end = last_block * kBlock;
  long place = first_block * kBlock;
  for (; place + many * Vec::width <= end; place += many * Vec::width)
    for (int p = first_panel; p < last_panel; p++) dense_tile<many>(j, p, place);
  for (; place + 2 * Vec::width <= end; place += 2 * Vec::width)
    for (int p = first_panel; p < last_panel; p++) dense_tile<2>(j, p, place);
  for (; place < end; place += Vec::width)
    for (int p = first_panel; p < last_panel; p++) dense_tile<1>(j, p, place);
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
    finish<1>(x, e, o, 0, found);
    j.output[o * j.output_plane] = found[0];
  }
}

static void pool(const Pooling& j, long blocks) {
  for (long place = 0; place < blocks * kBlock; place += Vec::width) {
    const Vec start = Vec::all(j.largest ? -__builtin_inff() : 0.0f);
    Vec found = start;
    for (int t = 0; t < j.window.taps; t++) {
      const Vec::Mask mask = Vec::mask(lane_bits(j.window, place, t));
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

// Split a row: even and odd floats; either may be null. Reads nothing behind the row.
static void every_second(const float* from, long count, float* even, float* odd) {
  long i = 0;
  for (; i + 2 * Vec::width <= count; i += 2 * Vec::width) {
    Vec a, b;
    Vec::deinterleave(from + i, a, b);
    if (even) a.store(even + i / 2);
    if (odd) b.store(odd + i / 2);
  }
  for (; i < count; i++) {
    float* to = i % 2 ? odd : even;
    if (to) to[i / 2] = from[i];
  }
}

static constexpr Kernels make_table(const char* name) {
  return {name,           direct, depthwise,   select,     pointwise, dense_pointwise,
          vectorwise,     pool,   elementwise, layer_norm, sum,       every_second};
}
