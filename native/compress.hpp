// Keep what a mask of bits keeps, where the processor has no instruction for it.
#pragma once
#include <cstdint>

namespace prunus {

static inline long compress_bit_by_bit(const float* weights, const uint32_t* places, uint32_t bits, float* kept,
                                       uint32_t* offsets) {
  long count = 0;
  for (int place = 0; bits; place++, bits >>= 1) {
    if (bits & 1) {
      kept[count] = weights[place];
      offsets[count] = places[place];
      count++;
    }
  }
  return count;
}

}  // namespace prunus
