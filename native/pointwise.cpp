#include "pointwise.hpp"

#include <algorithm>
#include <numeric>

namespace prunus {

namespace {

constexpr long kShortList = 24;      // weights: fewer are not worth the beginning of a list
constexpr long kListChunk = 8192;    // weights: with their places 64 KiB
constexpr long kListPerInput = 14;   // weights that each input must meet in a chunk to be worth reading again
constexpr long kFewBlocks = 8;       // of pixels: with more, every weight is worth a longer way

// The costs in vector operations. A full layer reads every weight for six outputs at once and hardly waits for memory; a
// sparse one loads its input for each weight, from the second-level cache where there are many inputs.
bool dense_is_faster(long used, long inputs, long outputs, long blocks) {
  const double sparse = used * (blocks * (inputs > 256 ? 1.55 : 1.25) + 1.5);
  const double dense = static_cast<double>(inputs) * ((outputs + kRows - 1) / kRows * kRows) * blocks * 1.05;
  return dense < sparse;
}

}  // namespace

PointwiseConvolution::PointwiseConvolution(const ConvolutionSpec& spec, Program& program, int input, const Kept& kept)
    : Convolution(spec, program, input, kept), threads_(program.threads()), domains_(program.domains()) {
  const int outputs = spec_.group_outputs(), inputs = spec_.group_inputs();
  const long fitting = (inputs + kInputBlock - 1L) / kInputBlock, worthwhile = num_kept_ / spec_.outputs / kShortList;
  input_blocks_ = static_cast<int>(std::max(1L, std::min(fitting, worthwhile)));
  union_start_.push_back(0);
  for (long o = 0; o < spec_.outputs; o++) {
    for (long block = 0; block < input_blocks_; block++) {
      for (long i = inputs * block / input_blocks_; i < inputs * (block + 1) / input_blocks_; i++)
        if (kept.kernels[o * inputs + i]) columns_.push_back(static_cast<uint16_t>(o / outputs * inputs + i));
      union_start_.push_back(static_cast<uint32_t>(columns_.size()));
    }
  }
}

void PointwiseConvolution::set_used(int domain, const uint8_t* used) {
  Lists& d = domains_.at(domain);
  const long count = std::accumulate(used, used + num_kept_, 0L);
  // only what a domain uses whole is packed: one copy for all, not one for each
  d.dense = spec_.groups == 1 && count == num_kept_ &&
            dense_is_faster(count, spec_.inputs, spec_.outputs, windows_.lattice().blocks());
  d.dense ? pack() : set_lists(d, used, count);
}

void PointwiseConvolution::pack() {
  if (packed_.size()) return;
  packed_.grow((spec_.outputs + kRows - 1L) / kRows * spec_.inputs * kRows);
  for (long o = 0; o < spec_.outputs; o++)
    for (uint32_t k = union_start_[o * input_blocks_]; k < union_start_[(o + 1) * input_blocks_]; k++)
      packed_.data()[(o / kRows * spec_.inputs + columns_[k]) * kRows + o % kRows] = weights_[k];
}

// Divide the outputs into chunks whose lists stay in the second-level cache, and give every thread some.
void PointwiseConvolution::set_lists(Lists& d, const uint8_t* used, long count) const {
  const long fitting = std::max(1L, count / std::max(kListChunk, kListPerInput * spec_.inputs));
  const long needed = windows_.lattice().blocks() > kFewBlocks ? 1 : fitting;
  const long chunks = std::min<long>(spec_.outputs, (needed + threads_ - 1) / threads_ * threads_);
  for (long chunk = 0; chunk <= chunks; chunk++) d.chunks.push_back(static_cast<int>(spec_.outputs * chunk / chunks));
  for (long chunk = 0; chunk < chunks; chunk++) {
    d.words.push_back(d.bits.size());
    set_starts(d, used, d.chunks[chunk], d.chunks[chunk + 1]);
    for (long list = d.chunks[chunk] * static_cast<long>(input_blocks_); list < d.chunks[chunk + 1] * static_cast<long>(input_blocks_); list++)
      for (uint32_t k = union_start_[list]; k < union_start_[list + 1]; k++) {
        const uint32_t place = (k - union_start_[list]) % kBlock;
        if (!place) d.bits.push_back(0);
        if (used[k]) d.bits.back() |= static_cast<uint16_t>(1u << place);
      }
  }
  d.bits.shrink_to_fit();
}

// Find where the lists of a chunk begin once they are selected: one block of inputs after the other.
void PointwiseConvolution::set_starts(Lists& d, const uint8_t* used, int first, int last) const {
  uint32_t place = 0;
  for (int block = 0; block < input_blocks_; block++, place += kBlock) {  // vectors write a little past the end
    for (int o = first; o < last; o++) {
      const size_t list = static_cast<size_t>(o) * input_blocks_ + block;
      d.start.push_back(place);
      for (uint32_t k = union_start_[list]; k < union_start_[list + 1]; k++) place += used[k] != 0;
    }
    d.start.push_back(place);
  }
}

void PointwiseConvolution::compute(const Run& run) const {
  const Lists& d = domains_[run.domain];
  d.dense ? compute_dense(run) : compute_sparse(run, d);
}

void PointwiseConvolution::compute_sparse(const Run& run, const Lists& d) const {
  const Shape& out = run.program.shape(output);
  run.context.workers.each(static_cast<long>(d.chunks.size()) - 1, [&](long chunk, int worker) {
    const int first = d.chunks[chunk], outputs = d.chunks[chunk + 1] - first;
    Scratch& scratch = run.context.scratch[worker];
    const uint32_t* start = select(scratch, d, chunk);
    for (long image = 0; image < run.images; image++) {
      const Pointwise j{out.pixels(),
                        input(run, image),
                        input_blocks_,
                        spec_.inputs <= 2 * kInputBlock / 3,
                        outputs,
                        start,
                        scratch.kept.data(),
                        scratch.offsets.data(),
                        run.value(output, image) + first * out.plane(),
                        out.plane(),
                        epilogue(run, image, first),
                        scratch.sums.data()};
      kernels_.pointwise(j, 0, out.blocks());
    }
  });
}

// Write down the weights that the domain uses for some outputs, and where their inputs lie: one block of inputs after the
// other, as they are used.
const uint32_t* PointwiseConvolution::select(Scratch& scratch, const Lists& d, long chunk) const {
  const int outputs = d.chunks[chunk + 1] - d.chunks[chunk];
  const long list = static_cast<long>(d.chunks[chunk]) * input_blocks_;
  const uint32_t* start = d.start.data() + list + chunk * input_blocks_;
  scratch.kept.grow(start[input_blocks_ * (outputs + 1L) - 1] + 2 * kBlock);
  scratch.offsets.resize(std::max<size_t>(scratch.offsets.size(), scratch.kept.size()));
  if (input_blocks_ > 1) scratch.sums.grow(static_cast<long>(outputs) * kPointwiseTile);
  kernels_.select({outputs, input_blocks_, union_start_.data() + list, num_kept_, weights_, columns_.data(),
                   d.bits.data() + d.words[chunk], static_cast<uint32_t>(channel_), start, scratch.kept.data(),
                   scratch.offsets.data()});
  return start;
}

void PointwiseConvolution::compute_dense(const Run& run) const {
  const Shape& out = run.program.shape(output);
  const long panels = (spec_.outputs + kRows - 1) / kRows, blocks = out.blocks();
  const long threads = run.context.workers.threads();
  const long parts = threads == 1 ? 1 : std::max(1L, std::min(blocks / 8, 4 * threads));
  const long rows = threads == 1 || parts >= 2 * threads ? 1 : std::min(4 * threads, panels);
  run.context.workers.each(run.images * parts * rows, [&](long item, int) {
    const long image = item / (parts * rows), part = item / rows % parts, row = item % rows;
    const DensePointwise j{out.pixels(),  input(run, image),         channel_,    spec_.inputs,             spec_.outputs,
                           packed_.data()  , run.value(output, image), out.plane(), epilogue(run, image, 0)};
    kernels_.dense_pointwise(j, static_cast<int>(panels * row / rows), static_cast<int>(panels * (row + 1) / rows),
                             blocks * part / parts, blocks * (part + 1) / parts);
  });
}

}  // namespace prunus
