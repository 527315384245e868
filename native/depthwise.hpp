// Convolutions with one input channel per group.
#pragma once
#include "convolution.hpp"

namespace prunus {

class DepthwiseConvolution : public Convolution {
 public:
  DepthwiseConvolution(const ConvolutionSpec& spec, Program& program, int input, const Kept& kept);
  const char* path(int) const override { return "depthwise"; }

 private:
  void set_used(int domain, Bits used) override { used_.at(domain) = used; }
  void compute(const Run& run) const override;

  std::vector<int32_t> kernel_;  // per output: the index of its kept kernel, or -1
  std::vector<Bits> used_;       // per domain: one bit per kept kernel
};

}  // namespace prunus
