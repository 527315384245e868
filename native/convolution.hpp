// A convolution of all domains: shared kernels, and for every domain the list of those it uses. How it is computed
// depends on its window and groups: direct, depthwise or pointwise (1x1), a file each. What a file holds is not copied:
// weights, masks, scales and biases must outlive the convolution.
#pragma once
#include <memory>
#include <vector>

#include "windows.hpp"

namespace prunus {

struct ConvolutionSpec {
  int inputs, outputs, groups;
  WindowSpec window;
  Activation activation;
  float slope;

  int group_inputs() const { return inputs / groups; }
  int group_outputs() const { return outputs / groups; }
};

// The kept kernels of a layer: a bit for each of all, in stored order, and the numbers of those that are on. Windows
// are stored by group, input, output; single pixels by group, output, input.
struct Kept {
  Bits kernels;
  StoredFloats weights;
};

class Convolution : public Step {
 public:
  Convolution(const ConvolutionSpec& spec, Program& program, int input, const Kept& kept);

  // `used`: a bit per kept kernel; scale, bias and ones may be null.
  void set_domain(int domain, Bits used, const float* scale, const float* bias, const float* ones);
  void run(const Run& run) const override;
  virtual const char* path(int domain) const = 0;

 protected:
  virtual void set_used(int domain, Bits used) = 0;
  virtual void compute(const Run& run) const = 0;

  Epilogue epilogue(const Run& run, ptrdiff_t image, int first_output) const;
  // All weights, widened if they must be.
  const float* weights(const Run& run) const;
  const float* input(const Run& run, ptrdiff_t image) const { return windows_.prepared(run, inputs[0], image); }
  const float* ones_weights(int domain, ptrdiff_t output) const;  // null where the domain has none
  const float* ones() const { return ones_.data() + ones_slack(); }

  ConvolutionSpec spec_;
  const Kernels& kernels_;
  Windows windows_;
  ptrdiff_t channel_;  // floats from one input channel to the next
  ptrdiff_t num_kept_;
  StoredFloats weights_;

 private:
  struct Domain {
    const float *scale = nullptr, *bias = nullptr, *ones = nullptr;
    std::vector<float> folded;  // a bias that is not the file's
  };
  ptrdiff_t ones_slack() const { return (windows_.reach() / kBlock + 9) * kBlock; }

  AlignedBuffer ones_;  // a plane of ones, with slack around it
  std::vector<Domain> domains_;
};

std::unique_ptr<Convolution> make_convolution(const ConvolutionSpec& spec, Program& program, int input,
                                              const Kept& kept);

}  // namespace prunus
