// 1x1 convolutions: the product of a sparse and a dense matrix, or of two dense matrices if a domain uses nearly
// everything.
#pragma once
#include "convolution.hpp"

namespace prunus {

class PointwiseConvolution : public Convolution {
 public:
  PointwiseConvolution(const ConvolutionSpec& spec, Program& program, int input, const Kept& kept);
  const char* path(int domain) const override;
  Floats first_weights(int domain) const override;

 private:
  struct Lists {
    Bits used;                    // per kept weight
    std::vector<int> chunks;      // the first output of each chunk whose lists are selected together; then the end
    std::vector<uint32_t> first;  // [chunk][block of inputs; then the end]: where the selected lists begin
    bool dense = false;           // the domain uses nearly all weights of the dense layer
    bool whole = false;           // it uses all kept weights
    bool in_fours = false;        // it is not dense, and uses all four weights of a four or none
    std::vector<uint32_t> fours, four_starts;  // if in fours and there was room: see `Fours`; four_starts per chunk
    std::vector<float> rows;  // if dense and not whole: its dense weights, if there was room for a copy
  };

  void set_used(int domain, Bits used) override;
  void fill_rows();
  void set_lists(Lists& domain, ptrdiff_t count) const;
  bool comes_in_fours(Bits used) const;
  void keep_fours(Lists& domain, ptrdiff_t count);
  void list_fours(Bits used, ptrdiff_t chunk, uint32_t* start, std::vector<uint32_t>& list) const;
  void make_lists();
  void compute(const Run& run) const override;
  void compute_sparse(const Run& run, const Lists& domain) const;
  Floats fours_of(ptrdiff_t chunk) const;
  void compute_fours(const Run& run, const Lists& domain) const;
  void compute_dense(const Run& run, const Lists& domain) const;
  const float* dense_rows(const Run& run, const Lists& domain) const;
  void expand(const float* kept, Bits used, float* rows) const;
  void select(Scratch& scratch, const Lists& domain, ptrdiff_t chunk) const;
  Pointwise job(const Run& run, ptrdiff_t image, const Lists& domain, ptrdiff_t chunk, int worker) const;
  ptrdiff_t num_weights() const { return static_cast<ptrdiff_t>(spec_.inputs) * spec_.outputs; }
  int spans() const { return static_cast<int>(span_first_.size()) - 1; }

  std::vector<ptrdiff_t> first_weight_;  // of each chunk in fours, as stored; then the end
  std::vector<uint16_t> block_spans_;    // per block of inputs: its number of spans
  std::vector<uint32_t> span_first_;     // per span: its first input; then the end
  std::vector<uint32_t> union_start_;    // lists of kept weights: [outputs][spans], then the end
  Bits union_bits_;                      // per weight of the dense layer: whether it is kept
  std::vector<uint8_t> columns_;         // per kept weight: its input, relative to its span; empty if many are kept
  std::vector<float> rows_;              // the dense weight matrix, if a domain computes with it
  int threads_;
  Program& program_;
  std::vector<Lists> domains_;
};

}  // namespace prunus
