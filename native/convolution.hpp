// A convolution of all domains: shared kernels, and for every domain the list of those it uses.
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
};

class Convolution : public Step {
 public:
  // `kept`: a byte per kernel in stored order; `kernels`: the kept ones, which must outlive this object.
  Convolution(const ConvolutionSpec& spec, Program& program, int input, const uint8_t* kept, const float* kernels);

  // `used`: a byte per kept kernel; scale, bias and ones may be null.
  void set_domain(int domain, const uint8_t* used, const float* scale, const float* bias, const float* ones);
  void run(const Run& run) const override;

  enum class Path { direct, depthwise, pointwise, vectorwise };
  const char* path(int domain) const;

 private:
  struct Domain {
    std::vector<float> scale, bias, ones;
    std::vector<uint32_t> start;     // direct: [output block][inputs + 1]; pointwise: [chunk][block][its outputs + 1]
    std::vector<uint16_t> list;      // direct
    std::vector<int> chunks;         // pointwise: outputs whose lists are selected together, and the end
    std::vector<uint16_t> bits;      // pointwise: of every list; vectorwise: [output][blocks of inputs]
    std::vector<uint8_t> used;       // depthwise: by output
    std::shared_ptr<Floats> packed;  // a 1x1 layer that is nearly full
    std::vector<uint8_t> mask;       // of a packed layer, to share it with domains that use the same
  };

  void prepare_direct(const uint8_t* kept, const float* kernels);
  void prepare_rows(const uint8_t* kept, const float* kernels, long plane);
  void set_direct(Domain& domain, const uint8_t* used);
  void set_pointwise(Domain& domain, const uint8_t* used);
  void set_lists(Domain& domain, const uint8_t* used, long count);
  void set_starts(Domain& domain, const uint8_t* used, int first, int last) const;
  void run_direct(const Run& run, const Domain& domain) const;
  void run_depthwise(const Run& run, const Domain& domain) const;
  void run_pointwise(const Run& run, const Domain& domain) const;
  void run_dense(const Run& run, const Domain& domain) const;
  void run_vectorwise(const Run& run, const Domain& domain) const;
  Epilogue epilogue(const Run& run, const Domain& domain, long image, int first) const;
  long ones_slack() const { return (windows_.reach() / kBlock + 9) * kBlock; }
  int blocks_of_outputs() const { return (spec_.outputs + kOutputBlock - 1) / kOutputBlock; }

  ConvolutionSpec spec_;
  const Kernels& kernels_;
  Windows windows_;
  Path path_;
  long num_kept_ = 0;
  const float* weights_ = nullptr;
  std::vector<float> own_weights_;      // where the stored order is not the one that is needed
  std::vector<uint32_t> union_start_;   // direct: [output block][inputs]; pointwise: [outputs][blocks of inputs], and the end
  std::vector<uint16_t> union_output_;  // direct: of every kept kernel
  int input_blocks_ = 1;                // pointwise
  std::vector<uint32_t> places_;        // pointwise: of every kept kernel, where its input lies
  std::vector<uint32_t> words_;         // pointwise: as union_start_, where the bits begin
  std::vector<uint32_t> kernel_of_;     // depthwise: by output, the kernel, or kNone
  Floats rows_;                         // vectorwise
  Floats ones_;                         // a plane of ones, with slack around it
  std::vector<Domain> domains_;
};

}  // namespace prunus
