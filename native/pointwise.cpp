#include "pointwise.hpp"

#include <algorithm>
#include <numeric>

namespace prunus {

namespace {

constexpr long kShortList = 24;      // weights: fewer are not worth the beginning of a list
constexpr long kListChunk = 8192;    // weights: with their places 64 KiB
constexpr long kListPerInput = 14;   // weights that each input must meet in a chunk to be worth reading again

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

// Divide the outputs into chunks whose lists stay in the second-level cache, and give every thread some; but where there are
// many pixels, every weight is worth a longer way.
void PointwiseConvolution::set_lists(Lists& d, const uint8_t* used, long count) const {
  const long fitting = std::max(1L, count / std::max(kListChunk, kListPerInput * spec_.inputs));
  const long needed = (fitting + threads_ - 1) / threads_ * threads_;
  const long chunks = windows_.lattice().blocks() > kFewBlocks ? 1 : std::min<long>(spec_.outputs, needed);
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
  const long chunks = static_cast<long>(d.chunks.size()) - 1;
  if (chunks > 1) {
    run.context.workers.each(chunks, [&](long chunk, int worker) {
      const uint32_t* start = select(run.context.scratch[worker], d, chunk);
      for (long image = 0; image < run.images; image++)
        kernels_.pointwise(job(run, image, d, chunk, start, worker), 0, out.blocks());
    });
    return;
  }
  std::vector<const uint32_t*> selected(run.context.workers.threads(), nullptr);  // by every worker for itself
  run.each(out.blocks(), 1, [&](const Piece& piece, int worker) {
    if (!selected[worker]) selected[worker] = select(run.context.scratch[worker], d, 0);
    kernels_.pointwise(job(run, piece.image, d, 0, selected[worker], worker), piece.first_block, piece.last_block);
  }, 1, kPointwiseTile / kBlock);
}

Pointwise PointwiseConvolution::job(const Run& run, long image, const Lists& d, long chunk, const uint32_t* start,
                                    int worker) const {
  const Shape& out = run.program.shape(output);
  const Scratch& scratch = run.context.scratch[worker];
  const int first = d.chunks[chunk];
  return {out.pixels(),
          input(run, image),
          input_blocks_,
          spec_.inputs <= 2 * kInputBlock / 3,
          d.chunks[chunk + 1] - first,
          start,
          scratch.kept.data(),
          scratch.offsets.data(),
          run.value(output, image) + first * out.plane(),
          out.plane(),
          epilogue(run, image, first),
          const_cast<float*>(scratch.sums.data())};
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
  run.each(out.blocks(), spec_.outputs, [&](const Piece& piece, int) {
    const DensePointwise j{out.pixels(),   input(run, piece.image),         channel_,    spec_.inputs, spec_.outputs,
                           packed_.data(), run.value(output, piece.image), out.plane(), epilogue(run, piece.image, 0)};
    kernels_.dense_pointwise(j, piece.first_channel / kRows, (piece.last_channel + kRows - 1) / kRows, piece.first_block,
                             piece.last_block);
  }, kRows, 4);
}

}  // namespace prunus
