#include "pointwise.hpp"

#include <algorithm>

namespace prunus {

namespace {

// The share of kept weights above which their bits locate them as fast as columns do, without extra memory.
constexpr double kManyKept = 0.6;
constexpr ptrdiff_t kShortList = 24;     // weights; shorter lists are not worth their overhead
constexpr ptrdiff_t kListChunk = 8192;   // weights; 64 KiB together with their offsets
constexpr ptrdiff_t kListPerInput = 14;  // weights per input for which a chunk is worth reading the inputs again

// Compares costs in vector operations. A dense layer reads each weight for six outputs at once and hardly waits for
// memory. A sparse layer loads the input for each weight, from the L2 cache if there are many inputs.
bool dense_is_faster(ptrdiff_t used, ptrdiff_t inputs, ptrdiff_t outputs, ptrdiff_t blocks) {
  const double sparse = used * (blocks * (inputs > 256 ? 1.55 : 1.25) + 1.5);
  const double dense = static_cast<double>(inputs) * ((outputs + kRows - 1) / kRows * kRows) * blocks * 1.05;
  return outputs >= kRows && dense < sparse;
}

}  // namespace

PointwiseConvolution::PointwiseConvolution(const ConvolutionSpec& spec, Program& program, int input, const Kept& kept)
    : Convolution(spec, program, input, kept),
      union_bits_(kept.kernels),
      threads_(program.threads()),
      program_(program),
      domains_(program.domains()) {}

const char* PointwiseConvolution::path(int domain) const {
  const Lists& d = domains_.at(domain);
  return d.dense ? "dense pointwise" : d.in_fours ? "pointwise in fours" : "pointwise";
}

// Prepare to select weights one by one.
void PointwiseConvolution::make_lists() {
  if (!span_first_.empty()) return;
  const ptrdiff_t inputs = spec_.group_inputs();
  const ptrdiff_t fitting = (inputs + kInputBlock - 1) / kInputBlock,
                  worthwhile = num_kept_ / spec_.outputs / kShortList;
  const ptrdiff_t blocks = std::max<ptrdiff_t>(1, std::min(fitting, worthwhile));
  for (ptrdiff_t block = 0; block < blocks; block++) {
    const size_t before = span_first_.size();
    for (ptrdiff_t i = inputs * block / blocks; i < inputs * (block + 1) / blocks; i += kSpan)
      span_first_.push_back(static_cast<uint32_t>(i));
    block_spans_.push_back(static_cast<uint16_t>(span_first_.size() - before));
  }
  span_first_.push_back(static_cast<uint32_t>(inputs));
  const bool few = num_kept_ < kManyKept * spec_.outputs * inputs;
  if (few) columns_.reserve(num_kept_);
  union_start_.reserve(static_cast<size_t>(spec_.outputs) * spans() + 1);
  union_start_.push_back(0);
  for (ptrdiff_t o = 0; o < spec_.outputs; o++) {
    for (int span = 0; span < spans(); span++) {
      const ptrdiff_t first = o * inputs + span_first_[span], last = o * inputs + span_first_[span + 1];
      union_start_.push_back(union_start_.back() + static_cast<uint32_t>(union_bits_.count(first, last)));
      for (ptrdiff_t i = first; few && i < last; i++)
        if (union_bits_[i]) columns_.push_back(static_cast<uint8_t>(i - first));
    }
  }
}

void PointwiseConvolution::set_used(int domain, Bits used) {
  Lists& d = domains_.at(domain);
  const ptrdiff_t count = used.count(0, num_kept_);
  d.used = used;
  // these depend on the domain alone: its answers stay the same, bit by bit, when other domains come and go
  d.dense = spec_.groups == 1 && dense_is_faster(count, spec_.inputs, spec_.outputs, windows_.lattice().blocks());
  d.in_fours = !d.dense && comes_in_fours(used);
  d.whole = count == num_kept_;
  if (d.in_fours) {
    keep_fours(d, count);
  } else if (!d.dense) {
    make_lists();
    set_lists(d, count);
  } else if (d.whole) {
    fill_rows();
  } else if (program_.reserve_copies(num_weights(), Program::kMostCopied)) {
    std::vector<float> kept(num_kept_);
    copy_wide(kernels_, weights_, 0, num_kept_, kept.data());
    d.rows.resize(num_weights());
    expand(kept.data(), used, d.rows.data());
  }
}

void PointwiseConvolution::fill_rows() {
  const ptrdiff_t all = num_weights();
  if (!rows_.empty() || num_kept_ == all) return;
  std::vector<float> kept(num_kept_);
  copy_wide(kernels_, weights_, 0, num_kept_, kept.data());
  rows_.assign(all, 0.0f);
  for (ptrdiff_t i = 0, k = 0; i < all; i++)
    if (union_bits_[i]) rows_[i] = kept[k++];
}

// Divide the outputs into chunks whose lists stay in the L2 cache, several per thread. With many pixels one chunk is
// faster, because each weight is used often. Then compute where the selected lists of each block of inputs begin.
void PointwiseConvolution::set_lists(Lists& d, ptrdiff_t count) const {
  const ptrdiff_t fitting = std::max<ptrdiff_t>(1, count / std::max(kListChunk, kListPerInput * spec_.inputs));
  const ptrdiff_t needed = (fitting + threads_ - 1) / threads_ * threads_;
  const ptrdiff_t chunks = windows_.lattice().blocks() > kFloats.few ? 1 : std::min<ptrdiff_t>(spec_.outputs, needed);
  d.chunks.reserve(chunks + 1);
  d.first.reserve(chunks * (block_spans_.size() + 1));
  for (ptrdiff_t chunk = 0; chunk <= chunks; chunk++)
    d.chunks.push_back(static_cast<int>(spec_.outputs * chunk / chunks));
  for (ptrdiff_t chunk = 0; chunk < chunks; chunk++) {
    uint32_t offset = 0;
    ptrdiff_t span = 0;
    for (const ptrdiff_t num_spans : block_spans_) {
      d.first.push_back(offset);
      for (ptrdiff_t o = d.chunks[chunk]; o < d.chunks[chunk + 1]; o++) {
        const uint32_t* list = union_start_.data() + o * spans() + span;
        offset += static_cast<uint32_t>(d.used.count(list[0], list[num_spans]));
      }
      offset += kBlock;  // vectors write a little past the end
      span += num_spans;
    }
    d.first.push_back(offset);
  }
}

void PointwiseConvolution::compute(const Run& run) const {
  const Lists& d = domains_[run.domain];
  if (d.dense) {
    compute_dense(run, d);
  } else if (d.in_fours) {
    compute_fours(run, d);
  } else {
    compute_sparse(run, d);
  }
}

void PointwiseConvolution::compute_sparse(const Run& run, const Lists& d) const {
  const ptrdiff_t blocks = run.program.shape(output).blocks(), chunks = static_cast<ptrdiff_t>(d.chunks.size()) - 1;
  if (chunks > 1) {
    run.context.workers.for_each(chunks, [&](ptrdiff_t chunk, int worker) {
      select(run.context.scratch[worker], d, chunk);
      for (ptrdiff_t image = 0; image < run.images; image++)
        kernels_.pointwise(job(run, image, d, chunk, worker), 0, blocks);
    });
    return;
  }
  std::vector<uint8_t> selected(run.context.workers.threads(), false);  // per worker
  const auto work = [&](const Piece& piece, int worker) {
    if (!selected[worker]) select(run.context.scratch[worker], d, 0);
    selected[worker] = true;
    kernels_.pointwise(job(run, piece.image, d, 0, worker), piece.first_block, piece.last_block);
  };
  run.for_each_piece(blocks, 1, work, 1, {kPointwiseTile / kBlock, kFloats.few});
}

// Collect the weights that the domain uses for a chunk of outputs, and the offsets of their inputs, block by block in
// the order of their use.
void PointwiseConvolution::select(Scratch& scratch, const Lists& d, ptrdiff_t chunk) const {
  const int first = d.chunks[chunk], outputs = d.chunks[chunk + 1] - first,
            blocks = static_cast<int>(block_spans_.size());
  const uint32_t* list = union_start_.data() + static_cast<ptrdiff_t>(first) * spans();
  const uint32_t* first_of_block = d.first.data() + chunk * (blocks + 1);
  scratch.kept.grow(first_of_block[blocks] + kBlock);
  scratch.offsets.resize(std::max<size_t>(scratch.offsets.size(), scratch.kept.size()));
  scratch.start.resize(std::max<size_t>(scratch.start.size(), blocks * (ptrdiff_t{outputs} + 1)));
  for (ptrdiff_t block = 0; block < blocks; block++) scratch.start[block * (outputs + 1)] = first_of_block[block];
  Selection s{};
  s.outputs = outputs;
  s.blocks = blocks;
  s.block_spans = block_spans_.data();
  s.union_start = list;
  s.all = num_kept_;
  s.weights = weights_;
  s.columns = columns_.empty() ? nullptr : columns_.data();
  s.union_bits = union_bits_;
  s.inputs = spec_.group_inputs();
  s.used = d.used;
  s.span_first = span_first_.data();
  s.first_output = first;
  s.group_outputs = spec_.group_outputs();
  s.total_outputs = spec_.outputs;
  s.channel = static_cast<uint32_t>(channel_);
  s.start = scratch.start.data();
  s.kept = scratch.kept.data();
  s.offsets = scratch.offsets.data();
  kernels_.select(s);
}

Pointwise PointwiseConvolution::job(const Run& run, ptrdiff_t image, const Lists& d, ptrdiff_t chunk,
                                    int worker) const {
  const Shape& out = run.program.shape(output);
  Scratch& scratch = run.context.scratch[worker];
  const int first = d.chunks[chunk];
  Pointwise j{};
  j.pixels = out.pixels();
  j.input = input(run, image);
  j.blocks = static_cast<int>(block_spans_.size());
  j.few_inputs = spec_.inputs <= 2 * kInputBlock / 3;
  j.divided = out.blocks() > kFloats.few;
  j.outputs = d.chunks[chunk + 1] - first;
  if (j.blocks > 1) scratch.sums.grow(static_cast<ptrdiff_t>(j.outputs) * kPointwiseTile);
  j.start = scratch.start.data();
  j.weights = scratch.kept.data();
  j.offsets = scratch.offsets.data();
  j.output = run.value(output, image) + first * out.plane();
  j.output_plane = out.plane();
  j.epilogue = epilogue(run, image, first);
  j.sums = scratch.sums.data();
  return j;
}

// Write the weights that a domain uses as a dense matrix, with zeros for all others.
void PointwiseConvolution::expand(const float* kept, Bits used, float* rows) const {
  for (ptrdiff_t i = 0, k = 0; i < num_weights(); i++) {
    const bool is_kept = union_bits_[i];
    rows[i] = is_kept && used[k] ? kept[k] : 0.0f;
    k += is_kept;
  }
}

// Return the dense weights of a domain: the file's, one copy for all domains that use every kept weight, its own copy,
// or one for this run.
const float* PointwiseConvolution::dense_rows(const Run& run, const Lists& d) const {
  if (d.whole) return rows_.empty() ? weights(run) : rows_.data();
  if (!d.rows.empty()) return d.rows.data();
  AlignedBuffer& rows = run.context.scratch[0].kept;
  rows.grow(num_weights());
  expand(weights(run), d.used, rows.data());
  return rows.data();
}

void PointwiseConvolution::compute_dense(const Run& run, const Lists& d) const {
  const Shape& out = run.program.shape(output);
  const float* rows = dense_rows(run, d);
  const auto work = [&](const Piece& piece, int) {
    const DensePointwise j{out.pixels(),
                           input(run, piece.image),
                           channel_,
                           spec_.inputs,
                           spec_.outputs,
                           rows,
                           run.value(output, piece.image),
                           out.plane(),
                           epilogue(run, piece.image, 0)};
    kernels_.dense_pointwise(j, piece.first_channel / kRows, (piece.last_channel + kRows - 1) / kRows,
                             piece.first_block, piece.last_block);
  };
  run.for_each_piece(out.blocks(), spec_.outputs, work, kRows, {4, kFloats.few});
}

}  // namespace prunus
