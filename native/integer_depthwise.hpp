// Convolutions of codes with one input channel per group.
#pragma once
#include "integer_convolution.hpp"

namespace prunus {

class IntegerDepthwiseConvolution : public IntegerConvolution {
 public:
  IntegerDepthwiseConvolution(const IntegerLayer& layer, const Program& program, const Shape& input,
                              const Shape& output)
      : IntegerConvolution(layer, program), windows_(layer.window, input, output, program.integers(), true) {}
  const char* path(int) const override { return "integer depthwise"; }
  void announce(Program& program) override { windows_.announce(program, inputs[0], output); }
  void run(const Run& run) const override;
  bool works_by_blocks() const override { return windows_.in_place(); }
  bool begins_by_blocks(const Program& program) const override;
  ptrdiff_t reach(const Program& program) const override { return windows_.reach(program.lattice(output)); }
  bool works_by_channels() const override { return windows_.in_place() || windows_.by_channel(); }
  void run_blocks(const Run& run, const Piece& piece, int worker) const override;

 private:
  void prepare_runs(Program& program) override;

  IntegerWindows windows_;
  std::vector<int32_t> kernel_;   // per output: the index of its kept kernel, or -1
  std::vector<int32_t> weights_;  // [kernel][word]
};

}  // namespace prunus
