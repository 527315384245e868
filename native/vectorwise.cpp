#include "vectorwise.hpp"

#include <algorithm>

namespace prunus {

VectorwiseConvolution::VectorwiseConvolution(const ConvolutionSpec& spec, Program& program, int input, const Kept& kept)
    : Convolution(spec, program, input, kept),
      kept_(kept.kernels, kept.kernels + static_cast<long>(spec.outputs) * spec.inputs),
      rows_(spec.outputs * blocks() * kBlock),
      bits_(program.domains()) {
  const float* next = kept.weights;
  for (long o = 0; o < spec_.outputs; o++)
    for (long i = 0; i < spec_.inputs; i++)
      if (kept_[o * spec_.inputs + i]) rows_.data()[o * blocks() * kBlock + i] = *next++;
}

void VectorwiseConvolution::set_used(int domain, const uint8_t* used) {
  std::vector<uint16_t>& bits = bits_.at(domain);
  bits.assign(spec_.outputs * blocks(), 0);
  for (long o = 0; o < spec_.outputs; o++)
    for (long i = 0; i < spec_.inputs; i++)
      if (kept_[o * spec_.inputs + i] && *used++) bits[o * blocks() + i / kBlock] |= static_cast<uint16_t>(1u << i % kBlock);
}

void VectorwiseConvolution::compute(const Run& run) const {
  const Shape& out = run.program.shape(output);
  run.context.gathered.grow(blocks() * kBlock);
  for (long image = 0; image < run.images; image++) {
    const float* from = input(run, image);
    float* flat = run.context.gathered.data();
    for (int i = 0; i < spec_.inputs; i++) flat[i] = from[i * channel_];
    std::fill(flat + spec_.inputs, flat + blocks() * kBlock, 0.0f);
    const Vectorwise j{flat,          static_cast<int>(blocks()), rows_.data(), bits_[run.domain].data(),
                       spec_.outputs, run.value(output, image),   out.plane(),  epilogue(run, image, 0)};
    const long rows = std::min<long>(run.context.workers.threads(), spec_.outputs);
    run.context.workers.each(rows, [&](long row, int) {
      kernels_.vectorwise(j, static_cast<int>(spec_.outputs * row / rows), static_cast<int>(spec_.outputs * (row + 1) / rows));
    });
  }
}

}  // namespace prunus
