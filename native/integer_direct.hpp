// Convolutions of codes with any window. They go through the inputs one by one, and each used kernel adds to its
// output.
#pragma once
#include <optional>

#include "integer_convolution.hpp"
#include "kernel_lists.hpp"

namespace prunus {

class IntegerDirectConvolution : public IntegerConvolution {
 public:
  IntegerDirectConvolution(const IntegerLayer& layer, const Program& program, const Shape& input, const Shape& output)
      : IntegerConvolution(layer, program), windows_(layer.window, input, output, program.integers(), false) {}
  const char* path(int) const override { return "integer direct"; }
  void announce(Program& program) override { windows_.announce(program, inputs[0], output); }
  void run(const Run& run) const override;

 private:
  void prepare_runs(Program& program) override;
  IntegerDirect job(const Run& run, const Piece& piece, int first, int worker) const;

  IntegerWindows windows_;
  std::optional<KernelLists> lists_;
  std::vector<int32_t> weights_;  // [kernel][word]
  int tile_ = 1;                  // blocks
};

}  // namespace prunus
