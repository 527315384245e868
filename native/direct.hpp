// Convolutions of any window. They go through the inputs one by one, and each used kernel adds to its output.
#pragma once
#include "convolution.hpp"
#include "kernel_lists.hpp"

namespace prunus {

class DirectConvolution : public Convolution {
 public:
  DirectConvolution(const ConvolutionSpec& spec, Program& program, int input, const Kept& kept);
  const char* path(int) const override { return "direct"; }

 private:
  void set_used(int domain, Bits used) override { lists_.set_used(domain, used); }
  void compute(const Run& run) const override;
  Direct job(const Run& run, ptrdiff_t image, int first, ptrdiff_t plane, int worker) const;
  void crop(const Run& run, ptrdiff_t plane) const;

  KernelLists lists_;
  std::vector<float> own_weights_;  // a copy of the weights if they are stored in another order
};

}  // namespace prunus
