// One number at a time, for processors without vector instructions for it: selecting weights and widening floats.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace prunus {

namespace {  // one copy per file, because each file is compiled for another instruction set

// Selects lists of weights. Some instruction sets select sixteen at once instead.
struct BitByBit {
  // Copy the weights whose bits are set, and compute the offsets of their inputs. Return their number.
  static ptrdiff_t compress(const float* weights, const uint8_t* columns, uint32_t bits, uint32_t channel,
                            uint32_t first, float* kept, uint32_t* offsets) {
    ptrdiff_t count = 0;
    for (int lane = 0; bits; lane++, bits >>= 1) {
      if (bits & 1) {
        kept[count] = weights[lane];
        offsets[count] = first + columns[lane] * channel;
        count++;
      }
    }
    return count;
  }

  // The same without columns: `here` marks which of sixteen consecutive inputs are kept, `used` which of the kept are
  // used.
  static ptrdiff_t expand(const float* weights, uint32_t here, uint32_t used, uint32_t channel, uint32_t first,
                          float* kept, uint32_t* offsets) {
    ptrdiff_t count = 0;
    for (; here; here >>= 1, first += channel) {
      if (!(here & 1)) continue;
      if (used & 1) {
        kept[count] = *weights;
        offsets[count] = first;
        count++;
      }
      used >>= 1;
      weights++;
    }
    return count;
  }
};

static inline float float_of_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

static inline float widen_bfloat16(uint16_t bits) { return float_of_bits(static_cast<uint32_t>(bits) << 16); }

static inline float widen_float16(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, fraction = bits & 0x3ffu;
  if (exponent == 31) return float_of_bits(sign | 0x7f800000u | fraction << 13);
  if (exponent) return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
  const float small = static_cast<float>(fraction) * 0x1p-24f;  // subnormal numbers are exact in float32
  return sign ? -small : small;
}

static inline void widen_one_by_one(const uint16_t* from, bool is_float16, int count, float* to) {
  for (int i = 0; i < count; i++) to[i] = is_float16 ? widen_float16(from[i]) : widen_bfloat16(from[i]);
}

}  // namespace

}  // namespace prunus
