// Weights and masks as a file holds them: they are read where they lie, and what is narrow is widened just before it is
// used.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace prunus {

enum class Precision { float32, float16, bfloat16 };

struct StoredFloats {
  const void* data;
  Precision precision;
  const float* as_float32() const { return static_cast<const float*>(data); }
  const uint16_t* as_bits16() const { return static_cast<const uint16_t*>(data); }
};

// Eight switches to a byte, the first in the lowest bit. Always inlined: files for different processors read them, and
// the linker would keep one copy for all.
struct Bits {
  const uint8_t* data;

  [[gnu::always_inline]] bool operator[](ptrdiff_t place) const { return data[place / 8] >> (place % 8) & 1; }
  [[gnu::always_inline]] ptrdiff_t count(ptrdiff_t first, ptrdiff_t last) const {
    ptrdiff_t found = 0;
    for (; first < last && first % 8; first++) found += (*this)[first];
    for (; first + 8 <= last; first += 8) found += __builtin_popcount(data[first / 8]);
    for (; first < last; first++) found += (*this)[first];
    return found;
  }
  // Sixteen switches from a place on; reads up to four bytes.
  [[gnu::always_inline]] uint32_t sixteen(ptrdiff_t place) const {
    uint32_t found;
    std::memcpy(&found, data + place / 8, sizeof found);
    return found >> (place % 8) & 0xffffu;
  }
};

}  // namespace prunus
