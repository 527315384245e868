// A convolution of all domains: shared kernels, and for each domain the list of kernels that it uses. Its window and
// groups decide how it is computed: direct, depthwise or pointwise (1x1), one file each. The arrays of the model file
// are not copied: weights, masks, scales and biases must outlive the convolution.
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

// The kept kernels of a layer: one bit for each kernel of the dense layer, and the weights of the kernels whose bit is
// set. Kernels larger than 1x1 are stored by group, input, output; 1x1 kernels by group, output, input.
struct Kept {
  Bits kernels;
  StoredFloats weights;
};

class Convolution : public Step {
 public:
  Convolution(const ConvolutionSpec& spec, Program& program, int input, const Kept& kept);

  // `used` has one bit per kept kernel; scale, bias and ones may be null.
  void set_domain(int domain, Bits used, const float* scale, const float* bias, const float* ones);
  void run(const Run& run) const override;
  virtual const char* path(int domain) const = 0;

 protected:
  virtual void set_used(int domain, Bits used) = 0;
  virtual void compute(const Run& run) const = 0;

  Epilogue epilogue(const Run& run, ptrdiff_t image, int first_output) const;
  // All weights as float32, converted if necessary.
  const float* weights(const Run& run) const;
  const float* input(const Run& run, ptrdiff_t image) const { return windows_.prepared(run, inputs[0], image); }
  const float* ones_weights(int domain, ptrdiff_t output) const;  // null if the domain has none
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
    std::vector<float> folded;  // the bias if it differs from the file's
  };
  ptrdiff_t ones_slack() const { return (windows_.reach() / kBlock + 9) * kBlock; }

  AlignedBuffer ones_;  // a plane of ones with slack on both sides
  std::vector<Domain> domains_;
};

std::unique_ptr<Convolution> make_convolution(const ConvolutionSpec& spec, Program& program, int input,
                                              const Kept& kept);

}  // namespace prunus
