// 1x1 convolutions for domains whose weights come in fours: of four consecutive inputs, they use all or none.
#include <algorithm>

#include "pointwise.hpp"

namespace prunus {

namespace {

constexpr int kFour = 4;  // weights of consecutive inputs that may share a switch

}  // namespace

// This says nothing about the other domains: they may use single weights of the fours that this one does not use.
bool PointwiseConvolution::comes_in_fours(Bits used) const {
  if (spec_.groups != 1 || weights_.precision != Precision::float32) return false;
  if (spec_.inputs % kFour != 0 || spec_.inputs > kFoursInputs) return false;
  for (ptrdiff_t four = 0, k = 0; four < num_weights() / kFour; four++) {
    const ptrdiff_t end = k + __builtin_popcount(union_bits_.four(four));
    ptrdiff_t on = 0;
    for (; k < end; k++) on += used[k];
    if (on != 0 && on != kFour) return false;
  }
  return true;
}

// Keep the lists of a domain if there is room. Otherwise each run makes them again and takes twice as long.
void PointwiseConvolution::keep_fours(Lists& d, ptrdiff_t count) {
  const ptrdiff_t chunks = (spec_.outputs + kFoursOutputs - 1) / kFoursOutputs, starts = spec_.inputs / kFour + 1;
  if (first_weight_.empty())
    for (ptrdiff_t chunk = 0; chunk <= chunks; chunk++)
      first_weight_.push_back(
          union_bits_.count(0, std::min<ptrdiff_t>(chunk * kFoursOutputs, spec_.outputs) * spec_.inputs));
  if (!program_.reserve_copies(count / kFour + chunks * (starts + 1), Program::kMostListed)) return;
  d.four_starts.resize(chunks * starts);
  d.fours.reserve(count / kFour);
  for (ptrdiff_t chunk = 0; chunk < chunks; chunk++)
    list_fours(d.used, chunk, d.four_starts.data() + chunk * starts, d.fours);
}

// Add the used fours of a chunk of outputs to a list, as `Fours` describes it.
void PointwiseConvolution::list_fours(Bits used, ptrdiff_t chunk, uint32_t* start, std::vector<uint32_t>& list) const {
  const ptrdiff_t fours = spec_.inputs / kFour, first = chunk * kFoursOutputs,
                  outputs = std::min<ptrdiff_t>(kFoursOutputs, spec_.outputs - first);
  uint32_t next[kFoursOutputs];  // the next weight of each output
  for (ptrdiff_t o = 0, weight = 0; o < outputs; o++) {
    next[o] = static_cast<uint32_t>(weight);
    weight += union_bits_.count((first + o) * spec_.inputs, (first + o + 1) * spec_.inputs);
  }
  for (ptrdiff_t four = 0; four < fours; four++) {
    start[four] = static_cast<uint32_t>(list.size());
    for (ptrdiff_t o = 0; o < outputs; o++) {
      const uint32_t kept = union_bits_.four((first + o) * fours + four);
      if (kept == 0) continue;
      if (kept == 0xf && used[first_weight_[chunk] + next[o]])
        list.push_back(next[o] * kFoursOutputs + static_cast<uint32_t>(o));
      next[o] += kept == 0xf ? kFour : __builtin_popcount(kept);
    }
  }
  start[fours] = static_cast<uint32_t>(list.size());
}

// The weights of a chunk of outputs.
Floats PointwiseConvolution::fours_of(ptrdiff_t chunk) const {
  return {weights_.as_float32() + first_weight_[chunk], first_weight_[chunk + 1] - first_weight_[chunk]};
}

Floats PointwiseConvolution::first_weights(int domain) const {
  return domains_[domain].in_fours ? fours_of(0) : Floats{};
}

// Sums are added input by input in any tile, so threads do not change how they are rounded.
void PointwiseConvolution::compute_fours(const Run& run, const Lists& d) const {
  const Shape& out = run.program.shape(output);
  const ptrdiff_t blocks = out.blocks(), tiles = (blocks + kFoursTile - 1) / kFoursTile,
                  chunks = static_cast<ptrdiff_t>(first_weight_.size()) - 1, starts = spec_.inputs / kFour + 1;
  Floats following;  // what the next step that reads weights in fours reads first
  for (const Step* step = next; step && following.count == 0; step = step->next)
    following = step->first_weights(run.domain);
  const bool is_kept = !d.four_starts.empty();
  std::vector<ptrdiff_t> listed(is_kept ? 0 : run.context.workers.threads(), -1);  // per worker: the chunk
  run.context.workers.for_each(run.images * tiles * chunks, [&](ptrdiff_t item, int worker) {
    const ptrdiff_t image = item / chunks / tiles, chunk = item / tiles % chunks, tile = item % tiles;
    const int first = static_cast<int>(chunk) * kFoursOutputs;
    Scratch& scratch = run.context.scratch[worker];
    scratch.fours.grow(kFoursOutputs * kFoursTile * kBlock);
    if (!is_kept && listed[worker] != chunk) {
      scratch.start.resize(std::max<size_t>(scratch.start.size(), starts));
      scratch.offsets.clear();
      list_fours(d.used, chunk, scratch.start.data(), scratch.offsets);
      listed[worker] = chunk;
    }
    Fours j{};
    j.pixels = out.pixels();
    j.input = input(run, image);
    j.channel = channel_;
    j.fours = spec_.inputs / kFour;
    j.start = is_kept ? d.four_starts.data() + chunk * starts : scratch.start.data();
    j.list = is_kept ? d.fours.data() : scratch.offsets.data();
    j.weights = fours_of(chunk).data;
    const Floats expected = chunk + 1 < chunks ? fours_of(chunk + 1) : following;
    j.next = expected.data + expected.count * tile / tiles;  // a part with every tile
    j.next_floats = expected.count / tiles;
    j.outputs = std::min(kFoursOutputs, spec_.outputs - first);
    j.output = run.value(output, image) + first * out.plane();
    j.output_plane = out.plane();
    j.epilogue = epilogue(run, image, first);
    j.sums = scratch.fours.data();
    kernels_.fours(j, blocks * tile / tiles, blocks * (tile + 1) / tiles);
  });
}

}  // namespace prunus
