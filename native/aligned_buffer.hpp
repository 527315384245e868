// A buffer of floats that is aligned to cache lines and only grows.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#elif defined(_WIN32)
#include <malloc.h>
#endif

namespace prunus {

// Memory at a multiple of `unit` bytes. Windows has functions of its own for it.
inline void* allocate_aligned(size_t unit, size_t bytes) {
  void* memory = nullptr;
#if defined(_WIN32)
  memory = _aligned_malloc(bytes, unit);
#else
  if (posix_memalign(&memory, unit, bytes) != 0) memory = nullptr;
#endif
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

inline void free_aligned(void* memory) {
#if defined(_WIN32)
  _aligned_free(memory);
#else
  std::free(memory);
#endif
}

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
  ~AlignedBuffer() { free_aligned(data_); }

  // Make room for `size` floats. A buffer that grows is zeroed and loses its content.
  void grow(ptrdiff_t size) {
    if (size <= size_) return;
    free_aligned(data_);
    data_ = nullptr;
    size_ = 0;
    const size_t needed = static_cast<size_t>(size) * sizeof(float), large = size_t{1} << 21;
    const size_t unit = needed >= large ? large : 64, bytes = (needed + 63) / 64 * 64;
    data_ = static_cast<float*>(allocate_aligned(unit, bytes));
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
