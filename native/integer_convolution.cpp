#include "integer_convolution.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "integer_depthwise.hpp"
#include "integer_direct.hpp"
#include "integer_pointwise.hpp"

namespace prunus {

namespace {

constexpr ptrdiff_t kMostProducts = INT32_MAX / (255 * 127);  // whose sum fits 32 bits

}  // namespace

IntegerConvolution::IntegerConvolution(const IntegerLayer& layer, const Program& program)
    : layer_(layer),
      kernels_(program.integers()),
      num_kept_(layer.kept.count(0, layer.num_kernels())),
      domains_(program.domains()) {
  if (static_cast<ptrdiff_t>(layer.window.kernel[0]) * layer.window.kernel[1] > kMostProducts / layer.group_inputs())
    throw std::invalid_argument("the sums of a convolution may not fit 32 bits");
}

void IntegerConvolution::expect_domains() const {
  for (const Domain& domain : domains_)
    if (!domain.multipliers) throw std::invalid_argument("a convolution lacks the numbers of a domain");
}

void IntegerConvolution::settle(Program& program) {
  expect_domains();
  for (int domain = 0; domain < program.domains(); domain++) {
    if (domains_[domain].zero != program.zero(inputs[0], domain))
      throw std::invalid_argument("a convolution and its input differ in the code of zero");
  }
  if (kernels_.offset) set_first_sums();
  for (const Domain& domain : domains_) bounded_.push_back(is_bounded(domain));
  prepare_runs(program);
}

// A kernel that multiplies code - offset leaves out the sum of the used weights times the offset.
void IntegerConvolution::set_first_sums() {
  const ptrdiff_t taps = layer_.taps(), inputs = layer_.group_inputs(), outputs = layer_.group_outputs();
  first_sums_.assign(domains_.size(), std::vector<int32_t>(layer_.outputs));
  for (ptrdiff_t stored = 0, kernel = 0; stored < layer_.num_kernels(); stored++) {
    if (!layer_.kept[stored]) continue;
    const ptrdiff_t group = stored / (inputs * outputs), within = stored % (inputs * outputs);
    const ptrdiff_t output = group * outputs + (taps > 1 ? within % outputs : within / inputs);
    int32_t sum = 0;
    for (ptrdiff_t t = 0; t < taps; t++) sum += layer_.kernels[kernel * taps + t];
    for (size_t domain = 0; domain < domains_.size(); domain++)
      if (domains_[domain].used[kernel]) first_sums_[domain][output] += kernels_.offset * sum;
    kernel++;
  }
}

// Return whether the limits of codes are all that keeps the numbers of a domain from being too large.
bool IntegerConvolution::is_bounded(const Domain& domain) const {
  constexpr double most = 1 << 30, largest = 255, weight = 127;
  const double products = static_cast<double>(layer_.taps()) * layer_.group_inputs();
  double factor = 0, offset = std::abs(domain.residual) * largest;
  for (int o = 0; o < layer_.outputs; o++) {
    factor = std::max<double>(factor, std::abs(domain.multipliers[o]));
    offset = std::max<double>(offset, std::abs(domain.residual) * largest + std::abs(domain.offsets[o]));
  }
  return domain.high == 255.0f && factor * products * largest * weight + offset < most;
}

Finish IntegerConvolution::finish(const Run& run, ptrdiff_t image) const {
  const Domain& d = domains_[run.domain];
  const Lattice& lattice = run.program.lattice(output);
  return {d.multipliers,
          d.offsets,
          inputs.size() > 1 ? run.codes(inputs[1], image) : nullptr,
          lattice.plane(),
          d.residual,
          d.low,
          d.high,
          bounded_[run.domain],
          lattice.pixels.data(),
          run.program.zero(output, run.domain),
          run.codes(output, image),
          lattice.plane()};
}

int32_t IntegerConvolution::packed(const int8_t* weights, const int (&taps)[kMaxGroup]) const {
  uint32_t word = 0;
  const int bits = 32 / kernels_.group;
  const uint32_t mask = bits == 8 ? 0xffu : 0xffffu;
  for (int g = 0; g < kernels_.group; g++)
    if (taps[g] >= 0) word |= (static_cast<uint32_t>(int32_t{weights[taps[g]]}) & mask) << (bits * g);
  return static_cast<int32_t>(word);
}

std::unique_ptr<IntegerConvolution> make_integer_convolution(const IntegerLayer& layer, Program& program, int input) {
  const Shape &in = program.shape(input), &out = program.shape(program.next_value());
  const WindowSpec& window = layer.window;
  const bool has_pads = window.pads[0] || window.pads[1] || window.pads[2] || window.pads[3];
  const bool fits = (static_cast<ptrdiff_t>(out.height) - 1) * window.stride[0] < in.height &&
                    (static_cast<ptrdiff_t>(out.width) - 1) * window.stride[1] < in.width;
  if (layer.groups > 1 && layer.group_inputs() == 1)
    return std::make_unique<IntegerDepthwiseConvolution>(layer, program, in, out);
  if (layer.taps() == 1 && !has_pads && fits) return std::make_unique<IntegerPointwiseConvolution>(layer, program);
  return std::make_unique<IntegerDirectConvolution>(layer, program, in, out);
}

}  // namespace prunus
