// 1x1 convolutions: products of a sparse and a dense matrix, or of two dense ones where a domain uses nearly all.
#pragma once
#include "convolution.hpp"

namespace prunus {

class PointwiseConvolution : public Convolution {
 public:
  PointwiseConvolution(const ConvolutionSpec& spec, Program& program, int input, const Kept& kept);
  const char* path(int domain) const override { return domains_.at(domain).packed ? "dense pointwise" : "pointwise"; }

 private:
  struct Lists {
    std::vector<uint16_t> bits;      // of every list, from a new word on: which of its kept weights the domain uses
    std::vector<int> chunks;         // outputs whose lists are selected together, and the end
    std::vector<uint32_t> start;     // [chunk][block of inputs][its outputs + 1]: where selected lists begin
    std::shared_ptr<Floats> packed;  // instead of all that, for a layer that is nearly full
    std::vector<uint8_t> mask;       // of a packed layer, to share it with domains that use the same
  };

  void set_used(int domain, const uint8_t* used) override;
  void set_packed(Lists& domain, const uint8_t* used);
  void set_lists(Lists& domain, const uint8_t* used, long count) const;
  void set_starts(Lists& domain, const uint8_t* used, int first, int last) const;
  void compute(const Run& run) const override;
  void compute_sparse(const Run& run, const Lists& domain) const;
  void compute_dense(const Run& run, const Lists& domain) const;

  int input_blocks_ = 1;
  std::vector<uint32_t> union_start_;  // lists of kept weights: [outputs][blocks of inputs], and the end
  std::vector<uint32_t> words_;        // the same for their bits
  std::vector<uint32_t> places_;       // of every kept weight: where its input lies
  std::vector<Lists> domains_;
};

}  // namespace prunus
