// 1x1 convolutions for domains whose weights come in fours: of four consecutive inputs, they use all or none.
#include <algorithm>

#include "pointwise.hpp"

namespace prunus {

namespace {

constexpr int kFour = 4;  // weights of consecutive inputs that may share a switch

}  // namespace

// This says nothing about the other domains: they may use single weights of the fours that this one does not use.
bool PointwiseConvolution::comes_in_fours(Bits used) const {
  if (spec_.groups != 1 || weights_.precision != Precision::float32 || spec_.inputs % kFour != 0) return false;
  for (ptrdiff_t four = 0, k = 0; four < num_weights() / kFour; four++) {
    const ptrdiff_t end = k + __builtin_popcount(union_bits_.four(four));
    ptrdiff_t on = 0;
    for (; k < end; k++) on += used[k];
    if (on != 0 && on != kFour) return false;
  }
  return true;
}

// List the fours of weights that are all kept; those of domains that come in fours are among them.
void PointwiseConvolution::make_fours() {
  if (fours_) return;
  const KernelLists::Layout layout{spec_.inputs / kFour, spec_.outputs, 1, kFoursOutputs, true, true};
  program_.count_kept(KernelLists::num_starts(layout, program_.domains()));
  fours_ = std::make_unique<KernelLists>(layout, union_bits_, program_.domains());
  for (int chunk = 0; chunk <= layout.blocks(); chunk++)
    first_weight_.push_back(
        union_bits_.count(0, std::min(chunk * kFoursOutputs, spec_.outputs) * ptrdiff_t{spec_.inputs}));
}

// Sums are added input by input in any tile, so threads do not change how they are rounded.
void PointwiseConvolution::compute_fours(const Run& run) const {
  const Shape& out = run.program.shape(output);
  const ptrdiff_t blocks = out.blocks(), tiles = (blocks + kFoursTile - 1) / kFoursTile;
  const ptrdiff_t chunks = fours_->layout().blocks();
  run.context.workers.for_each(run.images * tiles * chunks, [&](ptrdiff_t item, int worker) {
    const ptrdiff_t image = item / chunks / tiles, chunk = item / tiles % chunks, tile = item % tiles;
    const int first = static_cast<int>(chunk) * kFoursOutputs;
    AlignedBuffer& sums = run.context.scratch[worker].sums;
    sums.grow(kFoursOutputs * kFoursTile * kBlock);
    Fours j{};
    j.pixels = out.pixels();
    j.input = input(run, image);
    j.channel = channel_;
    j.fours = fours_->layout().inputs;
    j.union_start = fours_->kernels(chunk);
    j.union_output = fours_->outputs();
    j.stored = fours_->stored();
    j.start = fours_->start(run.domain, chunk);
    j.list = fours_->list(run.domain);
    j.weights = weights_.as_float32();
    if (chunk + 1 < chunks) {  // a part with every tile
      const ptrdiff_t all = first_weight_[chunk + 2] - first_weight_[chunk + 1];
      j.next = j.weights + first_weight_[chunk + 1] + all * tile / tiles;
      j.next_floats = all / tiles;
    }
    j.outputs = std::min(kFoursOutputs, spec_.outputs - first);
    j.output = run.value(output, image) + first * out.plane();
    j.output_plane = out.plane();
    j.epilogue = epilogue(run, image, first);
    j.sums = sums.data();
    kernels_.fours(j, blocks * tile / tiles, blocks * (tile + 1) / tiles);
  });
}

}  // namespace prunus
