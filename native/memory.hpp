// Aligned memory that only grows.
#pragma once
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace prunus {

class Floats {
 public:
  Floats() = default;
  explicit Floats(long size) { grow(size); }
  Floats(Floats&& other) noexcept : data_(other.data_), size_(other.size_) { other.data_ = nullptr, other.size_ = 0; }
  Floats& operator=(Floats&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Floats() { std::free(data_); }

  // Make room for so many floats, all zero where there was too little; what was there may be lost.
  void grow(long size) {
    if (size <= size_) return;
    std::free(data_);
    size_ = 0;
    const size_t wanted = static_cast<size_t>(size) * sizeof(float), large = size_t{1} << 21;
    const size_t unit = wanted >= large ? large : 64, bytes = (wanted + 63) / 64 * 64;
    void* found = nullptr;
    if (posix_memalign(&found, unit, bytes) != 0) throw std::bad_alloc();
    data_ = static_cast<float*>(found);
#if defined(__linux__)
    if (unit == large) madvise(data_, bytes, MADV_HUGEPAGE);  // planes lie far apart: small pages would be looked up anew
#endif
    std::memset(data_, 0, bytes);
    size_ = size;
  }
  float* data() { return data_; }
  const float* data() const { return data_; }
  long size() const { return size_; }

 private:
  float* data_ = nullptr;
  long size_ = 0;
};

}  // namespace prunus
