#include "integer_steps.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace prunus {

namespace {

constexpr ptrdiff_t kMostSummed = INT32_MAX / 255;  // codes whose sum fits 32 bits
constexpr ptrdiff_t kRowsQuantized = 8;             // that a thread quantizes
constexpr ptrdiff_t kFewRows = 16;                  // planes of at most so many rows are not divided between threads

}  // namespace

void QuantizeStep::run(const Run& run) const {
  const Shape& shape = run.program.shape(output);
  const Lattice& to = run.program.lattice(output);
  const float zero = run.program.zero(output, run.domain);
  const float* images = inputs[0] == 0 ? run.in_place : nullptr;
  const auto work = [&](const Piece& rows, int worker) {
    AlignedBuffer& finite = run.context.scratch[worker].sums;
    if (images) finite.grow(shape.width);
    for (ptrdiff_t c = rows.first_channel; c < rows.last_channel; c++) {
      const float* from = images ? images + (rows.image * shape.channels + c) * shape.pixels()
                                 : run.value(inputs[0], rows.image) + c * shape.plane();
      uint8_t* plane = run.codes(output, rows.image) + c * to.plane();
      for (ptrdiff_t row = rows.first_block; row < rows.last_block; row++) {
        const float* numbers = from + row * shape.width;
        if (images) {
          if (!run.program.kernels().copy_finite(numbers, finite.data(), shape.width)) run.context.finite = false;
          numbers = finite.data();
        }
        run.program.integers().quantize(numbers, inverse_scales_[run.domain], zero, plane + row * to.stride(),
                                        shape.width);
      }
      if (rows.first_block < rows.last_block)
        run.fill_padding(output, rows.image, c, rows.first_block, rows.last_block);
    }
  };
  run.for_each_piece(shape.height, shape.channels, work, 1, {kRowsQuantized, kFewRows});
}

void DequantizeStep::run(const Run& run) const {
  const Shape& shape = run.program.shape(output);
  const Lattice& from = run.program.lattice(inputs[0]);
  const float zero = run.program.zero(inputs[0], run.domain);
  run.for_each_channel(shape.channels, [&](ptrdiff_t image, ptrdiff_t c) {
    const uint8_t* plane = run.codes(inputs[0], image) + c * from.plane();
    float* to = run.value(output, image) + c * shape.plane();
    for (ptrdiff_t row = 0; row < shape.height; row++)
      run.program.integers().dequantize(plane + row * from.stride(), scales_[run.domain], zero, to + row * shape.width,
                                        shape.width);
  });
}

void CodedElementwiseStep::run(const Run& run) const {
  const auto work = [&](const Piece& piece, int worker) { run_blocks(run, piece, worker); };
  run.for_each_piece(run.program.lattice(output).blocks(), run.program.shape(output).channels, work, 1, kCodes);
}

void CodedElementwiseStep::run_blocks(const Run& run, const Piece& piece, int) const {
  const Lattice& lattice = run.program.lattice(output);
  for (ptrdiff_t c = piece.first_channel; c < piece.last_channel; c++) {
    CodedElementwise j{};
    j.first = run.codes(inputs[0], piece.image) + c * lattice.plane();
    j.pixels = lattice.pixels.data();
    j.zero = run.program.zero(output, run.domain);
    j.output = run.codes(output, piece.image) + c * lattice.plane();
    complete(j, run, piece.image, c);
    run.program.integers().elementwise(j, piece.first_block, piece.last_block);
  }
  run.fill_ring(output, piece);
}

void CodedAffineStep::complete(CodedElementwise& j, const Run& run, ptrdiff_t, ptrdiff_t channel) const {
  const Domain& d = domains_[run.domain];
  j.kind = CodedElementwise::Kind::affine;
  j.first_factor = d.multipliers[channel];
  j.offset = d.offsets[channel];
  j.low = d.limits.low;
  j.high = d.limits.high;
}

void TableStep::run(const Run& run) const {
  const Lattice& lattice = run.program.lattice(output);
  run.for_each_channel(run.program.shape(output).channels, [&](ptrdiff_t image, ptrdiff_t c) {
    run.program.integers().look_up(tables_[run.domain], run.codes(inputs[0], image) + c * lattice.plane(),
                                   run.codes(output, image) + c * lattice.plane(), lattice.positions());
    run.fill_padding(output, image, c);
  });
}

void CodedCombineStep::complete(CodedElementwise& j, const Run& run, ptrdiff_t image, ptrdiff_t channel) const {
  const Domain& d = domains_[run.domain];
  j.kind = add_ ? CodedElementwise::Kind::sum : CodedElementwise::Kind::product;
  j.second = run.codes(inputs[1], image) + channel * run.program.lattice(inputs[1]).plane();
  j.has_one_pixel = !add_ && run.program.shape(inputs[1]).pixels() == 1;
  j.first_zero = d.first_zero;
  j.second_zero = d.second_zero;
  j.first_factor = d.first_factor;
  j.second_factor = d.second_factor;
  j.offset = d.offset;
  j.low = d.limits.low;
  j.high = d.limits.high;
}

bool CodedJoinStep::joins(size_t input) const {
  return std::all_of(tables_.begin(), tables_.end(), [&](const Tables& tables) { return !tables[input]; });
}

