// Where the pixels of a window are: convolutions and pooling of any stride, padding and dilation as shifted reads.
//
// Output pixels and inputs share one lattice. A stride of s splits the input into s x s planes (phases) of every s-th
// row and column. Each tap of a window then reads one of these planes, shifted by whole pixels. Reads outside the
// lattice are padding and yield 0. With stride 1 and equal sizes the input is its own lattice, and nothing is copied.
#pragma once
#include <algorithm>
#include <vector>

#include "program.hpp"

namespace prunus {

struct WindowSpec {
  int kernel[2], stride[2], pads[4], dilation[2];  // pads: top, left, bottom, right
};

inline ptrdiff_t floor_div(ptrdiff_t a, ptrdiff_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// How many pixels of a pool's windows count: those inside the image and, with `count_pads`, those of the padding. What
// lies after the padding never counts.
struct PoolCounts {
  WindowSpec spec;
  Shape input;
  bool count_pads;
  PoolCounts(const WindowSpec& window, const Shape& shape, bool pads) : spec(window), input(shape), count_pads(pads) {}

  ptrdiff_t operator()(ptrdiff_t row, ptrdiff_t column) const { return along(row, 0) * along(column, 1); }

 private:
  ptrdiff_t along(ptrdiff_t window, int axis) const {
    const ptrdiff_t side = axis ? input.width : input.height, first = window * spec.stride[axis] - spec.pads[axis];
    const ptrdiff_t end = std::min(first + spec.kernel[axis], side + (count_pads ? spec.pads[axis + 2] : 0));
    return end - (count_pads ? first : std::max<ptrdiff_t>(first, 0));
  }
};

class Windows {
 public:
  Windows(const WindowSpec& spec, const Shape& input, const Shape& output);

  Window window() const { return {static_cast<int>(offsets_.size()), offsets_.data(), bits_.data()}; }
  bool copies() const { return copies_; }
  bool pads() const { return spec_.pads[0] || spec_.pads[1] || spec_.pads[2] || spec_.pads[3]; }
  bool crops() const { return lattice_.height != output_.height || lattice_.width != output_.width; }
  const Shape& lattice() const { return lattice_; }  // its channels are the phases of one input channel
  ptrdiff_t channel() const { return lattice_.channels * lattice_.plane(); }
  ptrdiff_t reach() const { return reach_; }

  // Split one input channel into its phases. May read two blocks past its end.
  void split(const Kernels& kernels, const float* input, float* phases) const;
  // Copy one output channel from the lattice to its plane.
  void crop(const float* lattice, float* output) const;
  // Register the value that will be prepared. Call it before the program is finished.
  void announce(Program& program, int value);
  // Split the input of all images if necessary.
  void prepare(const Run& run, int value, int channels) const;
  // The first channel of a prepared image.
  const float* prepared(const Run& run, int value, ptrdiff_t image) const;
  // Planes of ones, one per phase, 0 in the padding, with slack on both sides.
  AlignedBuffer ones(const Kernels& kernels, ptrdiff_t slack) const;

 private:
  ptrdiff_t phase_index(ptrdiff_t phase) const {
    return std::lower_bound(phases_.begin(), phases_.end(), phase) - phases_.begin();
  }

  Shape input_, output_, lattice_;
  WindowSpec spec_;
  bool copies_;
  ptrdiff_t reach_ = 0;
  int split_ = -1;                 // the number of the split value in the program
  std::vector<ptrdiff_t> phases_;  // row phase x stride + column phase, sorted
  std::vector<ptrdiff_t> offsets_;
  std::vector<uint16_t> bits_;
};

}  // namespace prunus
