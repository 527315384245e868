// Aligned memory that only grows.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace prunus {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(ptrdiff_t size) { grow(size); }
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~AlignedBuffer() { std::free(data_); }

  // Make room for so many floats, all zero where there was too little; what was there may be lost.
  void grow(ptrdiff_t size) {
    if (size <= size_) return;
    std::free(data_);
    size_ = 0;
    const size_t wanted = static_cast<size_t>(size) * sizeof(float), large = size_t{1} << 21;
    const size_t unit = wanted >= large ? large : 64, bytes = (wanted + 63) / 64 * 64;
    void* found = nullptr;
    if (posix_memalign(&found, unit, bytes) != 0) throw std::bad_alloc();
    data_ = static_cast<float*>(found);
#if defined(__linux__)
    if (unit == large)
      madvise(data_, bytes, MADV_HUGEPAGE);  // planes lie far apart: small pages would be looked up anew
#endif
    std::memset(data_, 0, bytes);
    size_ = size;
  }
  float* data() { return data_; }
  const float* data() const { return data_; }
  ptrdiff_t size() const { return size_; }

 private:
  float* data_ = nullptr;
  ptrdiff_t size_ = 0;
};

}  // namespace prunus
