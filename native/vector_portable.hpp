// Eight floats at a time in plain C++, for every processor; the compiler vectorizes what it can.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "scalar_fallbacks.hpp"

namespace prunus::portable {

struct Vec {
  float v[8];
  static constexpr int width = 8;
  struct Mask {
    uint32_t v[8];
  };

  template <class F>
  static Vec make(F f) {
    Vec r;
    for (int i = 0; i < width; i++) r.v[i] = f(i);
    return r;
  }
  static Vec zero() { return all(0.0f); }
  static Vec all(float x) {
    return make([=](int) { return x; });
  }
  static Vec load(const float* p) {
    Vec r;
    std::memcpy(r.v, p, sizeof r.v);
    return r;
  }
  static Vec load(const float* p, Mask m) {
    uint32_t bits[8];
    std::memcpy(bits, p, sizeof bits);
    for (int i = 0; i < width; i++) bits[i] &= m.v[i];
    Vec r;
    std::memcpy(r.v, bits, sizeof bits);
    return r;
  }
  static Mask mask(uint32_t bits) {
    Mask r;
    for (int i = 0; i < width; i++) r.v[i] = (bits >> i & 1) ? 0xffffffffu : 0u;
    return r;
  }
  static Vec select(Mask m, Vec on, Vec off) {
    return make([&](int i) { return m.v[i] ? on.v[i] : off.v[i]; });
  }
  void store(float* p) const { std::memcpy(p, v, sizeof v); }
  void store(float* p, ptrdiff_t count) const { std::memcpy(p, v, count * sizeof(float)); }

  static Vec fma(Vec a, Vec b, Vec c) {
    return make([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
  }
  friend Vec operator+(Vec a, Vec b) {
    return make([&](int i) { return a.v[i] + b.v[i]; });
  }
  friend Vec operator-(Vec a, Vec b) {
    return make([&](int i) { return a.v[i] - b.v[i]; });
  }
  friend Vec operator*(Vec a, Vec b) {
    return make([&](int i) { return a.v[i] * b.v[i]; });
  }
  friend Vec operator/(Vec a, Vec b) {
    return make([&](int i) { return a.v[i] / b.v[i]; });
  }
  static Vec max(Vec a, Vec b) {
    return make([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  static Vec min(Vec a, Vec b) {
    return make([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  static Vec abs(Vec a) {
    return make([&](int i) { return std::fabs(a.v[i]); });
  }
  static Vec sqrt(Vec a) {
    return make([&](int i) { return std::sqrt(a.v[i]); });
  }
  static Vec round(Vec a) {
    return make([&](int i) { return std::nearbyint(a.v[i]); });
  }
  static Mask less(Vec a, Vec b) {
    Mask r;
    for (int i = 0; i < width; i++) r.v[i] = a.v[i] < b.v[i] ? 0xffffffffu : 0u;
    return r;
  }
  static Vec times_pow2(Vec a, Vec n) {
    return make([&](int i) { return std::ldexp(a.v[i], static_cast<int>(n.v[i])); });
  }
  static Vec reciprocal(Vec a) { return all(1.0f) / a; }
  float sum() const {
    float total = 0;
    for (float x : v) total += x;
    return total;
  }

  static void deinterleave(const float* p, Vec& even, Vec& odd) {
    even = make([&](int i) { return p[2 * i]; });
    odd = make([&](int i) { return p[2 * i + 1]; });
  }

  using Lists = BitByBit;

  static Vec from_float16(const uint16_t* p) {
    return make([&](int i) { return widen_float16(p[i]); });
  }
  static Vec from_bfloat16(const uint16_t* p) {
    return make([&](int i) { return widen_bfloat16(p[i]); });
  }

  static void widen_few(const uint16_t* from, bool is_float16, int count, float* to) {
    int i = 0;
    for (; i + width <= count; i += width)
      (is_float16 ? from_float16(from + i) : from_bfloat16(from + i)).store(to + i);
    widen_one_by_one(from + i, is_float16, count - i, to + i);
  }
};

using HalfVec = Vec;
static inline HalfVec lower_half(Vec a) { return a; }

}  // namespace prunus::portable
