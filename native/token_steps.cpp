#include "token_steps.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace prunus {

namespace {

// Copy planes without gaps to planes of a shape.
void spread(const float* from, const Shape& shape, AlignedBuffer& to) {
  if (!from) return;
  to.grow(shape.channels * shape.plane());
  for (ptrdiff_t c = 0; c < shape.channels; c++)
    std::copy_n(from + c * shape.pixels(), shape.pixels(), to.data() + c * shape.plane());
}

}  // namespace

void AffineMapStep::set_domain(int domain, const Shape& shape, const float* scale, const float* bias) {
  spread(scale, shape, scale_.at(domain));
  spread(bias, shape, bias_.at(domain));
}

void AffineMapStep::run(const Run& run) const {
  const Shape& shape = run.program.shape(output);
  const float *scale = scale_[run.domain].data(), *bias = bias_[run.domain].data();
  run.for_each_piece(shape.blocks(), shape.channels, [&](const Piece& piece, int) {
    for (int c = piece.first_channel; c < piece.last_channel; c++) {
      const ptrdiff_t plane = c * shape.plane();
      float* target = run.value(output, piece.image) + plane;
      const float* source = run.value(inputs[0], piece.image) + plane;
      const auto combine = [&](Elementwise::Kind kind, const float* with) {
        const Elementwise j{kind, source, with, 1.0f, 0.0f, Activation::none, 0.0f, target};
        run.program.kernels().elementwise(j, piece.first_block, piece.last_block);
        source = target;
      };
      if (scale) combine(Elementwise::Kind::mul, scale + plane);
      if (bias) combine(Elementwise::Kind::add, bias + plane);
      if (!scale && !bias) combine(Elementwise::Kind::affine, nullptr);
    }
  });
}

void JoinPixelsStep::run(const Run& run) const {
  const Shape& shape = run.program.shape(output);
  const float* tokens = tokens_[run.domain];
  run.for_each_channel(shape.channels, [&](ptrdiff_t image, ptrdiff_t c) {
    float* to = run.value(output, image) + c * shape.plane();
    if (tokens) {
      to = std::copy_n(tokens + c * count_, count_, to);
    } else {
      to = std::fill_n(to, count_, 0.0f);
    }
    for (int value : inputs) {
      const Shape& part = run.program.shape(value);
      to = std::copy_n(run.value(value, image) + c * part.plane(), part.pixels(), to);
    }
  });
}

RearrangeStep::RearrangeStep(const Shape& from, const Shape& to, const std::vector<Axis>& axes, ptrdiff_t offset) {
  const ptrdiff_t numbers = to.channels * to.pixels(), all = from.channels * from.pixels();
  if (from.channels * from.plane() > ptrdiff_t{1} << 31) throw std::length_error("a value is too large to rearrange");
  source_.reserve(numbers);
  std::vector<ptrdiff_t> counters(axes.size(), 0);
  for (ptrdiff_t number = 0, position = offset; number < numbers; number++) {
    if (position < 0 || position >= all) throw std::invalid_argument("a number outside the input is rearranged");
    source_.push_back(static_cast<uint32_t>(position / from.pixels() * from.plane() + position % from.pixels()));
    for (size_t axis = axes.size(); axis-- > 0;) {
      position += axes[axis].stride;
      if (++counters[axis] < axes[axis].size) break;
      position -= axes[axis].size * axes[axis].stride;
      counters[axis] = 0;
    }
  }
}

void RearrangeStep::run(const Run& run) const {
  const Shape& shape = run.program.shape(output);
  run.for_each_channel(shape.channels, [&](ptrdiff_t image, ptrdiff_t c) {
    const float* from = run.value(inputs[0], image);
    float* to = run.value(output, image) + c * shape.plane();
    const uint32_t* source = source_.data() + c * shape.pixels();
    for (ptrdiff_t p = 0; p < shape.pixels(); p++) to[p] = from[source[p]];
  });
}

