// A buffer of floats that is aligned to cache lines and only grows.
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

  // Make room for `size` floats. A buffer that grows is zeroed and loses its content.
  void grow(ptrdiff_t size) {
    if (size <= size_) return;
    std::free(data_);
    size_ = 0;
    const size_t needed = static_cast<size_t>(size) * sizeof(float), large = size_t{1} << 21;
    const size_t unit = needed >= large ? large : 64, bytes = (needed + 63) / 64 * 64;
    void* memory = nullptr;
    if (posix_memalign(&memory, unit, bytes) != 0) throw std::bad_alloc();
    data_ = static_cast<float*>(memory);
#if defined(__linux__)
    if (unit == large) madvise(data_, bytes, MADV_HUGEPAGE);  // planes lie far apart, so small pages would miss the TLB
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
