#include "native_program.hpp"

#include "activation_names.hpp"
#include "instruction_sets.hpp"

namespace prunus {

namespace {

std::vector<Shape> as_shapes(const std::vector<std::tuple<int, int, int>>& shapes) {
  std::vector<Shape> result;
  for (const auto& [channels, height, width] : shapes) result.push_back({channels, height, width});
  return result;
}

}  // namespace

NativeProgram::NativeProgram(const std::vector<std::tuple<int, int, int>>& shapes, int domains, int threads,
                             const std::string& kernels)
    : program_(as_shapes(shapes), domains, threads, choose_kernels(kernels)), domains_(domains) {}

size_t NativeProgram::count_kept(const std::vector<int>& inputs, int groups, const WindowSpec& window,
                                 const Array<uint8_t>& kept, size_t num_weights) const {
  const Shape &in = program_.shape(inputs.at(0)), &out = program_.shape(program_.next_value());
  const ptrdiff_t all = static_cast<ptrdiff_t>(out.channels) * (in.channels / groups);
  expect(kept.size() == (static_cast<size_t>(all) + 7) / 8, "kept has the wrong size");
  const size_t taps = static_cast<size_t>(window.kernel[0]) * window.kernel[1];
  const size_t count = static_cast<size_t>(Bits{kept.data()}.count(0, all));
  expect(num_weights == count * taps, "the number of kernels differs from the number of kept bits");
  return count;
}

size_t NativeProgram::add_convolution(std::vector<int> inputs, int groups, const WindowSpec& window,
                                      const std::string& activation, float slope, const Array<uint8_t>& kept,
                                      const Stored& kernels) {
  const size_t count = count_kept(inputs, groups, window, kept, kernels.size());
  const Shape &in = program_.shape(inputs.at(0)), &out = program_.shape(program_.next_value());
  const ConvolutionSpec spec{in.channels, out.channels, groups, window, activation_named(activation), slope};
  auto step = make_convolution(spec, program_, inputs[0], {Bits{kept.data()}, stored_floats(kernels)});
  keep_alive(kept, kernels);
  const size_t taps = static_cast<size_t>(window.kernel[0]) * window.kernel[1];
  convolutions_.push_back({step.get(), nullptr, count, static_cast<size_t>(out.channels), taps});
  program_.add(std::move(step), std::move(inputs));
  return convolutions_.size() - 1;
}

void NativeProgram::set_convolution(size_t number, int domain, const Array<uint8_t>& used, const OptionalFloats& scale,
                                    const OptionalFloats& bias, const OptionalFloats& ones) {
  const AnyConvolution& convolution = convolutions_.at(number);
  expect(convolution.floats, "the convolution computes with codes");
  expect(used.size() == (convolution.kernels + 7) / 8, "used has the wrong size");
  expect_size(scale, convolution.outputs, "scale has the wrong size");
  expect_size(bias, convolution.outputs, "bias has the wrong size");
  expect_size(ones, convolution.outputs * convolution.taps, "ones has the wrong size");
  keep_alive(used, scale, bias, ones);
  convolution.floats->set_domain(domain, {used.data()}, data_or_null(scale), data_or_null(bias), data_or_null(ones));
}

void NativeProgram::add_affine(int input, const std::string& activation, float slope,
                               const std::vector<OptionalFloats>& scales, const std::vector<OptionalFloats>& biases) {
  auto step = std::make_unique<AffineStep>(domains_, activation_named(activation), slope);
  set_scales(*step, input, scales, biases);
  program_.add(std::move(step), {input});
}

void NativeProgram::add_layer_norm(int input, float eps, const std::vector<OptionalFloats>& scales,
                                   const std::vector<OptionalFloats>& biases) {
  auto step = std::make_unique<LayerNormStep>(domains_, eps);
  set_scales(*step, input, scales, biases);
  program_.add(std::move(step), {input});
}

void NativeProgram::add_sum(std::vector<int> inputs, const std::string& activation, float slope) {
  auto step = std::make_unique<CombineStep>(true, activation_named(activation), slope);
  program_.add(std::move(step), std::move(inputs));
}

void NativeProgram::add_product(std::vector<int> inputs, const std::string& activation, float slope) {
  auto step = std::make_unique<CombineStep>(false, activation_named(activation), slope);
  program_.add(std::move(step), std::move(inputs));
}

void NativeProgram::add_join(std::vector<int> inputs) { program_.add(std::make_unique<JoinStep>(), std::move(inputs)); }

void NativeProgram::add_pool(int input, const WindowSpec& window, bool is_max, bool count_pads) {
  program_.add(std::make_unique<PoolStep>(window, program_, input, is_max, count_pads), {input});
}

void NativeProgram::add_mean(int input) { program_.add(std::make_unique<MeanStep>(), {input}); }

void NativeProgram::set_head(int domain, const Stored& weight, const Stored& bias) {
  const Shape& last = program_.shape(program_.next_value() - 1);
  expect(weight.size() == bias.size() * last.channels * last.pixels(), "the classifier does not fit the features");
  keep_alive(weight, bias);
  program_.set_head(domain, stored_floats(weight), stored_floats(bias), static_cast<int>(bias.size()));
}

void NativeProgram::set_scales(ScaledStep& step, int input, const std::vector<OptionalFloats>& scales,
                               const std::vector<OptionalFloats>& biases) {
  const int channels = program_.shape(input).channels;
  for (int domain = 0; domain < domains_; domain++) {
    expect_size(scales.at(domain), channels, "scale has the wrong size");
    expect_size(biases.at(domain), channels, "bias has the wrong size");
    keep_alive(scales[domain], biases[domain]);
    step.set_domain(domain, data_or_null(scales[domain]), data_or_null(biases[domain]));
  }
}

void NativeProgram::finish() {
  for (const auto& [value, zeros] : read_zeros_)
    for (int domain = 0; domain < domains_; domain++)
      expect(program_.is_coded(value) && program_.zero(value, domain) == zeros[domain],
             "a step and the value that it reads or makes differ in the code of zero");
  program_.finish();
}

bool NativeProgram::run(const Images& images, int domain, Logits logits) const {
  const Shape& in = program_.shape(0);
  expect(domain >= 0 && domain < domains_, "there is no such domain");
  expect(images.shape(1) == static_cast<size_t>(in.channels) && images.shape(2) == static_cast<size_t>(in.height) &&
             images.shape(3) == static_cast<size_t>(in.width),
         "images have the wrong shape");
  expect(logits.shape(0) == images.shape(0) && logits.shape(1) == static_cast<size_t>(program_.classes(domain)),
         "logits have the wrong shape");
  nb::gil_scoped_release release;
  return program_.run(images.data(), static_cast<ptrdiff_t>(images.shape(0)), domain, logits.data());
}

std::string NativeProgram::path(size_t number, int domain) const {
  const AnyConvolution& convolution = convolutions_.at(number);
  return convolution.floats ? convolution.floats->path(domain) : convolution.codes->path(domain);
}

}  // namespace prunus
