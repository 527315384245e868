// Convolutions whose groups have one input each.
#pragma once
#include "convolution.hpp"

namespace prunus {

class DepthwiseConvolution : public Convolution {
 public:
  DepthwiseConvolution(const ConvolutionSpec& spec, Program& program, int input, const Kept& kept);
  const char* path(int) const override { return "depthwise"; }

 private:
  void set_used(int domain, const uint8_t* used) override;
  void compute(const Run& run) const override;

  std::vector<int64_t> kernel_;            // of every output, or -1
  std::vector<std::vector<uint8_t>> used_;  // by domain and kept kernel
};

}  // namespace prunus
