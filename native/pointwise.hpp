// 1x1 convolutions: products of a sparse and a dense matrix, or of two dense ones where a domain uses nearly all.
#pragma once
#include "convolution.hpp"

namespace prunus {

class PointwiseConvolution : public Convolution {
 public:
  PointwiseConvolution(const ConvolutionSpec& spec, Program& program, int input, const Kept& kept);
  const char* path(int domain) const override { return domains_.at(domain).dense ? "dense pointwise" : "pointwise"; }

 private:
  struct Lists {
    std::vector<uint16_t> bits;  // of every list, from a new word on: which of its kept weights the domain uses
    std::vector<int> chunks;     // outputs whose lists are selected together, and the end
    std::vector<size_t> words;   // of every chunk: where its bits begin
    std::vector<uint32_t> start; // [chunk][block of inputs][its outputs + 1]: where selected lists begin
    bool dense = false;          // it uses all that is kept, and that is nearly all there is
  };

  void set_used(int domain, const uint8_t* used) override;
  void pack();
  void set_lists(Lists& domain, const uint8_t* used, long count) const;
  void compute(const Run& run) const override;
  const uint32_t* select(Scratch& scratch, const Lists& domain, long chunk) const;
  void set_starts(Lists& domain, const uint8_t* used, int first, int last) const;
  Pointwise job(const Run& run, long image, const Lists& domain, long chunk, const uint32_t* start, int worker) const;
  void compute_sparse(const Run& run, const Lists& domain) const;
  void compute_dense(const Run& run) const;

  int input_blocks_ = 1;
  std::vector<uint32_t> union_start_;  // lists of kept weights: [outputs][blocks of inputs], and the end
  std::vector<uint16_t> columns_;      // of every kept weight: its input
  Floats packed_;                      // the whole layer in panels, where a domain uses it so
  int threads_;
  std::vector<Lists> domains_;
};

}  // namespace prunus
