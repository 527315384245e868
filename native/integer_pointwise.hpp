// 1x1 convolutions of codes: lists of words of weights per output, over inputs that are interleaved into words.
#pragma once
#include <optional>

#include "input_words.hpp"
#include "integer_convolution.hpp"

namespace prunus {

class IntegerPointwiseConvolution : public IntegerConvolution {
 public:
  using IntegerConvolution::IntegerConvolution;
  const char* path(int) const override { return "integer pointwise"; }
  void run(const Run& run) const override;
  void announce(Program& program) override;
  bool works_by_blocks() const override { return !is_strided() && !makes_lists_; }
  int channels_apart(const Program& program) const override;
  void run_blocks(const Run& run, const Piece& piece, int worker) const override;

 private:
  // What a domain uses: for each block of inputs and each output a list of words. The outputs of a unit are in the
  // order of the lengths of their lists, so that the processor foresees where most lists end.
  struct Lists {
    int blocks = 0;
    std::vector<uint16_t> order;  // [block][outputs]: an output for each list
    std::vector<uint32_t> start;  // [block][outputs + 1]
    std::vector<uint16_t> inputs;
    std::vector<int32_t> weights;
  };

  // How a run divides its work: whether threads divide the planes, whether inputs are interleaved tile by tile, and how
  // many outputs stay together.
  struct Division {
    bool by_plane, by_tile;
    int unit;
  };

  Division division(const Program& program) const;
  bool is_strided() const { return layer_.window.stride[0] > 1 || layer_.window.stride[1] > 1; }
  void prepare_runs(Program& program) override;
  ptrdiff_t num_words(int domain) const;
  Lists make_lists(int domain, int unit) const;
  template <class Visit>
  void for_each_word(int domain, Visit visit) const;
  void compute(const Run& run, const Piece& piece, const Lists& lists, bool by_tile, int worker) const;
  void interleave(const Run& run) const;
  void interleave_word(const Run& run, ptrdiff_t image, ptrdiff_t word, AlignedBuffer& scratch, uint8_t* to) const;
  void interleave_tiles(const Run& run, ptrdiff_t image, int worker, IntegerPointwise& j) const;
  IntegerPointwise job(const Run& run, const Piece& piece, const Lists& lists, int worker) const;

  std::optional<InputWords> words_;
  std::vector<ptrdiff_t> offsets_;  // [word][kMaxGroup]: of the planes of its inputs
  std::vector<Lists> lists_;        // per domain; without blocks if there was no room, and then made for each run
  std::vector<bool> has_room_;      // per domain
  bool makes_lists_ = false;        // for runs of some domain
  ptrdiff_t row_ = 0;               // bytes from one word of inputs to the next
  int copy_ = -1;                   // the number of the interleaved input in the program, if it is ever needed
};

}  // namespace prunus
