// Steps over tokens, as Python adds them.
#include <algorithm>
#include <cmath>

#include "native_program.hpp"

namespace prunus {

void NativeProgram::add_affine_map(int input, const std::vector<OptionalFloats>& scales,
                                   const std::vector<OptionalFloats>& biases) {
  const Shape& shape = input_shape(input);
  const size_t numbers = static_cast<size_t>(shape.channels) * static_cast<size_t>(shape.pixels());
  auto step = std::make_unique<AffineMapStep>(domains_);
  expect_domains(scales.size());
  expect_domains(biases.size());
  for (int domain = 0; domain < domains_; domain++) {
    expect_size(scales[domain], numbers, "scale has the wrong size");
    expect_size(biases[domain], numbers, "bias has the wrong size");
    program_.count_kept(2 * static_cast<ptrdiff_t>(numbers));
    step->set_domain(domain, shape, data_or_null(scales[domain]), data_or_null(biases[domain]));
  }
  program_.add(std::move(step), {input});
}

void NativeProgram::add_join_pixels(std::vector<int> inputs, int count, const std::vector<OptionalFloats>& tokens) {
  const Shape& shape = output_shape();
  ptrdiff_t pixels = count;
  for (int value : inputs) {
    expect(input_shape(value).channels == shape.channels, "pixels of different channels are joined");
    pixels += input_shape(value).pixels();
  }
  expect(count >= 0 && pixels == shape.pixels(), "the joined pixels do not fit the result");
  auto step = std::make_unique<JoinPixelsStep>(domains_, count);
  expect_domains(tokens.size());
  for (int domain = 0; domain < domains_; domain++) {
    expect_size(tokens[domain], static_cast<size_t>(shape.channels) * count, "tokens has the wrong size");
    keep_alive(tokens[domain]);
    step->set_domain(domain, data_or_null(tokens[domain]));
  }
  program_.add(std::move(step), std::move(inputs));
}

void NativeProgram::add_rearrange(int input, const std::vector<ptrdiff_t>& sizes, const std::vector<ptrdiff_t>& strides,
                                  ptrdiff_t offset) {
  expect(sizes.size() == strides.size(), "sizes and strides differ in number");
  std::vector<RearrangeStep::Axis> axes;
  for (size_t axis = 0; axis < sizes.size(); axis++) axes.push_back({sizes[axis], strides[axis]});
  program_.count_kept(output_shape().channels * output_shape().pixels());
  program_.add(std::make_unique<RearrangeStep>(input_shape(input), output_shape(), axes, offset), {input});
}

AttentionLayout NativeProgram::attention_layout(const std::vector<int>& inputs, int heads, std::array<int, 2> dims,
                                                std::array<int, 3> first, std::array<int, 3> step, float scale,
                                                float apart, const std::vector<std::vector<int>>& windows,
                                                const std::vector<std::vector<int>>& regions) const {
  expect(inputs.size() == 3, "attention has three inputs");
  const Shape &q = input_shape(inputs[0]), &k = input_shape(inputs[1]), &v = input_shape(inputs[2]);
  AttentionLayout layout{{heads, dims[0], dims[1], {}, {}, scale, apart}, 0, 0, {}, {}};
  for (int part = 0; part < 3; part++) {
    layout.spec.first[part] = first[part];
    layout.spec.step[part] = step[part];
    const int last = first[part] + (heads - 1) * step[part] + dims[part == 2];
    expect(heads > 0 && dims[part == 2] > 0 && first[part] >= 0 && step[part] >= 0 &&
               last <= input_shape(inputs[part]).channels,
           "a head has channels that are not in its input");
  }
  expect(k.pixels() == v.pixels(), "keys and values differ in their pixels");
  expect(output_shape().channels == heads * dims[1] && output_shape().pixels() == q.pixels(),
         "attention does not fit its result");
  const size_t pixels = windows.empty() ? 0 : windows[0].size();
  for (const std::vector<int>& window : windows) {
    expect(window.size() == pixels && pixels > 0, "windows differ in size");
    for (int pixel : window)
      expect(pixel >= 0 && pixel < q.pixels() && pixel < k.pixels(), "a window leaves the image");
    layout.windows.insert(layout.windows.end(), window.begin(), window.end());
  }
  expect(layout.windows.empty() || layout.windows.size() == static_cast<size_t>(q.pixels()),
         "windows do not cover the image");
  for (const std::vector<int>& window : regions)
    layout.regions.insert(layout.regions.end(), window.begin(), window.end());
  expect(layout.regions.empty() || layout.regions.size() == layout.windows.size(), "regions do not fit the windows");
  layout.queries = static_cast<int>(windows.empty() ? q.pixels() : pixels);
  layout.keys = static_cast<int>(windows.empty() ? k.pixels() : pixels);
  return layout;
}

// Check the biases of all domains and count the numbers that copies of them take.
void NativeProgram::expect_biases(const AttentionLayout& layout, const std::vector<OptionalFloats>& biases) {
  const size_t numbers = static_cast<size_t>(layout.spec.heads) * layout.queries * layout.keys;
  expect_domains(biases.size());
  for (const OptionalFloats& bias : biases) {
    expect_size(bias, numbers, "bias has the wrong size");
    if (bias) program_.count_kept(static_cast<ptrdiff_t>(numbers));
  }
}

void NativeProgram::add_attention(std::vector<int> inputs, int heads, std::array<int, 2> dims, std::array<int, 3> first,
                                  std::array<int, 3> step, float scale, float apart,
                                  const std::vector<std::vector<int>>& windows,
                                  const std::vector<std::vector<int>>& regions,
                                  const std::vector<OptionalFloats>& biases) {
  const AttentionLayout layout = attention_layout(inputs, heads, dims, first, step, scale, apart, windows, regions);
  expect_biases(layout, biases);
  auto attention = std::make_unique<AttentionStep>(layout, domains_);
  for (int domain = 0; domain < domains_; domain++) attention->set_domain(domain, data_or_null(biases[domain]));
  program_.add(std::move(attention), std::move(inputs));
}

void NativeProgram::add_integer_attention(std::vector<int> inputs, int heads, std::array<int, 2> dims,
                                          std::array<int, 3> first, std::array<int, 3> step, float apart,
                                          const std::vector<std::vector<int>>& windows,
                                          const std::vector<std::vector<int>>& regions,
                                          const std::vector<std::tuple<int, int, int>>& zeros,
                                          const std::vector<std::tuple<float, float>>& factors,
                                          const std::vector<OptionalFloats>& biases) {
  const AttentionLayout layout = attention_layout(inputs, heads, dims, first, step, 1.0f, apart, windows, regions);
  expect(static_cast<int64_t>(dims[0]) * 255 * 128 <= (int64_t{1} << 24), "heads have too many channels for 8 bits");
  expect(static_cast<int64_t>(layout.keys) * 255 * 255 <= INT32_MAX, "there are too many keys for 8 bits");
  expect(std::isfinite(apart), "a factor or an offset is not finite");
  expect_biases(layout, biases);
  expect_domains(zeros.size());
  expect_domains(factors.size());
  std::vector<CodedAttentionStep::Domain> domains;
  std::vector<int> all_zeros[3];
  for (int domain = 0; domain < domains_; domain++) {
    const auto [q_zero, v_zero, zero] = zeros[domain];
    const auto [multiplier, factor] = factors[domain];
    expect(std::isfinite(multiplier) && std::isfinite(factor), "a factor or an offset is not finite");
    domains.push_back({q_zero, v_zero, multiplier, factor});
    all_zeros[0].push_back(q_zero);
    all_zeros[1].push_back(v_zero);
    all_zeros[2].push_back(zero);
  }
  expect_zeros(inputs[0], all_zeros[0]);
  expect_zeros(inputs[2], all_zeros[1]);
  expect_zeros(program_.next_value(), all_zeros[2]);
  auto attention = std::make_unique<CodedAttentionStep>(layout, std::move(domains));
  for (int domain = 0; domain < domains_; domain++) {
    const float* bias = data_or_null(biases[domain]);
    if (bias)
      expect(std::all_of(bias, bias + layout.spec.heads * ptrdiff_t{layout.queries} * layout.keys,
                         [](float x) { return std::isfinite(x); }),
             "a factor or an offset is not finite");
    attention->set_bias(domain, bias);
  }
  program_.add(std::move(attention), std::move(inputs));
}

}  // namespace prunus
