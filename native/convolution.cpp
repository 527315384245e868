#include "convolution.hpp"

#include <numeric>

#include "depthwise.hpp"
#include "direct.hpp"
#include "pointwise.hpp"
#include "vectorwise.hpp"

namespace prunus {

Convolution::Convolution(const ConvolutionSpec& spec, Program& program, int input, const Kept& kept)
    : spec_(spec),
      kernels_(program.kernels()),
      windows_(spec.window, program.shape(input), program.shape(program.next_value())),
      channel_(windows_.copies() ? windows_.channel() : program.shape(input).plane()),
      num_kept_(std::accumulate(kept.kernels, kept.kernels + static_cast<long>(spec.outputs) * spec.group_inputs(), 0L)),
      weights_(kept.weights),
      domains_(program.domains()) {
  windows_.announce(program, input);
  program.need_slack(windows_.reach() + 8 * kBlock);
}

void Convolution::set_domain(int domain, const uint8_t* used, const float* scale, const float* bias, const float* ones) {
  Domain& d = domains_.at(domain);
  const long taps = windows_.window().taps;
  if (scale) d.scale.assign(scale, scale + spec_.outputs);
  if (bias) d.bias.assign(bias, bias + spec_.outputs);
  if (ones && taps == 1 && !windows_.pads()) {  // ones everywhere: a bias
    d.bias.resize(spec_.outputs, 0.0f);
    for (int o = 0; o < spec_.outputs; o++) d.bias[o] += ones[o] * (scale ? scale[o] : 1.0f);
  } else if (ones) {
    d.ones.assign(ones, ones + spec_.outputs * taps);
    if (!ones_.size()) ones_ = windows_.ones(kernels_, ones_slack());
  }
  set_used(domain, used);
}

void Convolution::run(const Run& run) const {
  windows_.prepare_all(run, inputs[0], spec_.inputs);
  compute(run);
}

Epilogue Convolution::epilogue(const Run& run, long image, int first_output) const {
  const Domain& d = domains_[run.domain];
  const long plane = run.program.shape(output).plane();
  return {d.scale.empty() ? nullptr : d.scale.data() + first_output,
          d.bias.empty() ? nullptr : d.bias.data() + first_output,
          inputs.size() > 1 ? run.value(inputs[1], image) + first_output * plane : nullptr,
          plane,
          spec_.activation,
          spec_.slope};
}

const float* Convolution::ones_weights(int domain, long output) const {
  const std::vector<float>& ones = domains_[domain].ones;
  return ones.empty() ? nullptr : ones.data() + output * windows_.window().taps;
}

std::unique_ptr<Convolution> make_convolution(const ConvolutionSpec& spec, Program& program, int input, const Kept& kept) {
  const Shape& output = program.shape(program.next_value());
  const Windows windows(spec.window, program.shape(input), output);
  if (windows.window().taps == 1 && !windows.pads() && !windows.crops()) {
    if (output.pixels() == 1 && spec.groups == 1) return std::make_unique<VectorwiseConvolution>(spec, program, input, kept);
    return std::make_unique<PointwiseConvolution>(spec, program, input, kept);
  }
  if (spec.groups > 1 && spec.group_inputs() == 1 && !windows.crops())
    return std::make_unique<DepthwiseConvolution>(spec, program, input, kept);
  return std::make_unique<DirectConvolution>(spec, program, input, kept);
}

}  // namespace prunus
