#include "windows.hpp"

#include <algorithm>
#include <stdexcept>

namespace prunus {

namespace {

constexpr ptrdiff_t kMostBits = ptrdiff_t{1} << 23;  // words: 16 MiB, far above any real layer

int extent(int side, int phase, int stride) { return side > phase ? (side - phase + stride - 1) / stride : 0; }

}  // namespace

Windows::Windows(const WindowSpec& spec, const Shape& input, const Shape& output)
    : input_(input), output_(output), spec_(spec) {
  struct Tap {
    ptrdiff_t phase;
    int down, right, rows, columns;  // the size of the phase; everything outside is padding
  };
  std::vector<Tap> taps;
  int height = output.height, width = output.width;
  for (int y = 0; y < spec.kernel[0]; y++) {
    for (int x = 0; x < spec.kernel[1]; x++) {
      const int top = y * spec.dilation[0] - spec.pads[0], left = x * spec.dilation[1] - spec.pads[1];
      const int down = static_cast<int>(floor_div(top, spec.stride[0])),
                right = static_cast<int>(floor_div(left, spec.stride[1]));
      const int row = top - down * spec.stride[0], column = left - right * spec.stride[1];
      const ptrdiff_t phase = static_cast<ptrdiff_t>(row) * spec.stride[1] + column;
      const int rows = extent(input.height, row, spec.stride[0]), columns = extent(input.width, column, spec.stride[1]);
      taps.push_back({phase, down, right, rows, columns});
      phases_.push_back(phase);
      height = std::max(height, rows);
      width = std::max(width, columns);
    }
  }
  std::sort(phases_.begin(), phases_.end());
  phases_.erase(std::unique(phases_.begin(), phases_.end()), phases_.end());
  lattice_ = {static_cast<int>(phases_.size()), height, width};
  copies_ = spec.stride[0] > 1 || spec.stride[1] > 1 || height != input.height || width != input.width;
  for (const Tap& tap : taps) {
    const ptrdiff_t shift = static_cast<ptrdiff_t>(tap.down) * width + tap.right;
    offsets_.push_back(phase_index(tap.phase) * lattice_.plane() + shift);
    reach_ = std::max(reach_, shift < 0 ? -shift : shift);
  }
  if (lattice_.blocks() * static_cast<ptrdiff_t>(taps.size()) > kMostBits)
    throw std::length_error("the window and the image are too large together");
  bits_.assign(lattice_.blocks() * taps.size(), 0);
  for (ptrdiff_t p = 0; p < lattice_.pixels(); p++) {
    const ptrdiff_t row = p / width, column = p % width;
    for (size_t t = 0; t < taps.size(); t++) {
      const ptrdiff_t r = row + taps[t].down, c = column + taps[t].right;
      if (r >= 0 && r < taps[t].rows && c >= 0 && c < taps[t].columns)
        bits_[p / kBlock * taps.size() + t] |= static_cast<uint16_t>(1u << (p % kBlock));
    }
  }
}

void Windows::split(const Kernels& kernels, const float* input, float* phases) const {
  const int down = spec_.stride[0], across = spec_.stride[1], width = lattice_.width;
  const ptrdiff_t plane = lattice_.plane();
  const auto phase_plane = [&](int row, int column) -> float* {
    const ptrdiff_t phase = static_cast<ptrdiff_t>(row) * across + column;
    return std::binary_search(phases_.begin(), phases_.end(), phase) ? phases + phase_index(phase) * plane : nullptr;
  };
  for (int a = 0; a < std::min(down, input_.height); a++) {
    const int rows = extent(input_.height, a, down);
    std::vector<float*> planes;  // of the phases of these rows; null if no window reads them
    for (int b = 0; b < std::min(across, input_.width); b++) planes.push_back(phase_plane(a, b));
    float *even = planes[0], *odd = across == 2 ? phase_plane(a, 1) : nullptr;
    for (ptrdiff_t r = 0; r < rows; r++) {
      const float* from = input + (r * down + a) * input_.width;
      const ptrdiff_t to = r * width;
      if (across == 2) {
        if (even || odd) kernels.every_second(from, input_.width, even ? even + to : nullptr, odd ? odd + to : nullptr);
        continue;
      }
      for (size_t b = 0; b < planes.size(); b++) {
        float* phase = planes[b];
        const int columns = phase ? extent(input_.width, static_cast<int>(b), across) : 0;
        for (ptrdiff_t c = 0; c < columns; c++) phase[to + c] = from[c * across + static_cast<ptrdiff_t>(b)];
      }
    }
  }
}

void Windows::crop(const float* lattice, float* output) const {
  for (int r = 0; r < output_.height; r++)
    std::copy_n(lattice + static_cast<ptrdiff_t>(r) * lattice_.width, output_.width,
                output + static_cast<ptrdiff_t>(r) * output_.width);
}

void Windows::announce(Program& program, int value) {
  if (copies_)
    split_ = program.add_split({value, lattice_.height, lattice_.width, spec_.stride[0], spec_.stride[1], phases_},
                               input_.channels * channel());
}

void Windows::prepare(const Run& run, int value, int channels) const {
  if (!copies_) return;
  SplitRoom& room = run.context.split;
  if (room.holds == split_) return;
  const ptrdiff_t size = channels * channel();
  room.planes.grow(2 * run.program.slack() + run.images * size);
  float* phases = room.planes.data() + run.program.slack();
  run.for_each_channel(channels, [&](ptrdiff_t image, ptrdiff_t c) {
    split(run.program.kernels(), run.value(value, image) + c * input_.plane(), phases + image * size + c * channel());
  });
  room.holds = split_;
}

const float* Windows::prepared(const Run& run, int value, ptrdiff_t image) const {
  if (!copies_) return run.value(value, image);
  return run.context.split.planes.data() + run.program.slack() + image * run.program.shape(value).channels * channel();
}

AlignedBuffer Windows::ones(const Kernels& kernels, ptrdiff_t slack) const {
  AlignedBuffer image(input_.plane() + 2 * kBlock), planes(2 * slack + channel());
  std::fill_n(image.data(), input_.pixels(), 1.0f);
  if (copies_)
    split(kernels, image.data(), planes.data() + slack);
  else
    std::copy_n(image.data(), input_.pixels(), planes.data() + slack);
  return planes;
}

}  // namespace prunus
