// 1x1 convolutions on one pixel, as in squeeze-and-excitation: dot products with rows of weights.
#pragma once
#include "convolution.hpp"

namespace prunus {

class VectorwiseConvolution : public Convolution {
 public:
  VectorwiseConvolution(const ConvolutionSpec& spec, Program& program, int input, const Kept& kept);
  const char* path(int) const override { return "vectorwise"; }

 private:
  void set_used(int domain, const uint8_t* used) override;
  void compute(const Run& run) const override;
  long blocks() const { return (spec_.inputs + kBlock - 1) / kBlock; }

  std::vector<uint8_t> kept_;                // of every kernel
  Floats rows_;                              // [outputs][inputs, padded], zeros where nothing is kept
  std::vector<std::vector<uint16_t>> bits_;  // by domain: [outputs][blocks of inputs]
};

}  // namespace prunus
