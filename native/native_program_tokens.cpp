// Steps over tokens, as Python adds them.
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

void NativeProgram::add_attention(std::vector<int> inputs, int heads, std::array<int, 2> dims, std::array<int, 3> first,
                                  std::array<int, 3> step, float scale, float apart,
                                  const std::vector<std::vector<int>>& windows,
                                  const std::vector<std::vector<int>>& regions,
                                  const std::vector<OptionalFloats>& biases) {
  expect(inputs.size() == 3, "attention has three inputs");
  const Shape &q = input_shape(inputs[0]), &k = input_shape(inputs[1]), &v = input_shape(inputs[2]);
  AttentionSpec spec{heads, dims[0], dims[1], {}, {}, scale, apart};
  for (int part = 0; part < 3; part++) {
    spec.first[part] = first[part];
    spec.step[part] = step[part];
    const int last = first[part] + (heads - 1) * step[part] + dims[part == 2];
    expect(heads > 0 && first[part] >= 0 && step[part] >= 0 && last <= input_shape(inputs[part]).channels,
           "a head has channels that are not in its input");
  }
  expect(k.pixels() == v.pixels(), "keys and values differ in their pixels");
  expect(output_shape().channels == heads * dims[1] && output_shape().pixels() == q.pixels(),
         "attention does not fit its result");
  const size_t pixels = windows.empty() ? 0 : windows[0].size();
  std::vector<int> all;
  for (const std::vector<int>& window : windows) {
    expect(window.size() == pixels && pixels > 0, "windows differ in size");
    all.insert(all.end(), window.begin(), window.end());
  }
  expect(all.empty() || all.size() == static_cast<size_t>(q.pixels()), "windows do not cover the image");
  std::vector<uint8_t> areas;
  for (const std::vector<int>& window : regions) areas.insert(areas.end(), window.begin(), window.end());
  expect(areas.empty() || areas.size() == all.size(), "regions do not fit the windows");
  const size_t queries = all.empty() ? static_cast<size_t>(q.pixels()) : pixels,
               keys = all.empty() ? static_cast<size_t>(k.pixels()) : pixels;
  auto attention =
      std::make_unique<AttentionStep>(spec, q, k, domains_, std::move(all), areas, static_cast<int>(pixels));
  expect_domains(biases.size());
  for (int domain = 0; domain < domains_; domain++) {
    expect_size(biases[domain], heads * queries * keys, "bias has the wrong size");
    if (biases[domain]) program_.count_kept(static_cast<ptrdiff_t>(heads * queries * keys));
    attention->set_domain(domain, data_or_null(biases[domain]));
  }
  program_.add(std::move(attention), std::move(inputs));
}

}  // namespace prunus
