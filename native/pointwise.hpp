// 1x1 convolutions: products of a sparse and a dense matrix, or of two dense ones where a domain uses all.
#pragma once
#include "convolution.hpp"

namespace prunus {

class PointwiseConvolution : public Convolution {
 public:
  PointwiseConvolution(const ConvolutionSpec& spec, Program& program, int input, const Kept& kept);
  const char* path(int domain) const override { return domains_.at(domain).dense ? "dense pointwise" : "pointwise"; }

 private:
  struct Lists {
    Bits used;                    // of every kept weight
    std::vector<int> chunks;      // outputs whose lists are selected together, and the end
    std::vector<uint32_t> first;  // [chunk][blocks of inputs, and the end]: where their selected lists begin
    bool dense = false;           // it uses all that is kept, and that is nearly all there is
  };

  void set_used(int domain, Bits used) override;
  void fill_rows();
  void set_lists(Lists& domain, ptrdiff_t count) const;
  void compute(const Run& run) const override;
  void compute_sparse(const Run& run, const Lists& domain) const;
  void compute_dense(const Run& run) const;
  void select(Scratch& scratch, const Lists& domain, ptrdiff_t chunk) const;
  Pointwise job(const Run& run, ptrdiff_t image, const Lists& domain, ptrdiff_t chunk, int worker) const;
  int spans() const { return static_cast<int>(span_first_.size()) - 1; }

  std::vector<uint16_t> block_spans_;  // of every block of inputs: how many spans it has
  std::vector<uint32_t> span_first_;   // of every span: its first input, and the end
  std::vector<uint32_t> union_start_;  // lists of kept weights: [outputs][spans], and the end
  Bits union_bits_;                    // of every weight: is it kept
  std::vector<uint8_t> columns_;       // where few are, of every kept weight: its input, counted from its span's first
  std::vector<float> rows_;            // all weights with zeros between them, where a domain uses them so
  int threads_;
  std::vector<Lists> domains_;
};

}  // namespace prunus
