#include "token_steps.hpp"

#include <algorithm>
#include <stdexcept>

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

AttentionStep::AttentionStep(const AttentionSpec& spec, const Shape& q, const Shape& k, int domains,
                             std::vector<int> windows, const std::vector<uint8_t>& regions, int window_pixels)
    : spec_(spec),
      queries_(windows.empty() ? static_cast<int>(q.pixels()) : window_pixels),
      keys_(windows.empty() ? static_cast<int>(k.pixels()) : window_pixels),
      windows_(std::move(windows)),
      bias_(domains) {
  for (int pixel : windows_)
    if (pixel < 0 || pixel >= q.pixels() || pixel >= k.pixels())
      throw std::invalid_argument("a window leaves the image");
  if (spec_.apart == 0.0f) return;
  for (size_t first = 0; first < regions.size(); first += queries_) {
    regions_.emplace_back(padded());
    std::copy_n(regions.begin() + static_cast<ptrdiff_t>(first), queries_, regions_.back().data());
  }
}

void AttentionStep::set_domain(int domain, const float* bias) {
  if (!bias) return;
  AlignedBuffer& room = bias_.at(domain);
  room.grow(spec_.heads * keys_ * padded());
  for (ptrdiff_t head = 0; head < spec_.heads; head++)
    for (ptrdiff_t query = 0; query < queries_; query++)
      for (ptrdiff_t key = 0; key < keys_; key++)
        room.data()[(head * keys_ + key) * padded() + query] = bias[(head * queries_ + query) * keys_ + key];
}

void AttentionStep::run(const Run& run) const {
  const ptrdiff_t windows = windows_.empty() ? 1 : static_cast<ptrdiff_t>(windows_.size()) / queries_;
  run.context.workers.for_each(run.images * windows * spec_.heads, [&](ptrdiff_t item, int worker) {
    const int head = static_cast<int>(item % spec_.heads);
    attend(run, item / spec_.heads / windows, item / spec_.heads % windows, head, worker);
  });
}

void AttentionStep::attend(const Run& run, ptrdiff_t image, ptrdiff_t window, int head, int worker) const {
  AlignedBuffer& room = run.context.scratch[worker].kept;
  const ptrdiff_t scores = static_cast<ptrdiff_t>(keys_) * kAttentionTile, gathered = windows_.empty() ? 0 : padded();
  room.grow(scores + (2 * spec_.dim + 2 * spec_.width) * gathered);
  const int dims[3] = {spec_.dim, spec_.dim, spec_.width};
  const int* pixels = windows_.data() + window * queries_;
  const float* sources[3];
  ptrdiff_t planes[3];
  float* next = room.data() + scores;
  for (int part = 0; part < 3; part++) {
    const Shape& shape = run.program.shape(inputs[part]);
    const ptrdiff_t first = spec_.first[part] + static_cast<ptrdiff_t>(head) * spec_.step[part];
    sources[part] = run.value(inputs[part], image) + first * shape.plane();
    planes[part] = shape.plane();
    if (windows_.empty()) continue;
    for (ptrdiff_t d = 0; d < dims[part]; d++)
      for (ptrdiff_t p = 0; p < queries_; p++) next[d * gathered + p] = sources[part][d * shape.plane() + pixels[p]];
    sources[part] = next;
    planes[part] = gathered;
    next += dims[part] * gathered;
  }
  const Shape& shape = run.program.shape(output);
  float* result = run.value(output, image) + static_cast<ptrdiff_t>(head) * spec_.width * shape.plane();
  Attention j{};
  j.q = sources[0];
  j.k = sources[1];
  j.v = sources[2];
  j.q_plane = planes[0];
  j.k_plane = planes[1];
  j.v_plane = planes[2];
  j.queries = queries_;
  j.keys = keys_;
  j.dim = spec_.dim;
  j.width = spec_.width;
  j.scale = spec_.scale;
  j.apart = spec_.apart;
  j.bias = bias_[run.domain].data();
  if (j.bias) j.bias += head * keys_ * padded();
  j.bias_plane = padded();
  j.regions = regions_.empty() ? nullptr : regions_[window].data();
  j.output = windows_.empty() ? result : next;
  j.output_plane = windows_.empty() ? shape.plane() : gathered;
  j.scores = room.data();
  run.program.kernels().attention(j);
  if (windows_.empty()) return;
  for (ptrdiff_t d = 0; d < spec_.width; d++)
    for (ptrdiff_t p = 0; p < queries_; p++) result[d * shape.plane() + pixels[p]] = next[d * gathered + p];
}

}  // namespace prunus
