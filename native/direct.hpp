// Convolutions of any window. They go through the inputs one by one, and each used kernel adds to its output.
#pragma once
#include "convolution.hpp"

namespace prunus {

class DirectConvolution : public Convolution {
 public:
  DirectConvolution(const ConvolutionSpec& spec, Program& program, int input, const Kept& kept);
  const char* path(int) const override { return "direct"; }

 private:
  struct Lists {
    std::vector<uint32_t> start;  // [output block][inputs + 1]
    std::vector<uint8_t> list;    // the used kernels of each input, as indices among its kept kernels
  };

  void set_used(int domain, Bits used) override;
  void compute(const Run& run) const override;
  Direct job(const Run& run, ptrdiff_t image, int first, ptrdiff_t plane, int worker) const;
  void crop(const Run& run, ptrdiff_t plane) const;
  int blocks_of_outputs() const { return (spec_.outputs + kOutputBlock - 1) / kOutputBlock; }

  std::vector<uint32_t> union_start_;  // [output block][inputs], then the end
  std::vector<uint8_t> union_output_;  // per kept kernel: its output within its output block
  std::vector<uint32_t> stored_;       // per kept kernel: its index in stored order; empty if the orders agree
  std::vector<float> own_weights_;     // a copy of the weights if the orders differ
  std::vector<Lists> domains_;
};

}  // namespace prunus
