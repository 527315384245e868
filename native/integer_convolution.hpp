// A convolution of codes for all domains: shared kernels of 8 bits, and for each domain the kernels that it uses. Its
// window and groups decide how it is computed: direct, depthwise or pointwise (1x1), one file each. The arrays of the
// model file must outlive the convolution.
#pragma once
#include <memory>
#include <vector>

#include "integer_windows.hpp"

namespace prunus {

// Kernels larger than 1x1 are stored by group, input, output; 1x1 kernels by group, output, input.
struct IntegerLayer {
  int inputs, outputs, groups;
  WindowSpec window;
  Bits kept;              // one bit for each kernel of the dense layer
  const int8_t* kernels;  // the weights of the kernels whose bit is set

  int group_inputs() const { return inputs / groups; }
  int group_outputs() const { return outputs / groups; }
  int taps() const { return window.kernel[0] * window.kernel[1]; }
  ptrdiff_t num_kernels() const { return static_cast<ptrdiff_t>(outputs) * group_inputs(); }
};

class IntegerConvolution : public Step {
 public:
  struct Domain {
    Bits used{};  // one bit per kept kernel
    uint8_t zero = 0;
    const float *multipliers = nullptr, *offsets = nullptr;  // per output
    float residual = 0, low = 0, high = 255;
  };

  IntegerConvolution(const IntegerLayer& layer, const Program& program);

  void set_domain(int domain, const Domain& settings) { domains_.at(domain) = settings; }
  bool reads_codes() const override { return true; }
  bool makes_codes() const override { return true; }
  void settle(Program& program) override;
  virtual const char* path(int domain) const = 0;

 protected:
  virtual void prepare_runs(Program& program) = 0;
  void expect_domains() const;  // throws if the numbers of one are missing

  // Starts at output 0.
  Finish finish(const Run& run, ptrdiff_t image) const;
  // Per output: what makes up for the kernels' offset; null if there is nothing to make up for.
  const int32_t* first_sums(int domain) const { return first_sums_.empty() ? nullptr : first_sums_[domain].data(); }
  // Pack up to `group` weights into a word; taps of -1 are 0.
  int32_t packed(const int8_t* weights, const int (&taps)[kMaxGroup]) const;

  IntegerLayer layer_;
  const IntegerKernels& kernels_;
  ptrdiff_t num_kept_;
  std::vector<Domain> domains_;

 private:
  void set_first_sums();
  bool is_bounded(const Domain& domain) const;

  std::vector<std::vector<int32_t>> first_sums_;
  std::vector<bool> bounded_;  // per domain
};

std::unique_ptr<IntegerConvolution> make_integer_convolution(const IntegerLayer& layer, Program& program, int input);

}  // namespace prunus
