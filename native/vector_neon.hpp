// Four floats at a time with NEON, on 64-bit ARM.
#pragma once
#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "scalar_fallbacks.hpp"

namespace prunus::neon {

struct Vec {
  float32x4_t v;
  static constexpr int width = 4;
  struct Mask {
    uint32x4_t v;
  };

  static Vec zero() { return {vdupq_n_f32(0.0f)}; }
  static Vec all(float x) { return {vdupq_n_f32(x)}; }
  static Vec load(const float* p) { return {vld1q_f32(p)}; }
  static Vec load(const float* p, Mask m) {
    return {vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(vld1q_f32(p)), m.v))};
  }
  static Mask mask(uint32_t bits) {
    const uint32x4_t lanes = {1, 2, 4, 8};
    return {vtstq_u32(vdupq_n_u32(bits), lanes)};
  }
  static Vec select(Mask m, Vec on, Vec off) { return {vbslq_f32(m.v, on.v, off.v)}; }
  void store(float* p) const { vst1q_f32(p, v); }
  void store(float* p, ptrdiff_t count) const {
    float lanes[width];
    store(lanes);
    for (ptrdiff_t i = 0; i < count; i++) p[i] = lanes[i];
  }

  static Vec fma(Vec a, Vec b, Vec c) { return {vfmaq_f32(c.v, a.v, b.v)}; }
  friend Vec operator+(Vec a, Vec b) { return {vaddq_f32(a.v, b.v)}; }
  friend Vec operator-(Vec a, Vec b) { return {vsubq_f32(a.v, b.v)}; }
  friend Vec operator*(Vec a, Vec b) { return {vmulq_f32(a.v, b.v)}; }
  friend Vec operator/(Vec a, Vec b) { return {vdivq_f32(a.v, b.v)}; }
  static Vec max(Vec a, Vec b) { return {vmaxq_f32(a.v, b.v)}; }
  static Vec min(Vec a, Vec b) { return {vminq_f32(a.v, b.v)}; }
  static Vec abs(Vec a) { return {vabsq_f32(a.v)}; }
  static Vec sqrt(Vec a) { return {vsqrtq_f32(a.v)}; }
  static Vec round(Vec a) { return {vrndnq_f32(a.v)}; }
  static Mask less(Vec a, Vec b) { return {vcltq_f32(a.v, b.v)}; }
  static Vec times_pow2(Vec a, Vec n) {
    return a * Vec{vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n.v), vdupq_n_s32(127)), 23))};
  }
  static Vec reciprocal(Vec a) { return all(1.0f) / a; }
  float sum() const { return vaddvq_f32(v); }

  static void deinterleave(const float* p, Vec& even, Vec& odd) {
    const float32x4x2_t both = vld2q_f32(p);
    even.v = both.val[0];
    odd.v = both.val[1];
  }

  using Lists = BitByBit;

  static Vec from_float16(const uint16_t* p) { return {vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)))}; }
  static Vec from_bfloat16(const uint16_t* p) { return {vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16))}; }

  static void widen_few(const uint16_t* from, bool is_float16, int count, float* to) {
    int i = 0;
    for (; i + width <= count; i += width)
      (is_float16 ? from_float16(from + i) : from_bfloat16(from + i)).store(to + i);
    widen_one_by_one(from + i, is_float16, count - i, to + i);
  }
};

using HalfVec = Vec;
static inline HalfVec lower_half(Vec a) { return a; }

}  // namespace prunus::neon
