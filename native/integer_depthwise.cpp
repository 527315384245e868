#include "integer_depthwise.hpp"

namespace prunus {

void IntegerDepthwiseConvolution::prepare_runs(Program& program) {
  windows_.settle(program, inputs[0], output);
  for (int32_t o = 0, next = 0; o < layer_.outputs; o++) kernel_.push_back(layer_.kept[o] ? next++ : -1);
  program.count_kept(num_kept_ * static_cast<ptrdiff_t>(windows_.words().size()));
  for (ptrdiff_t kernel = 0; kernel < num_kept_; kernel++)
    for (const IntegerWindows::Word& word : windows_.words())
      weights_.push_back(packed(layer_.kernels + kernel * layer_.taps(), word.taps));
}

void IntegerDepthwiseConvolution::run(const Run& run) const {
  windows_.prepare(run, inputs[0]);
  const Bits used = domains_[run.domain].used;
  const auto work = [&](const Piece& piece, int worker) {
    const Finish all = finish(run, piece.image);
    const uint8_t* input = windows_.prepared(run, inputs[0], piece.image, worker);
    for (int o = piece.first_channel; o < piece.last_channel; o++) {
      IntegerDepthwise j{};
      j.words = windows_.reads();
      if (kernel_[o] >= 0 && used[kernel_[o]]) {
        j.weights = weights_.data() + static_cast<ptrdiff_t>(kernel_[o]) * j.words.count;
        j.first_sum = first_sums(run.domain) ? first_sums(run.domain)[o] : 0;
      } else {
        j.words.count = 0;
      }
      j.input = input + o / layer_.group_outputs() * windows_.channel();
      j.finish = all;
      j.finish.start_at(o);
      kernels_.depthwise(j, piece.first_block, piece.last_block);
    }
    run.fill_ring(output, piece);
  };
  run.for_each_piece(run.program.lattice(output).blocks(), layer_.outputs, work, 1, kCodes);
}

}  // namespace prunus
