// The program as Python builds it: a program, its convolutions, and the arrays that it reads in place.
#pragma once
#include <any>
#include <array>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "convolution.hpp"
#include "integer_attention.hpp"
#include "integer_convolution.hpp"
#include "integer_steps.hpp"
#include "steps.hpp"
#include "token_steps.hpp"

namespace prunus {

class NativeProgram {
 public:
  using Table = std::optional<Array<uint8_t>>;

  NativeProgram(const std::vector<std::tuple<int, int, int>>& shapes, int domains, int threads,
                const std::string& kernels);

  // Returns the convolution's number, which set_convolution, set_integer_convolution and path take.
  size_t add_convolution(std::vector<int> inputs, int groups, const WindowSpec& window, const std::string& activation,
                         float slope, const Array<uint8_t>& kept, const Stored& kernels);
  void set_convolution(size_t number, int domain, const Array<uint8_t>& used, const OptionalFloats& scale,
                       const OptionalFloats& bias, const OptionalFloats& ones);
  void add_affine(int input, const std::string& activation, float slope, const std::vector<OptionalFloats>& scales,
                  const std::vector<OptionalFloats>& biases);
  void add_layer_norm(int input, float eps, const std::vector<OptionalFloats>& scales,
                      const std::vector<OptionalFloats>& biases);
  void add_sum(std::vector<int> inputs, const std::string& activation, float slope);
  void add_product(std::vector<int> inputs, const std::string& activation, float slope);
  void add_join(std::vector<int> inputs);
  void add_pool(int input, const WindowSpec& window, bool is_max, bool count_pads);
  void add_mean(int input);
  void add_affine_map(int input, const std::vector<OptionalFloats>& scales, const std::vector<OptionalFloats>& biases);
  void add_join_pixels(std::vector<int> inputs, int count, const std::vector<OptionalFloats>& tokens);
  void add_rearrange(int input, const std::vector<ptrdiff_t>& sizes, const std::vector<ptrdiff_t>& strides,
                     ptrdiff_t offset);
  void add_attention(std::vector<int> inputs, int heads, std::array<int, 2> dims, std::array<int, 3> first,
                     std::array<int, 3> step, float scale, float apart, const std::vector<std::vector<int>>& windows,
                     const std::vector<std::vector<int>>& regions, const std::vector<OptionalFloats>& biases);
  void set_head(int domain, const Stored& weight, const Stored& bias);

  // Steps over 8-bit codes: native_program_integers.cpp.
  void set_value_zeros(int value, const std::vector<int>& zeros);
  void add_quantize(int input, const std::vector<float>& inverse_scales, const std::vector<int>& zeros);
  void add_dequantize(int input, const std::vector<float>& scales, const std::vector<int>& zeros);
  size_t add_integer_convolution(std::vector<int> inputs, int groups, const WindowSpec& window,
                                 const Array<uint8_t>& kept, const Array<int8_t>& kernels);
  void set_integer_convolution(size_t number, int domain, const Array<uint8_t>& used, int zero,
                               const Array<float>& multipliers, const Array<float>& offsets, float residual, int low,
                               int high);
  void add_integer_affine(int input, const std::vector<Array<float>>& multipliers,
                          const std::vector<Array<float>>& offsets, const std::vector<int>& lows,
                          const std::vector<int>& highs);
  void add_table(int input, const std::vector<Array<uint8_t>>& tables);
  void add_integer_sum(std::vector<int> inputs, const std::vector<std::tuple<float, float, float>>& factors,
                       const std::vector<int>& lows, const std::vector<int>& highs);
  void add_integer_product(std::vector<int> inputs, const std::vector<std::tuple<int, int>>& zeros,
                           const std::vector<std::tuple<float, float>>& factors, const std::vector<int>& lows,
                           const std::vector<int>& highs);
  void add_integer_join(std::vector<int> inputs, const std::vector<std::vector<Table>>& tables,
                        const std::vector<int>& zeros);
  void add_integer_pool(int input, const WindowSpec& window, bool is_max, bool count_pads,
                        const std::vector<int>& zeros, const std::vector<std::tuple<double, float>>& factors);
  void add_integer_mean(int input, const std::vector<int>& zeros, const std::vector<std::tuple<float, float>>& factors);
  void add_integer_attention(std::vector<int> inputs, int heads, std::array<int, 2> dims, std::array<int, 3> first,
                             std::array<int, 3> step, float apart, const std::vector<std::vector<int>>& windows,
                             const std::vector<std::vector<int>>& regions,
                             const std::vector<std::tuple<int, int, int>>& zeros,
                             const std::vector<std::tuple<float, float>>& factors,
                             const std::vector<OptionalFloats>& biases);
  void set_integer_head(int domain, const Array<int8_t>& weight, const Array<float>& multipliers,
                        const Array<float>& offsets);

  void finish();
  // Returns false if an image holds a value that is not finite.
  bool run(const Images& images, int domain, Logits logits) const;
  std::string path(size_t number, int domain) const;
  std::string kernels() const { return program_.kernels().name; }
  ptrdiff_t image_bytes() const { return program_.image_floats() * static_cast<ptrdiff_t>(sizeof(float)); }

 private:
  // One of the two pointers is null.
  struct AnyConvolution {
    Convolution* floats;
    IntegerConvolution* codes;
    size_t kernels, outputs, taps;
  };

  template <class... Arrays>
  void keep_alive(const Arrays&... arrays) {
    (kept_alive_.emplace_back(arrays), ...);
  }
  // Check the bits and the number of kernels of a convolution; return its number of kept kernels.
  size_t count_kept(const std::vector<int>& inputs, int groups, const WindowSpec& window, const Array<uint8_t>& kept,
                    size_t num_weights) const;
  void set_scales(ScaledStep& step, int input, const std::vector<OptionalFloats>& scales,
                  const std::vector<OptionalFloats>& biases);
  AttentionLayout attention_layout(const std::vector<int>& inputs, int heads, std::array<int, 2> dims,
                                   std::array<int, 3> first, std::array<int, 3> step, float scale, float apart,
                                   const std::vector<std::vector<int>>& windows,
                                   const std::vector<std::vector<int>>& regions) const;
  void expect_biases(const AttentionLayout& layout, const std::vector<OptionalFloats>& biases);
  const Shape& input_shape(int value) const;  // of a value that exists already
  const Shape& output_shape() const;          // of the value that the next step makes
  void expect_domains(size_t count) const;
  void expect_zeros(int value, const std::vector<int>& zeros);
  const float* finite_floats(const Array<float>& array, size_t size);
  const uint8_t* table(const Array<uint8_t>& array);

  Program program_;
  int domains_;
  std::vector<AnyConvolution> convolutions_;
  std::vector<std::pair<int, std::vector<int>>> read_zeros_;  // what steps were told about the zeros of a value
  std::vector<std::any> kept_alive_;
};

}  // namespace prunus
