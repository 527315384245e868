#include "integer_depthwise.hpp"

#include "cache_lines.hpp"

namespace prunus {

namespace {

constexpr ptrdiff_t kFewCopied = 64;  // blocks: smaller planes that are copied first are not divided
constexpr int kOutputsAhead = 8;      // channels that are asked for ahead

}  // namespace

void IntegerDepthwiseConvolution::prepare_runs(Program& program) {
  windows_.settle(program, inputs[0], output);
  for (int32_t o = 0, next = 0; o < layer_.outputs; o++) kernel_.push_back(layer_.kept[o] ? next++ : -1);
  program.count_kept(num_kept_ * static_cast<ptrdiff_t>(windows_.words().size()));
  for (ptrdiff_t kernel = 0; kernel < num_kept_; kernel++)
    for (const IntegerWindows::Word& word : windows_.words())
      weights_.push_back(packed(layer_.kernels + kernel * layer_.taps(), word.taps));
}

bool IntegerDepthwiseConvolution::begins_by_blocks(const Program& program) const {
  return works_by_blocks() || (windows_.by_channel() && program.lattice(output).blocks() > kFewCopied);
}

void IntegerDepthwiseConvolution::run(const Run& run) const {
  windows_.prepare(run, inputs[0]);
  const auto work = [&](const Piece& piece, int worker) { run_blocks(run, piece, worker); };
  const ptrdiff_t blocks = run.program.lattice(output).blocks();
  run.for_each_piece(blocks, layer_.outputs, work, 1, windows_.by_channel() ? Grain{blocks, kFewCopied} : kCodes);
}

void IntegerDepthwiseConvolution::run_blocks(const Run& run, const Piece& piece, int worker) const {
  const Bits used = domains_[run.domain].used;
  const Finish all = finish(run, piece.image);
  const uint8_t* input = windows_.by_channel() ? nullptr : windows_.prepared(run, inputs[0], piece, worker);
  ptrdiff_t copied = -1;  // the channel in the worker's copy
  const uint8_t* copy = nullptr;
  const ptrdiff_t bytes = run.program.threads() > 1 ? (piece.last_block - piece.first_block) * kBlock : 0;
  for (int o = piece.first_channel; o < piece.last_channel; o++) {
    IntegerDepthwise j{};
    j.words = windows_.reads();
    if (kernel_[o] >= 0 && used[kernel_[o]]) {
      j.weights = weights_.data() + static_cast<ptrdiff_t>(kernel_[o]) * j.words.count;
      j.first_sum = first_sums(run.domain) ? first_sums(run.domain)[o] : 0;
    } else {
      j.words.count = 0;
    }
    const ptrdiff_t channel = o / layer_.group_outputs();
    if (windows_.by_channel() && j.words.count && channel != copied) {
      copy = windows_.copied_channel(run, inputs[0], piece, channel, worker);
      copied = channel;
    }
    j.input = input ? input + channel * windows_.channel() : copy;
    j.finish = all;
    j.finish.start_at(o);
    if (bytes && o + kOutputsAhead < piece.last_channel) {
      fetch_to_write(j.finish.output + kOutputsAhead * j.finish.plane + piece.first_block * kBlock, bytes);
      if (windows_.by_channel())
        windows_.fetch_channel(run, inputs[0], piece, (o + kOutputsAhead) / layer_.group_outputs());
    }
    kernels_.depthwise(j, piece.first_block, piece.last_block);
  }
  run.fill_ring(output, piece);
}

}  // namespace prunus
