// Convolutions whose groups have one input each.
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

  std::vector<int32_t> kernel_;  // of every output, or -1
  std::vector<Bits> used_;       // by domain: of every kept kernel
};

}  // namespace prunus
