// Keep what a mask of bits keeps, where the processor has no instruction for it.
#pragma once
#include <cstdint>

namespace prunus {

static inline long compress_bit_by_bit(const float* weights, const uint16_t* columns, uint32_t bits, uint32_t channel,
                                       float* kept, uint32_t* offsets) {
  long count = 0;
  for (int place = 0; bits; place++, bits >>= 1) {
    if (bits & 1) {
      kept[count] = weights[place];
      offsets[count] = columns[place] * channel;
      count++;
    }
  }
  return count;
}

}  // namespace prunus
