// The kernels, written once for all instruction sets. Included inside a namespace that defines Vec and HalfVec.

#include "activations.inl"
#include "epilogue.inl"

// these use the two above
#include "attention.inl"
#include "fours.inl"
#include "pointwise.inl"
#include "windowed.inl"

static void classify(const Classifier& j, int first_class, int last_class) {
  for (int c = first_class; c < last_class; c++) {
    Vec sum[2] = {Vec::zero(), Vec::zero()};
    const float* row = j.rows + static_cast<ptrdiff_t>(c) * j.blocks * kBlock;
    for (ptrdiff_t i = 0; i < static_cast<ptrdiff_t>(j.blocks) * kBlock; i += Vec::width) {
      Vec& s = sum[i / Vec::width & 1];
      s = Vec::fma(Vec::load(row + i), Vec::load(j.features + i), s);
    }
    j.logits[c] = (sum[0] + sum[1]).sum() + j.bias[c];
  }
}

static void pool(const Pooling& j, ptrdiff_t blocks) {
  for (ptrdiff_t position = 0; position < blocks * kBlock; position += Vec::width) {
    const Vec start = Vec::all(j.largest ? -__builtin_inff() : 0.0f);
    Vec result = start, nan = Vec::zero();  // the maximum is NaN if any value is NaN
    for (int t = 0; t < j.window.taps; t++) {
      const Vec::Mask mask = Vec::mask(lane_bits<Vec>(j.window, position, t));
      const Vec x = Vec::load(j.input + j.window.offset[t] + position, mask);
      result = j.largest ? Vec::max(result, Vec::select(mask, x, start)) : result + x;
      nan = Vec::fma(x, Vec::zero(), nan);
    }
    if (!j.largest) result = result * Vec::load(j.factors + position);
    (result + nan).store(j.output + position);
  }
}

static void elementwise(const Elementwise& j, ptrdiff_t first_block, ptrdiff_t last_block) {
  const Vec scale = Vec::all(j.scale), bias = Vec::all(j.bias);
  const Vec pixel = j.kind == Elementwise::Kind::mul_pixel ? Vec::all(*j.second) : Vec::zero();
  for (ptrdiff_t position = first_block * kBlock; position < last_block * kBlock; position += Vec::width) {
    Vec x = Vec::load(j.first + position);
    switch (j.kind) {
      case Elementwise::Kind::affine: x = Vec::fma(x, scale, bias); break;
      case Elementwise::Kind::add: x = x + Vec::load(j.second + position); break;
      case Elementwise::Kind::mul: x = x * Vec::load(j.second + position); break;
      case Elementwise::Kind::mul_pixel: x = x * pixel; break;
    }
    activate(x, j.activation, j.slope).store(j.output + position);
  }
}

// Several vectors at a time: planes are far apart, so more of each cache line's neighbours are read together, and the
// sums do not wait for each other.
template <int N>
static inline void layer_norm_tile(const LayerNorm& j, ptrdiff_t position) {
  const Vec count = Vec::all(static_cast<float>(j.channels));
  const float* input = j.input + position;
  Vec mean[N], factor[N];
  for (int n = 0; n < N; n++) mean[n] = factor[n] = Vec::zero();
  for (ptrdiff_t c = 0; c < j.channels; c++)
    for (int n = 0; n < N; n++) mean[n] = mean[n] + Vec::load(input + c * j.plane + n * Vec::width);
  for (int n = 0; n < N; n++) mean[n] = mean[n] / count;
  for (ptrdiff_t c = 0; c < j.channels; c++)
    for (int n = 0; n < N; n++) {
      const Vec d = Vec::load(input + c * j.plane + n * Vec::width) - mean[n];
      factor[n] = Vec::fma(d, d, factor[n]);
    }
  for (int n = 0; n < N; n++) factor[n] = Vec::all(1.0f) / Vec::sqrt(factor[n] / count + Vec::all(j.eps));
  for (ptrdiff_t c = 0; c < j.channels; c++) {
    const Vec scale = Vec::all(j.scale ? j.scale[c] : 1.0f), bias = Vec::all(j.bias ? j.bias[c] : 0.0f);
    for (int n = 0; n < N; n++) {
      const Vec x = (Vec::load(input + c * j.plane + n * Vec::width) - mean[n]) * factor[n];
      Vec::fma(x, scale, bias).store(j.output + c * j.output_plane + position + n * Vec::width);
    }
  }
}

static void layer_norm(const LayerNorm& j, ptrdiff_t first_block, ptrdiff_t last_block) {
  constexpr ptrdiff_t w = Vec::width;
  ptrdiff_t position = first_block * kBlock;
  for (; position + 4 * w <= last_block * kBlock; position += 4 * w) layer_norm_tile<4>(j, position);
  for (; position < last_block * kBlock; position += w) layer_norm_tile<1>(j, position);
}

static float sum(const float* plane, ptrdiff_t count) {
  Vec total = Vec::zero();
  ptrdiff_t i = 0;
  for (; i + Vec::width <= count; i += Vec::width) total = total + Vec::load(plane + i);
  float result = total.sum();
  for (; i < count; i++) result += plane[i];
  return result;
}

// Split a row into its even and its odd floats; either target may be null. May read up to two vectors past the row.
static void every_second(const float* from, ptrdiff_t count, float* even, float* odd) {
  for (ptrdiff_t i = 0; i < count; i += 2 * Vec::width) {
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

static void widen(const uint16_t* from, Precision precision, float* to, ptrdiff_t count) {
  const bool is_float16 = precision == Precision::float16;
  ptrdiff_t i = 0;
  for (; i + Vec::width <= count; i += Vec::width)
    (is_float16 ? Vec::from_float16(from + i) : Vec::from_bfloat16(from + i)).store(to + i);
  for (; i < count; i++) to[i] = is_float16 ? widen_float16(from[i]) : widen_bfloat16(from[i]);
}

// A float that is not finite has all exponent bits set.
static bool copy_finite(const float* from, float* to, ptrdiff_t count) {
  uint32_t any_not_finite = 0;
  for (ptrdiff_t i = 0; i < count; i++) {
    uint32_t bits;
    std::memcpy(&bits, from + i, sizeof bits);
    any_not_finite |= ((bits & 0x7f800000u) == 0x7f800000u);
    to[i] = from[i];
  }
  return !any_not_finite;
}

static constexpr Kernels make_table(const char* name, const IntegerKernels& integers) {
  return {name, &integers,   direct,     depthwise, select, pointwise,    fours, dense_pointwise, classify,
          pool, elementwise, layer_norm, attention, sum,    every_second, widen, copy_finite};
}