void CodedJoinStep::run(const Run& run) const {
  struct Source {
    int value, channel;
    const uint8_t* table;
  };
  const Shape& shape = run.program.shape(output);
  const Lattice& lattice = run.program.lattice(output);
  std::vector<Source> sources;  // per channel; the value is -1 if the channel is already in place
  for (size_t i = 0; i < inputs.size(); i++) {
    const bool here = run.program.lies_within(inputs[i], output, static_cast<ptrdiff_t>(sources.size()));
    for (int c = 0; c < run.program.shape(inputs[i]).channels; c++)
      sources.push_back({here ? -1 : inputs[i], c, tables_[run.domain][i]});
  }
  run.for_each_channel(shape.channels, [&](ptrdiff_t image, ptrdiff_t c) {
    uint8_t* to = run.codes(output, image) + c * lattice.plane();
    if (static_cast<size_t>(c) >= sources.size()) {
      std::memset(to, run.program.zero(output, run.domain), lattice.positions());
    } else {
      const auto [value, channel, table] = sources[c];
      if (value < 0) return;
      const uint8_t* from = run.codes(value, image) + channel * lattice.plane();
      if (table) {
        run.program.integers().look_up(table, from, to, lattice.positions());
      } else {
        std::memcpy(to, from, lattice.positions());
      }
    }
    run.fill_padding(output, image, c);
  });
}

CodedPoolStep::CodedPoolStep(const WindowSpec& spec, Program& program, int input, bool largest, bool count_pads,
                             const std::vector<Domain>& domains)
    : spec_(spec), largest_(largest) {
  const Shape &in = program.shape(input), &out = program.shape(program.next_value());
  const ptrdiff_t last = static_cast<ptrdiff_t>(out.width - 1) * spec.stride[1];
  length_ = std::max(last + spec.kernel[1], static_cast<ptrdiff_t>(spec.pads[1]) + in.width);
  program.count_kept(length_ + out.width);
  if (largest) return;
  for (ptrdiff_t c = 0; c < out.width; c++) {
    const ptrdiff_t start = c * spec.stride[1] - spec.pads[1];
    columns_.push_back(
        static_cast<int32_t>(std::min<ptrdiff_t>(start + spec.kernel[1], in.width) - std::max<ptrdiff_t>(start, 0)));
  }
  if (in.pixels() > kMostSummed) throw std::length_error("an image is too large for a mean in 8 bits");
  program.count_kept(static_cast<ptrdiff_t>(domains.size()) * out.pixels());
  const PoolCounts counts(spec, in, count_pads);
  for (const Domain& d : domains) {
    offsets_.push_back(d.offset);
    factors_.emplace_back();
    for (ptrdiff_t p = 0; p < out.pixels(); p++) {
      const ptrdiff_t count = counts(p / out.width, p % out.width);
      factors_.back().push_back(count > 0 ? static_cast<float>(d.factor / static_cast<double>(count)) : 0.0f);
    }
  }
}

void CodedPoolStep::run(const Run& run) const {
  const Shape &in = run.program.shape(inputs[0]), &out = run.program.shape(output);
  const Lattice &from = run.program.lattice(inputs[0]), &to = run.program.lattice(output);
  run.for_each_piece(1, out.channels, [&](const Piece& piece, int worker) {
    AlignedBuffer& sums = run.context.scratch[worker].sums;
    sums.grow(length_ + out.width);
    CodedPooling j{};
    std::copy_n(spec_.kernel, 2, j.kernel);
    std::copy_n(spec_.stride, 2, j.stride);
    j.top = spec_.pads[0];
    j.left = spec_.pads[1];
    j.height = in.height;
    j.width = in.width;
    j.out_height = out.height;
    j.out_width = out.width;
    j.row = from.stride();
    j.out_row = to.stride();
    j.plane = from.plane();
    j.out_plane = to.plane();
    j.channels = piece.last_channel - piece.first_channel;
    j.input = run.codes(inputs[0], piece.image) + piece.first_channel * from.plane();
    j.largest = largest_;
    j.zero = run.program.zero(inputs[0], run.domain);
    j.columns = columns_.data();
    j.factors = largest_ ? nullptr : factors_[run.domain].data();
    j.offset = largest_ ? 0.0f : offsets_[run.domain];
    j.output = run.codes(output, piece.image) + piece.first_channel * to.plane();
    j.end = to.blocks() * kBlock;
    j.scratch = sums.data();
    j.length = length_;
    run.program.integers().pool(j);
    for (ptrdiff_t c = piece.first_channel; c < piece.last_channel; c++) run.fill_padding(output, piece.image, c);
  });
}

void CodedMeanStep::settle(Program& program) {
  if (program.lattice(inputs[0]).blocks() * kBlock > kMostSummed)
    throw std::length_error("an image is too large for a mean in 8 bits");
}

void CodedMeanStep::run(const Run& run) const {
  const Lattice &from = run.program.lattice(inputs[0]), &to = run.program.lattice(output);
  const Domain& d = domains_[run.domain];
  run.for_each_piece(1, run.program.shape(output).channels, [&](const Piece& piece, int) {
    CodedMeans j{};
    j.codes = run.codes(inputs[0], piece.image) + piece.first_channel * from.plane();
    j.plane = from.plane();
    j.count = from.blocks() * kBlock;
    j.channels = piece.last_channel - piece.first_channel;
    j.zero = run.program.zero(inputs[0], run.domain);
    j.factor = d.factor;
    j.offset = d.offset;
    j.padding = run.program.zero(output, run.domain);
    j.output = run.codes(output, piece.image) + piece.first_channel * to.plane();
    j.output_plane = to.plane();
    run.program.integers().means(j);
    run.fill_ring(output, piece);
  });
}

}  // namespace prunus
