#include "steps.hpp"

#include <algorithm>
#include <utility>

namespace prunus {

void AffineStep::run(const Run& run) const {
  const Shape& shape = run.program.shape(output);
  const float *scale = scale_[run.domain], *bias = bias_[run.domain];
  run.for_each_piece(shape.blocks(), shape.channels, [&](const Piece& piece, int) {
    for (int c = piece.first_channel; c < piece.last_channel; c++) {
      const Elementwise j{Elementwise::Kind::affine,
                          run.value(inputs[0], piece.image) + c * shape.plane(),
                          nullptr,
                          scale ? scale[c] : 1.0f,
                          bias ? bias[c] : 0.0f,
                          activation_,
                          slope_,
                          run.value(output, piece.image) + c * shape.plane()};
      run.program.kernels().elementwise(j, piece.first_block, piece.last_block);
    }
  });
}

void CombineStep::run(const Run& run) const {
  const Shape &shape = run.program.shape(output), &other = run.program.shape(inputs[1]);
  const bool pixel = !add_ && other.pixels() == 1 && shape.pixels() > 1;
  const auto kind = add_ ? Elementwise::Kind::add : pixel ? Elementwise::Kind::mul_pixel : Elementwise::Kind::mul;
  run.for_each_piece(shape.blocks(), shape.channels, [&](const Piece& piece, int) {
    for (int c = piece.first_channel; c < piece.last_channel; c++) {
      const Elementwise j{kind,
                          run.value(inputs[0], piece.image) + c * shape.plane(),
                          run.value(inputs[1], piece.image) + c * other.plane(),
                          1.0f,
                          0.0f,
                          activation_,
                          slope_,
                          run.value(output, piece.image) + c * shape.plane()};
      run.program.kernels().elementwise(j, piece.first_block, piece.last_block);
    }
  });
}

void JoinStep::run(const Run& run) const {
  const Shape& shape = run.program.shape(output);
  // Per channel: a value and a channel of it. The value is -1 if the channel is already in place.
  std::vector<std::pair<int, int>> sources;
  for (int value : inputs) {
    const bool here = run.program.lies_within(value, output, static_cast<ptrdiff_t>(sources.size()));
    for (int c = 0; c < run.program.shape(value).channels; c++) sources.emplace_back(here ? -1 : value, c);
  }
  run.for_each_channel(shape.channels, [&](ptrdiff_t image, ptrdiff_t c) {
    float* to = run.value(output, image) + c * shape.plane();
    if (static_cast<size_t>(c) >= sources.size())
      std::fill_n(to, shape.plane(), 0.0f);
    else if (const auto [value, channel] = sources[c]; value >= 0)
      std::copy_n(run.value(value, image) + channel * shape.plane(), shape.plane(), to);
  });
}

PoolStep::PoolStep(const WindowSpec& spec, Program& program, int input, bool largest, bool count_pads)
    : windows_(spec, program.shape(input), program.shape(program.next_value())), largest_(largest) {
  windows_.announce(program, input);
  program.need_slack(windows_.reach() + 8 * kBlock);
  if (largest) return;
  const Shape& lattice = windows_.lattice();
  factors_.grow(lattice.blocks() * kBlock);
  const PoolCounts counts(spec, program.shape(input), count_pads);
  for (ptrdiff_t p = 0; p < lattice.pixels(); p++) {
    const ptrdiff_t count = counts(p / lattice.width, p % lattice.width);
    factors_.data()[p] = count > 0 ? 1.0f / static_cast<float>(count) : 0.0f;
  }
}

void PoolStep::run(const Run& run) const {
  const Shape &out = run.program.shape(output), &in = run.program.shape(inputs[0]);
  windows_.prepare(run, inputs[0], in.channels);
  const ptrdiff_t channel = windows_.copies() ? windows_.channel() : in.plane(), plane = windows_.lattice().plane();
  if (windows_.crops()) run.context.cropped.grow(run.images * out.channels * plane);
  run.for_each_channel(out.channels, [&](ptrdiff_t image, ptrdiff_t c) {
    float* target = run.value(output, image) + c * out.plane();
    float* pooled = windows_.crops() ? run.context.cropped.data() + (image * out.channels + c) * plane : target;
    const Pooling j{windows_.window(), largest_, windows_.prepared(run, inputs[0], image) + c * channel,
                    factors_.data(), pooled};
    run.program.kernels().pool(j, windows_.lattice().blocks());
    if (windows_.crops()) windows_.crop(pooled, target);
  });
}

void MeanStep::run(const Run& run) const {
  const Shape &in = run.program.shape(inputs[0]), &out = run.program.shape(output);
  run.for_each_channel(in.channels, [&](ptrdiff_t image, ptrdiff_t c) {
    run.value(output, image)[c * out.plane()] =
        run.program.kernels().sum(run.value(inputs[0], image) + c * in.plane(), in.pixels()) /
        static_cast<float>(in.pixels());
  });
}

void LayerNormStep::run(const Run& run) const {
  const Shape& shape = run.program.shape(output);
  const float *scale = scale_[run.domain], *bias = bias_[run.domain];
  run.for_each_piece(shape.blocks(), 1, [&](const Piece& piece, int) {  // all channels of a pixel together
    const LayerNorm j{run.value(inputs[0], piece.image), shape.plane(), shape.channels, scale, bias, eps_,
                      run.value(output, piece.image),    shape.plane()};
    run.program.kernels().layer_norm(j, piece.first_block, piece.last_block);
  });
}

}  // namespace prunus
