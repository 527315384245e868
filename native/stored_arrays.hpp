// Weights and masks as model files store them. They are read in index; 16-bit floats are widened just before their use.
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

// Eight switches per byte, the first in the lowest bit. Always inlined: files compiled for different instruction sets
// use it, and the linker would keep one copy for all of them.
struct Bits {
  const uint8_t* data;

  [[gnu::always_inline]] bool operator[](ptrdiff_t index) const { return data[index / 8] >> (index % 8) & 1; }
  // Return the number-th four bits.
  [[gnu::always_inline]] uint32_t four(ptrdiff_t number) const { return data[number / 2] >> number % 2 * 4 & 0xfu; }
  [[gnu::always_inline]] ptrdiff_t count(ptrdiff_t first, ptrdiff_t last) const {
    ptrdiff_t total = 0;
    for (; first < last && first % 8; first++) total += (*this)[first];
    for (; first + 8 <= last; first += 8) total += __builtin_popcount(data[first / 8]);
    for (; first < last; first++) total += (*this)[first];
    return total;
  }
  // Return sixteen bits from `index` on; reads up to four bytes.
  [[gnu::always_inline]] uint32_t sixteen(ptrdiff_t index) const {
    uint32_t bits;
    std::memcpy(&bits, data + index / 8, sizeof bits);
    return bits >> (index % 8) & 0xffffu;
  }
};

}  // namespace prunus
