// Convolutions of any window: input after input, each kernel that is on adds to its output.
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
    std::vector<uint8_t> list;    // kernels of an input that the domain uses, counted among those that are kept
  };

  void set_used(int domain, Bits used) override;
  void compute(const Run& run) const override;
  Direct job(const Run& run, ptrdiff_t image, int first, ptrdiff_t plane, int worker) const;
  void crop(const Run& run, ptrdiff_t plane) const;
  int blocks_of_outputs() const { return (spec_.outputs + kOutputBlock - 1) / kOutputBlock; }

  std::vector<uint32_t> union_start_;  // [output block][inputs], and the end
  std::vector<uint8_t> union_output_;  // of every kept kernel: its place in its output block
  std::vector<uint32_t> stored_;       // of every kept kernel: its number in the stored order, where that is another
  std::vector<float> own_weights_;     // then also a copy in our order
  std::vector<Lists> domains_;
};

}  // namespace prunus
