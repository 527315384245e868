// Asking for cache lines before they are needed, because another core may have written them.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels.hpp"

namespace prunus {

// Call ask(line) for each line of some bytes.
template <class Ask>
inline void for_each_line(const uint8_t* from, ptrdiff_t bytes, Ask&& ask) {
  const uint8_t* line = from - reinterpret_cast<uintptr_t>(from) % kLine;
  for (; line < from + bytes; line += kLine) ask(line);
}

inline void fetch(const uint8_t* from, ptrdiff_t bytes) {
  for_each_line(from, bytes, [](const uint8_t* line) { __builtin_prefetch(line); });
}

// For bytes that will be written. Compilers for all processors of x86 would ask for them to be read.
inline void fetch_to_write(const uint8_t* from, ptrdiff_t bytes) {
  for_each_line(from, bytes, [](const uint8_t* line) {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(*line));
#else
    __builtin_prefetch(line, 1);
#endif
  });
}

}  // namespace prunus
