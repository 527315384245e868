// Weights and masks as a file holds them: they are read where they lie, and what is narrow is widened just before it is used.
#pragma once
#include <cstdint>
#include <cstring>

namespace prunus {

enum class Precision : int { single, half, brain };  // float32, float16, bfloat16

struct Numbers {
  const void* data;
  Precision precision;
  const float* single() const { return static_cast<const float*>(data); }
  const uint16_t* narrow() const { return static_cast<const uint16_t*>(data); }
};

// Eight switches to a byte, the first in the lowest bit.
struct Bits {
  const uint8_t* data;

  bool operator[](long place) const { return data[place / 8] >> (place % 8) & 1; }
  long count(long first, long last) const {
    long found = 0;
    for (; first < last && first % 8; first++) found += (*this)[first];
    for (; first + 8 <= last; first += 8) found += __builtin_popcount(data[first / 8]);
    for (; first < last; first++) found += (*this)[first];
    return found;
  }
  // Sixteen switches from a place on; reads up to four bytes.
  uint32_t sixteen(long place) const {
    uint32_t found;
    std::memcpy(&found, data + place / 8, sizeof found);
    return found >> (place % 8) & 0xffffu;
  }
};

}  // namespace prunus
