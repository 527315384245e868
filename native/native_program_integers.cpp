// The part of NativeProgram that adds steps over 8-bit codes.
#include <algorithm>
#include <cmath>

#include "native_program.hpp"

namespace prunus {

namespace {

uint8_t code(int number) {
  expect(number >= 0 && number <= 255, "a code must be from 0 to 255");
  return static_cast<uint8_t>(number);
}

Limits limits(int low, int high) {
  expect(low <= high, "low must not be above high");
  return {static_cast<float>(code(low)), static_cast<float>(code(high))};
}

template <class Number>
Number finite(Number number) {
  expect(std::isfinite(number), "a factor or an offset is not finite");
  return number;
}

bool is_same(const Shape& a, const Shape& b) {
  return a.channels == b.channels && a.height == b.height && a.width == b.width;
}

void expect_codes(const Array<int8_t>& weights) {
  expect(std::find(weights.data(), weights.data() + weights.size(), int8_t{-128}) == weights.data() + weights.size(),
         "weights must be from -127 to 127");
}

}  // namespace

const Shape& NativeProgram::input_shape(int value) const {
  expect(value >= 0 && value < program_.next_value(), "a step reads a value that no step has made");
  return program_.shape(value);
}

const Shape& NativeProgram::output_shape() const {
  expect(program_.next_value() < program_.num_values(), "there are more steps than values");
  return program_.shape(program_.next_value());
}

void NativeProgram::expect_domains(size_t count) const {
  expect(count == static_cast<size_t>(domains_), "a list must have one entry per domain");
}

void NativeProgram::expect_zeros(int value, const std::vector<int>& zeros) {
  expect_domains(zeros.size());
  for (int zero : zeros) code(zero);
  read_zeros_.emplace_back(value, zeros);
}

const float* NativeProgram::finite_floats(const Array<float>& array, size_t size) {
  expect(array.size() == size, "multipliers or offsets have the wrong size");
  expect_aligned(array.data(), sizeof(float));
  expect(std::all_of(array.data(), array.data() + size, [](float x) { return std::isfinite(x); }),
         "a factor or an offset is not finite");
  keep_alive(array);
  return array.data();
}

const uint8_t* NativeProgram::table(const Array<uint8_t>& array) {
  expect(array.size() == 256, "a table must have 256 entries");
  keep_alive(array);
  return array.data();
}

void NativeProgram::set_value_zeros(int value, const std::vector<int>& zeros) {
  expect(value >= 0 && value < program_.num_values(), "there is no such value");
  expect_domains(zeros.size());
  std::vector<uint8_t> codes;
  for (int zero : zeros) codes.push_back(code(zero));
  program_.set_zeros(value, std::move(codes));
}

void NativeProgram::add_quantize(int input, const std::vector<float>& inverse_scales, const std::vector<int>& zeros) {
  expect(is_same(input_shape(input), output_shape()), "a step must keep the shape of its input");
  expect_domains(inverse_scales.size());
  for (float scale : inverse_scales) finite(scale);
  expect_zeros(program_.next_value(), zeros);
  program_.add(std::make_unique<QuantizeStep>(inverse_scales), {input});
}

void NativeProgram::add_dequantize(int input, const std::vector<float>& scales, const std::vector<int>& zeros) {
  expect(is_same(input_shape(input), output_shape()), "a step must keep the shape of its input");
  expect_domains(scales.size());
  for (float scale : scales) finite(scale);
  expect_zeros(input, zeros);
  program_.add(std::make_unique<DequantizeStep>(scales), {input});
}

size_t NativeProgram::add_integer_convolution(std::vector<int> inputs, int groups, const WindowSpec& window,
                                              const Array<uint8_t>& kept, const Array<int8_t>& kernels) {
  expect(inputs.size() == 1 || inputs.size() == 2, "a convolution reads one value, or two with a residual");
  const Shape &in = input_shape(inputs[0]), &out = output_shape();
  expect(groups >= 1 && in.channels % groups == 0 && out.channels % groups == 0, "groups must divide the channels");
  for (int axis = 0; axis < 2; axis++)
    expect(window.kernel[axis] > 0 && window.stride[axis] > 0 && window.dilation[axis] > 0 && window.pads[axis] >= 0 &&
               window.pads[axis + 2] >= 0,
           "a window must have positive sides");
  expect(inputs.size() == 1 || is_same(input_shape(inputs[1]), out), "the residual must have the shape of the result");
  const size_t count = count_kept(inputs, groups, window, kept, kernels.size());
  expect_codes(kernels);
  const IntegerLayer layer{in.channels, out.channels, groups, window, Bits{kept.data()}, kernels.data()};
  auto step = make_integer_convolution(layer, program_, inputs[0]);
  keep_alive(kept, kernels);
  convolutions_.push_back({nullptr, step.get(), count, static_cast<size_t>(out.channels), 0});
  program_.add(std::move(step), std::move(inputs));
  return convolutions_.size() - 1;
}

void NativeProgram::set_integer_convolution(size_t number, int domain, const Array<uint8_t>& used, int zero,
                                            const Array<float>& multipliers, const Array<float>& offsets,
                                            float residual, int low, int high) {
  const AnyConvolution& convolution = convolutions_.at(number);
  expect(convolution.codes, "the convolution computes with floats");
  expect(domain >= 0 && domain < domains_, "there is no such domain");
  expect(used.size() == (convolution.kernels + 7) / 8, "used has the wrong size");
  keep_alive(used);
  const auto [least, most] = limits(low, high);
  convolution.codes->set_domain(domain, {Bits{used.data()}, code(zero), finite_floats(multipliers, convolution.outputs),
                                         finite_floats(offsets, convolution.outputs), finite(residual), least, most});
}

void NativeProgram::add_integer_affine(int input, const std::vector<Array<float>>& multipliers,
                                       const std::vector<Array<float>>& offsets, const std::vector<int>& lows,
                                       const std::vector<int>& highs) {
  const Shape& shape = input_shape(input);
  expect(is_same(shape, output_shape()), "a step must keep the shape of its input");
  std::vector<CodedAffineStep::Domain> domains;
  for (size_t count : {multipliers.size(), offsets.size(), lows.size(), highs.size()}) expect_domains(count);
  for (int d = 0; d < domains_; d++)
    domains.push_back({finite_floats(multipliers[d], shape.channels), finite_floats(offsets[d], shape.channels),
                       limits(lows[d], highs[d])});
  program_.add(std::make_unique<CodedAffineStep>(std::move(domains)), {input});
}

void NativeProgram::add_table(int input, const std::vector<Array<uint8_t>>& tables) {
  expect(is_same(input_shape(input), output_shape()), "a step must keep the shape of its input");
  expect_domains(tables.size());
  std::vector<const uint8_t*> pointers;
  for (const Array<uint8_t>& array : tables) pointers.push_back(table(array));
  program_.add(std::make_unique<TableStep>(std::move(pointers)), {input});
}

void NativeProgram::add_integer_sum(std::vector<int> inputs,
                                    const std::vector<std::tuple<float, float, float>>& factors,
                                    const std::vector<int>& lows, const std::vector<int>& highs) {
  expect(inputs.size() == 2, "a sum has two inputs");
  for (int value : inputs)
    expect(is_same(input_shape(value), output_shape()), "a sum must keep the shape of its inputs");
  for (size_t count : {factors.size(), lows.size(), highs.size()}) expect_domains(count);
  std::vector<CodedCombineStep::Domain> domains;
  for (int d = 0; d < domains_; d++) {
    const auto [first, second, offset] = factors[d];
    domains.push_back({0, 0, finite(first), finite(second), finite(offset), limits(lows[d], highs[d])});
  }
  program_.add(std::make_unique<CodedCombineStep>(true, std::move(domains)), std::move(inputs));
}

void NativeProgram::add_integer_product(std::vector<int> inputs, const std::vector<std::tuple<int, int>>& zeros,
                                        const std::vector<std::tuple<float, float>>& factors,
                                        const std::vector<int>& lows, const std::vector<int>& highs) {
  expect(inputs.size() == 2, "a product has two inputs");
  const Shape &out = output_shape(), &second = input_shape(inputs[1]);
  expect(is_same(input_shape(inputs[0]), out), "a product must keep the shape of its first input");
  expect(second.channels == out.channels && (second.pixels() == 1 || is_same(second, out)),
         "the second input of a product must have the shape of the first, or one pixel");
  for (size_t count : {zeros.size(), factors.size(), lows.size(), highs.size()}) expect_domains(count);
  std::vector<CodedCombineStep::Domain> domains;
  std::vector<int> first_zeros, second_zeros;
  for (int d = 0; d < domains_; d++) {
    const auto [first_zero, second_zero] = zeros[d];
    const auto [factor, offset] = factors[d];
    first_zeros.push_back(first_zero);
    second_zeros.push_back(second_zero);
    domains.push_back({static_cast<float>(code(first_zero)), static_cast<float>(code(second_zero)), finite(factor), 0,
                       finite(offset), limits(lows[d], highs[d])});
  }
  expect_zeros(inputs[0], first_zeros);
  expect_zeros(inputs[1], second_zeros);
  program_.add(std::make_unique<CodedCombineStep>(false, std::move(domains)), std::move(inputs));
}

void NativeProgram::add_integer_join(std::vector<int> inputs, const std::vector<std::vector<Table>>& tables,
                                     const std::vector<int>& zeros) {
  const Shape& out = output_shape();
  ptrdiff_t channels = 0;
  for (int value : inputs) {
    const Shape& in = input_shape(value);
    expect(in.height == out.height && in.width == out.width, "joined values must have one size");
    channels += in.channels;
  }
  expect(channels <= out.channels, "joined values have more channels than the result");
  expect_domains(tables.size());
  expect_zeros(program_.next_value(), zeros);
  std::vector<CodedJoinStep::Tables> pointers;
  for (const std::vector<Table>& domain : tables) {
    expect(domain.size() == inputs.size(), "there must be one table per input");
    pointers.emplace_back();
    for (const Table& array : domain) pointers.back().push_back(array ? table(*array) : nullptr);
  }
  program_.add(std::make_unique<CodedJoinStep>(std::move(pointers)), std::move(inputs));
}

void NativeProgram::add_integer_pool(int input, const WindowSpec& window, bool is_max, bool count_pads,
                                     const std::vector<int>& zeros,
                                     const std::vector<std::tuple<double, float>>& factors) {
  expect(input_shape(input).channels == output_shape().channels, "a pool must keep its channels");
  expect_domains(factors.size());
  expect_zeros(input, zeros);
  std::vector<CodedPoolStep::Domain> domains;
  for (const auto& [factor, offset] : factors) domains.push_back({finite(factor), finite(offset)});
  program_.add(std::make_unique<CodedPoolStep>(window, program_, input, is_max, count_pads, domains), {input});
}

void NativeProgram::add_integer_mean(int input, const std::vector<int>& zeros,
                                     const std::vector<std::tuple<float, float>>& factors) {
  const Shape& out = output_shape();
  expect(input_shape(input).channels == out.channels && out.pixels() == 1, "a mean must keep its channels only");
  expect_domains(factors.size());
  expect_zeros(input, zeros);
  std::vector<CodedMeanStep::Domain> domains;
  for (const auto& [factor, offset] : factors) domains.push_back({finite(factor), finite(offset)});
  program_.add(std::make_unique<CodedMeanStep>(std::move(domains)), {input});
}

void NativeProgram::set_integer_head(int domain, const Array<int8_t>& weight, const Array<float>& multipliers,
                                     const Array<float>& offsets) {
  const Shape& last = program_.shape(program_.next_value() - 1);
  const size_t features = static_cast<size_t>(last.channels) * last.pixels(), classes = multipliers.size();
  expect(domain >= 0 && domain < domains_, "there is no such domain");
  expect(weight.size() == classes * features, "the classifier does not fit the features");
  expect(features <= static_cast<size_t>(INT32_MAX / (255 * 127)), "the sums of a classifier may not fit 32 bits");
  expect_codes(weight);
  keep_alive(weight);
  program_.set_integer_head(domain, {weight.data(), finite_floats(multipliers, classes),
                                     finite_floats(offsets, classes), static_cast<int>(classes)});
}

}  // namespace prunus
