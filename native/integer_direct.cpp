#include "integer_direct.hpp"

#if defined(__unix__)
#include <unistd.h>
#endif

#include <algorithm>

namespace prunus {

namespace {

constexpr ptrdiff_t kMostSums = 32768;    // bytes: they may fill the L1 cache, because kernels seldom wait for others
constexpr ptrdiff_t kLargeCache = 49152;  // bytes of an L1 cache in which sums leave room for long tiles
constexpr int kShortTile = 4;             // blocks; longer ones were slower with a cache of 32 KB

bool has_large_cache() {
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  static const bool is_large = sysconf(_SC_LEVEL1_DCACHE_SIZE) >= kLargeCache;
  return is_large;
#else
  return false;
#endif
}

}  // namespace

void IntegerDirectConvolution::prepare_runs(Program& program) {
  windows_.settle(program, inputs[0], output);
  const ptrdiff_t words = static_cast<ptrdiff_t>(windows_.words().size());
  const ptrdiff_t plane = program.lattice(output).blocks();
  const int longest = kernels_.tile(static_cast<int>(words));
  const ptrdiff_t most = has_large_cache() ? longest : std::min(longest, kShortTile);
  const ptrdiff_t tiles = (plane + most - 1) / most;
  tile_ = static_cast<int>((plane + tiles - 1) / tiles);
  // as many outputs as have room for their sums, but no block much smaller than the others
  const ptrdiff_t fitting = std::min<ptrdiff_t>(256, kMostSums / (tile_ * kBlock * ptrdiff_t{sizeof(int32_t)}));
  const ptrdiff_t blocks = (layer_.outputs + fitting - 1) / fitting;
  const int block = static_cast<int>((layer_.outputs + blocks - 1) / blocks);
  const KernelLists::Layout layout{layer_.inputs, layer_.outputs, layer_.groups, block, layer_.taps() == 1};
  program.count_kept(KernelLists::num_starts(layout, program.domains()) + num_kept_ * words);
  lists_.emplace(layout, layer_.kept, program.domains());
  for (int domain = 0; domain < program.domains(); domain++) lists_->set_used(domain, domains_[domain].used);
  weights_.reserve(num_kept_ * words);
  for (ptrdiff_t kernel = 0; kernel < num_kept_; kernel++)
    for (const IntegerWindows::Word& word : windows_.words())
      weights_.push_back(packed(layer_.kernels + lists_->stored(kernel) * layer_.taps(), word.taps));
}

void IntegerDirectConvolution::run(const Run& run) const {
  windows_.prepare(run, inputs[0]);
  const int block = lists_->layout().block;
  const auto work = [&](const Piece& piece, int worker) {
    for (int first = piece.first_channel; first < piece.last_channel; first += block)
      kernels_.direct(job(run, piece, first, worker), piece.first_block, piece.last_block);
    run.fill_ring(output, piece);
  };
  run.for_each_piece(run.program.lattice(output).blocks(), layer_.outputs, work, block, {tile_, kCodes.few});
}

// Return the kernel's arguments for the blocks of a piece and one block of outputs.
IntegerDirect IntegerDirectConvolution::job(const Run& run, const Piece& piece, int first, int worker) const {
  const ptrdiff_t block = first / lists_->layout().block;
  AlignedBuffer& sums = run.context.scratch[worker].sums;
  IntegerDirect j{};
  j.words = windows_.reads();
  j.input = windows_.prepared(run, inputs[0], piece, worker);
  j.channel = windows_.channel();
  j.inputs = layer_.inputs;
  j.union_start = lists_->kernels(block);
  j.start = lists_->start(run.domain, block);
  j.list = lists_->list(run.domain);
  j.weights = weights_.data();
  j.first_sums = first_sums(run.domain) ? first_sums(run.domain) + first : nullptr;
  j.outputs = std::min(lists_->layout().block, layer_.outputs - first);
  j.tile = tile_;
  j.finish = finish(run, piece.image);
  j.finish.start_at(first);
  sums.grow(static_cast<ptrdiff_t>(j.outputs) * tile_ * kBlock);
  j.sums = reinterpret_cast<int32_t*>(sums.data());
  return j;
}

}  // namespace prunus
