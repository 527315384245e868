#include "convolution.hpp"

#include "depthwise.hpp"
#include "direct.hpp"
#include "pointwise.hpp"

namespace prunus {

Convolution::Convolution(const ConvolutionSpec& spec, Program& program, int input, const Kept& kept)
    : spec_(spec),
      kernels_(program.kernels()),
      windows_(spec.window, program.shape(input), program.shape(program.next_value())),
      channel_(windows_.copies() ? windows_.channel() : program.shape(input).plane()),
      num_kept_(kept.kernels.count(0, static_cast<ptrdiff_t>(spec.outputs) * spec.group_inputs())),
      weights_(kept.weights),
      domains_(program.domains()) {
  windows_.announce(program, input);
  program.need_slack(windows_.reach() + 8 * kBlock);
}

void Convolution::set_domain(int domain, Bits used, const float* scale, const float* bias, const float* ones) {
  Domain& d = domains_.at(domain);
  d.scale = scale;
  d.bias = bias;
  if (ones && windows_.window().taps == 1 && !windows_.pads()) {  // ones without padding are a bias
    for (int o = 0; o < spec_.outputs; o++)
      d.folded.push_back((bias ? bias[o] : 0.0f) + ones[o] * (scale ? scale[o] : 1.0f));
    d.bias = d.folded.data();
  } else if (ones) {
    d.ones = ones;
    if (!ones_.size()) ones_ = windows_.ones(kernels_, ones_slack());
  }
  set_used(domain, used);
}

void Convolution::run(const Run& run) const {
  windows_.prepare(run, inputs[0], spec_.inputs);
  compute(run);
}

Epilogue Convolution::epilogue(const Run& run, ptrdiff_t image, int first_output) const {
  const Domain& d = domains_[run.domain];
  const ptrdiff_t plane = run.program.shape(output).plane();
  return {d.scale ? d.scale + first_output : nullptr,
          d.bias ? d.bias + first_output : nullptr,
          inputs.size() > 1 ? run.value(inputs[1], image) + first_output * plane : nullptr,
          plane,
          spec_.activation,
          spec_.slope};
}

const float* Convolution::ones_weights(int domain, ptrdiff_t output) const {
  const float* ones = domains_[domain].ones;
  return ones ? ones + output * windows_.window().taps : nullptr;
}

const float* Convolution::weights(const Run& run) const {
  if (weights_.precision == Precision::float32) return weights_.as_float32();
  const ptrdiff_t count = num_kept_ * windows_.window().taps, parts = run.context.workers.threads();
  run.context.widened.grow(count);
  run.context.workers.for_each(parts, [&](ptrdiff_t part, int) {
    const ptrdiff_t first = count * part / parts, last = count * (part + 1) / parts;
    kernels_.widen(weights_.as_bits16() + first, weights_.precision, run.context.widened.data() + first, last - first);
  });
  return run.context.widened.data();
}

std::unique_ptr<Convolution> make_convolution(const ConvolutionSpec& spec, Program& program, int input,
                                              const Kept& kept) {
  const Shape& output = program.shape(program.next_value());
  const Windows windows(spec.window, program.shape(input), output);
  if (windows.window().taps == 1 && !windows.pads() && !windows.crops())
    return std::make_unique<PointwiseConvolution>(spec, program, input, kept);
  if (spec.groups > 1 && spec.group_inputs() == 1 && !windows.crops())
    return std::make_unique<DepthwiseConvolution>(spec, program, input, kept);
  return std::make_unique<DirectConvolution>(spec, program, input, kept);
}

}  // namespace prunus