AttentionStep::AttentionStep(AttentionLayout layout, int domains) : layout_(std::move(layout)), bias_(domains) {
  if (layout_.spec.apart == 0.0f) return;
  const std::vector<uint8_t>& regions = layout_.regions;
  for (size_t first = 0; first < regions.size(); first += layout_.queries) {
    regions_.emplace_back(padded());
    std::copy_n(regions.begin() + static_cast<ptrdiff_t>(first), layout_.queries, regions_.back().data());
  }
}

void AttentionStep::set_domain(int domain, const float* bias) {
  if (!bias) return;
  const int heads = layout_.spec.heads, queries = layout_.queries, keys = layout_.keys;
  AlignedBuffer& room = bias_.at(domain);
  room.grow(heads * keys * padded());
  for (ptrdiff_t head = 0; head < heads; head++)
    for (ptrdiff_t query = 0; query < queries; query++)
      for (ptrdiff_t key = 0; key < keys; key++)
        room.data()[(head * keys + key) * padded() + query] = bias[(head * queries + query) * keys + key];
}

void AttentionStep::run(const Run& run) const {
  const ptrdiff_t windows = layout_.num_windows(), heads = layout_.spec.heads;
  run.context.workers.for_each(run.images * windows * heads, [&](ptrdiff_t item, int worker) {
    attend(run, item / heads / windows, item / heads % windows, static_cast<int>(item % heads), worker);
  });
}

void AttentionStep::attend(const Run& run, ptrdiff_t image, ptrdiff_t window, int head, int worker) const {
  const AttentionSpec& spec = layout_.spec;
  const int queries = layout_.queries, keys = layout_.keys;
  const bool has_windows = !layout_.windows.empty();
  AlignedBuffer& room = run.context.scratch[worker].kept;
  const ptrdiff_t scores = static_cast<ptrdiff_t>(keys) * kAttentionTile, gathered = has_windows ? padded() : 0;
  room.grow(scores + (2 * spec.dim + 2 * spec.width) * gathered);
  const int dims[3] = {spec.dim, spec.dim, spec.width};
  const int* pixels = layout_.windows.data() + window * queries;
  const float* sources[3];
  ptrdiff_t planes[3];
  float* next = room.data() + scores;
  for (int part = 0; part < 3; part++) {
    const Shape& shape = run.program.shape(inputs[part]);
    const ptrdiff_t first = spec.first[part] + static_cast<ptrdiff_t>(head) * spec.step[part];
    sources[part] = run.value(inputs[part], image) + first * shape.plane();
    planes[part] = shape.plane();
    if (!has_windows) continue;
    for (ptrdiff_t d = 0; d < dims[part]; d++)
      for (ptrdiff_t p = 0; p < queries; p++) next[d * gathered + p] = sources[part][d * shape.plane() + pixels[p]];
    sources[part] = next;
    planes[part] = gathered;
    next += dims[part] * gathered;
  }
  const Shape& shape = run.program.shape(output);
  float* result = run.value(output, image) + static_cast<ptrdiff_t>(head) * spec.width * shape.plane();
  Attention j{};
  j.q = sources[0];
  j.k = sources[1];
  j.v = sources[2];
  j.q_plane = planes[0];
  j.k_plane = planes[1];
  j.v_plane = planes[2];
  j.queries = queries;
  j.keys = keys;
  j.dim = spec.dim;
  j.width = spec.width;
  j.scale = spec.scale;
  j.apart = spec.apart;
  j.bias = bias_[run.domain].data();
  if (j.bias) j.bias += head * keys * padded();
  j.bias_plane = padded();
  j.regions = regions_.empty() ? nullptr : regions_[window].data();
  j.output = has_windows ? next : result;
  j.output_plane = has_windows ? gathered : shape.plane();
  j.scores = room.data();
  run.program.kernels().attention(j);
  if (!has_windows) return;
  for (ptrdiff_t d = 0; d < spec.width; d++)
    for (ptrdiff_t p = 0; p < queries; p++) result[d * shape.plane() + pixels[p]] = next[d * gathered + p];
}

}  // namespace prunus
