#include "depthwise.hpp"

namespace prunus {

DepthwiseConvolution::DepthwiseConvolution(const ConvolutionSpec& spec, Program& program, int input, const Kept& kept)
    : Convolution(spec, program, input, kept), used_(program.domains()) {
  for (int32_t o = 0, next = 0; o < spec_.outputs; o++) kernel_.push_back(kept.kernels[o] ? next++ : -1);
}

void DepthwiseConvolution::compute(const Run& run) const {
  const Shape& out = run.program.shape(output);
  const Bits used = used_[run.domain];
  const float* kernels = weights(run);
  run.for_each_piece(out.blocks(), spec_.outputs, [&](const Piece& piece, int) {
    for (int o = piece.first_channel; o < piece.last_channel; o++) {
      const bool on = kernel_[o] >= 0 && used[kernel_[o]];
      Depthwise j{};
      j.window = windows_.window();
      j.input = input(run, piece.image) + o / spec_.group_outputs() * channel_;
      j.weights = on ? kernels + static_cast<ptrdiff_t>(kernel_[o]) * j.window.taps : nullptr;
      j.ones_weights = ones_weights(run.domain, o);
      j.ones = j.ones_weights ? ones() : nullptr;
      if (!on && j.ones) {  // the plane of ones is its only input
        j.input = j.ones;
        j.weights = j.ones_weights;
        j.ones = nullptr;
      } else if (!on) {
        j.window.taps = 0;
      }
      j.output = run.value(output, piece.image) + o * out.plane();
      j.epilogue = epilogue(run, piece.image, o);
      kernels_.depthwise(j, piece.first_block, piece.last_block);
    }
  });
}

}  // namespace prunus
