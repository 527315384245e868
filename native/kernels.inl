// The kernels, once for all instruction sets; included inside a namespace that defines Vec and HalfVec.

#include "activations.inl"
#include "epilogue.inl"
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
  for (ptrdiff_t place = 0; place < blocks * kBlock; place += Vec::width) {
    const Vec start = Vec::all(j.largest ? -__builtin_inff() : 0.0f);
    Vec found = start, strange = Vec::zero();  // the largest of numbers of which one is none, is none
    for (int t = 0; t < j.window.taps; t++) {
      const Vec::Mask mask = Vec::mask(lane_bits<Vec>(j.window, place, t));
      const Vec x = Vec::load(j.input + j.window.offset[t] + place, mask);
      found = j.largest ? Vec::max(found, Vec::select(mask, x, start)) : found + x;
      strange = Vec::fma(x, Vec::zero(), strange);
    }
    if (!j.largest) found = found * Vec::load(j.factors + place);
    (found + strange).store(j.output + place);
  }
}

static void elementwise(const Elementwise& j, ptrdiff_t first_block, ptrdiff_t last_block) {
  const Vec scale = Vec::all(j.scale), bias = Vec::all(j.bias);
  const Vec pixel = j.kind == Elementwise::Kind::mul_pixel ? Vec::all(*j.second) : Vec::zero();
  for (ptrdiff_t place = first_block * kBlock; place < last_block * kBlock; place += Vec::width) {
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

static void layer_norm(const LayerNorm& j, ptrdiff_t first_block, ptrdiff_t last_block) {
  const Vec count = Vec::all(static_cast<float>(j.channels));
  for (ptrdiff_t place = first_block * kBlock; place < last_block * kBlock; place += Vec::width) {
    Vec mean = Vec::zero(), variance = Vec::zero();
    for (ptrdiff_t c = 0; c < j.channels; c++) mean = mean + Vec::load(j.input + c * j.plane + place);
    mean = mean / count;
    for (ptrdiff_t c = 0; c < j.channels; c++) {
      const Vec d = Vec::load(j.input + c * j.plane + place) - mean;
      variance = Vec::fma(d, d, variance);
    }
    const Vec factor = Vec::all(1.0f) / Vec::sqrt(variance / count + Vec::all(j.eps));
    for (ptrdiff_t c = 0; c < j.channels; c++) {
      Vec x = (Vec::load(j.input + c * j.plane + place) - mean) * factor;
      x = Vec::fma(x, Vec::all(j.scale ? j.scale[c] : 1.0f), Vec::all(j.bias ? j.bias[c] : 0.0f));
      x.store(j.output + c * j.output_plane + place);
    }
  }
}

static float sum(const float* plane, ptrdiff_t count) {
  Vec total = Vec::zero();
  ptrdiff_t i = 0;
  for (; i + Vec::width <= count; i += Vec::width) total = total + Vec::load(plane + i);
  float found = total.sum();
  for (; i < count; i++) found += plane[i];
  return found;
}

// Split a row: even and odd floats; either may be null. May read up to two vectors behind the row.
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

static constexpr Kernels make_table(const char* name) {
  return {name,        direct,     depthwise, select,       pointwise, dense_pointwise, classify, pool,
          elementwise, layer_norm, sum,       every_second, widen};
}
