// Number by number, where the processor has no instructions for many: keep what bits keep, widen narrow numbers.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace prunus {

namespace {  // a copy for every file: each is compiled for another processor

// How lists of weights are selected; vectors may do it for sixteen at once.
struct BitByBit {
  // Keep the weights whose bits are on, one after the other, and where their inputs lie.
  static ptrdiff_t compress(const float* weights, const uint8_t* columns, uint32_t bits, uint32_t channel,
                            uint32_t first, float* kept, uint32_t* offsets) {
    ptrdiff_t count = 0;
    for (int place = 0; bits; place++, bits >>= 1) {
      if (bits & 1) {
        kept[count] = weights[place];
        offsets[count] = first + columns[place] * channel;
        count++;
      }
    }
    return count;
  }

  // The same without columns: of sixteen inputs in a row `here` are kept, and of those that are kept `used` are used.
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
  float found;
  std::memcpy(&found, &bits, sizeof found);
  return found;
}

static inline float widen_bfloat16(uint16_t bits) { return float_of_bits(static_cast<uint32_t>(bits) << 16); }

static inline float widen_float16(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, fraction = bits & 0x3ffu;
  if (exponent == 31) return float_of_bits(sign | 0x7f800000u | fraction << 13);
  if (exponent) return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
  const float small = static_cast<float>(fraction) * 0x1p-24f;  // exact: so small that it has no leading one
  return sign ? -small : small;
}

static inline void widen_one_by_one(const uint16_t* from, bool is_float16, int count, float* to) {
  for (int i = 0; i < count; i++) to[i] = is_float16 ? widen_float16(from[i]) : widen_bfloat16(from[i]);
}

}  // namespace

}  // namespace prunus
