// The Python module: builds a program step by step, then runs it.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <any>
#include <array>
#include <optional>
#include <stdexcept>
#include <tuple>

#include "activation_names.hpp"
#include "convolution.hpp"
#include "steps.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <class T>
using Array = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;
using OptionalFloats = std::optional<Array<float>>;
using Stored = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;  // float32, float16, or bfloat16 as uint16
using Images = nb::ndarray<const float, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Logits = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void expect(bool holds, const char* message) {
  if (!holds) throw std::invalid_argument(message);
}

void expect_size(const OptionalFloats& array, size_t size, const char* message) {
  expect(!array || array->size() == size, message);
}

void expect_aligned(const void* data, size_t bytes) {
  expect(reinterpret_cast<uintptr_t>(data) % bytes == 0, "an array is not aligned to its element size");
}

const float* data_or_null(const OptionalFloats& array) {
  if (!array) return nullptr;
  expect_aligned(array->data(), sizeof(float));
  return array->data();
}

prunus::StoredFloats stored_floats(const Stored& array) {
  const nb::dlpack::dtype type = array.dtype();
  const bool is_float = type.code == static_cast<uint8_t>(nb::dlpack::dtype_code::Float);
  expect_aligned(array.data(), type.bits / 8);
  if (is_float && type.bits == 32) return {array.data(), prunus::Precision::float32};
  if (is_float && type.bits == 16) return {array.data(), prunus::Precision::float16};
  expect(type == nb::dtype<uint16_t>(), "weights must be float32, float16, or bfloat16 as uint16");
  return {array.data(), prunus::Precision::bfloat16};
}

prunus::WindowSpec window_spec(std::array<int, 2> kernel, std::array<int, 2> stride, std::array<int, 4> pads,
                               std::array<int, 2> dilation) {
  prunus::WindowSpec spec{};
  std::copy(kernel.begin(), kernel.end(), spec.kernel);
  std::copy(stride.begin(), stride.end(), spec.stride);
  std::copy(pads.begin(), pads.end(), spec.pads);
  std::copy(dilation.begin(), dilation.end(), spec.dilation);
  return spec;
}

// A program, its convolutions, and the arrays that it reads in place and therefore keeps alive.
class NativeProgram {
 public:
  NativeProgram(const std::vector<std::tuple<int, int, int>>& shapes, int domains, int threads,
                const std::string& kernels)
      : program_(as_shapes(shapes), domains, threads, prunus::choose_kernels(kernels)), domains_(domains) {}

  // Returns the convolution's number, which set_convolution and path take.
  size_t add_convolution(std::vector<int> inputs, int groups, const prunus::WindowSpec& window,
                         const std::string& activation, float slope, const Array<uint8_t>& kept,
                         const Stored& kernels) {
    const prunus::Shape &in = program_.shape(inputs.at(0)), &out = program_.shape(program_.next_value());
    const ptrdiff_t all = static_cast<ptrdiff_t>(out.channels) * (in.channels / groups);
    expect(kept.size() == (static_cast<size_t>(all) + 7) / 8, "kept has the wrong size");
    const size_t taps = static_cast<size_t>(window.kernel[0]) * window.kernel[1];
    const prunus::Bits bits{kept.data()};
    const size_t count = static_cast<size_t>(bits.count(0, all));
    expect(kernels.size() == count * taps, "the number of kernels differs from the number of kept bits");
    const prunus::ConvolutionSpec spec{in.channels, out.channels, groups, window, prunus::activation_named(activation),
                                       slope};
    auto step = prunus::make_convolution(spec, program_, inputs[0], {bits, stored_floats(kernels)});
    keep_alive(kept, kernels);
    convolutions_.push_back(step.get());
    sizes_.push_back({count, static_cast<size_t>(out.channels), taps});
    program_.add(std::move(step), std::move(inputs));
    return convolutions_.size() - 1;
  }

  void set_convolution(size_t number, int domain, const Array<uint8_t>& used, const OptionalFloats& scale,
                       const OptionalFloats& bias, const OptionalFloats& ones) {
    const Sizes& sizes = sizes_.at(number);
    expect(used.size() == (sizes.kernels + 7) / 8, "used has the wrong size");
    expect_size(scale, sizes.outputs, "scale has the wrong size");
    expect_size(bias, sizes.outputs, "bias has the wrong size");
    expect_size(ones, sizes.outputs * sizes.taps, "ones has the wrong size");
    keep_alive(used, scale, bias, ones);
    convolutions_[number]->set_domain(domain, {used.data()}, data_or_null(scale), data_or_null(bias),
                                      data_or_null(ones));
  }

  void add_affine(int input, const std::string& activation, float slope, const std::vector<OptionalFloats>& scales,
                  const std::vector<OptionalFloats>& biases) {
    auto step = std::make_unique<prunus::AffineStep>(domains_, prunus::activation_named(activation), slope);
    set_scales(*step, input, scales, biases);
    program_.add(std::move(step), {input});
  }

  void add_layer_norm(int input, float eps, const std::vector<OptionalFloats>& scales,
                      const std::vector<OptionalFloats>& biases) {
    auto step = std::make_unique<prunus::LayerNormStep>(domains_, eps);
    set_scales(*step, input, scales, biases);
    program_.add(std::move(step), {input});
  }

  void add_sum(std::vector<int> inputs, const std::string& activation, float slope) {
    auto step = std::make_unique<prunus::CombineStep>(true, prunus::activation_named(activation), slope);
    program_.add(std::move(step), std::move(inputs));
  }

  void add_product(std::vector<int> inputs, const std::string& activation, float slope) {
    auto step = std::make_unique<prunus::CombineStep>(false, prunus::activation_named(activation), slope);
    program_.add(std::move(step), std::move(inputs));
  }

  void add_join(std::vector<int> inputs) { program_.add(std::make_unique<prunus::JoinStep>(), std::move(inputs)); }

  void add_pool(int input, const prunus::WindowSpec& window, bool is_max, bool count_pads) {
    program_.add(std::make_unique<prunus::PoolStep>(window, program_, input, is_max, count_pads), {input});
  }

  void add_mean(int input) { program_.add(std::make_unique<prunus::MeanStep>(), {input}); }

  void set_head(int domain, const Stored& weight, const Stored& bias) {
    const prunus::Shape& last = program_.shape(program_.next_value() - 1);
    expect(weight.size() == bias.size() * last.channels * last.pixels(), "the classifier does not fit the features");
    keep_alive(weight, bias);
    program_.set_head(domain, stored_floats(weight), stored_floats(bias), static_cast<int>(bias.size()));
  }

  void finish() { program_.finish(); }

  // Returns false if an image holds a value that is not finite.
  bool run(const Images& images, int domain, Logits logits) const {
    const prunus::Shape& in = program_.shape(0);
    expect(domain >= 0 && domain < domains_, "there is no such domain");
    expect(images.shape(1) == static_cast<size_t>(in.channels) && images.shape(2) == static_cast<size_t>(in.height) &&
               images.shape(3) == static_cast<size_t>(in.width),
           "images have the wrong shape");
    expect(logits.shape(0) == images.shape(0) && logits.shape(1) == static_cast<size_t>(program_.classes(domain)),
           "logits have the wrong shape");
    nb::gil_scoped_release release;
    return program_.run(images.data(), static_cast<ptrdiff_t>(images.shape(0)), domain, logits.data());
  }

  std::string path(size_t number, int domain) const { return convolutions_.at(number)->path(domain); }
  std::string kernels() const { return program_.kernels().name; }
  ptrdiff_t image_bytes() const { return program_.image_floats() * static_cast<ptrdiff_t>(sizeof(float)); }

 private:
  struct Sizes {
    size_t kernels, outputs, taps;
  };

  template <class... Arrays>
  void keep_alive(const Arrays&... arrays) {
    (kept_alive_.emplace_back(arrays), ...);
  }

  static std::vector<prunus::Shape> as_shapes(const std::vector<std::tuple<int, int, int>>& shapes) {
    std::vector<prunus::Shape> result;
    for (const auto& [channels, height, width] : shapes) result.push_back({channels, height, width});
    return result;
  }

  void set_scales(prunus::ScaledStep& step, int input, const std::vector<OptionalFloats>& scales,
                  const std::vector<OptionalFloats>& biases) {
    const int channels = program_.shape(input).channels;
    for (int domain = 0; domain < domains_; domain++) {
      expect_size(scales.at(domain), channels, "scale has the wrong size");
      expect_size(biases.at(domain), channels, "bias has the wrong size");
      keep_alive(scales[domain], biases[domain]);
      step.set_domain(domain, data_or_null(scales[domain]), data_or_null(biases[domain]));
    }
  }

  prunus::Program program_;
  int domains_;
  std::vector<prunus::Convolution*> convolutions_;
  std::vector<Sizes> sizes_;
  std::vector<std::any> kept_alive_;
};

}  // namespace

NB_MODULE(_native, m) {
  m.doc() = "Runs pruned networks: sparse convolutions of many domains over shared kernels.";
  m.def("activation_names", &prunus::activation_names);
  m.def("available_kernels", &prunus::available_kernels);
  nb::class_<prunus::WindowSpec>(m, "Window")
      .def(
          "__init__",
          [](prunus::WindowSpec* self, std::array<int, 2> kernel, std::array<int, 2> stride, std::array<int, 4> pads,
             std::array<int, 2> dilation) {
            new (self) prunus::WindowSpec(window_spec(kernel, stride, pads, dilation));
          },
          "kernel"_a, "stride"_a, "pads"_a, "dilation"_a);
  nb::class_<NativeProgram>(m, "Program")
      .def(nb::init<const std::vector<std::tuple<int, int, int>>&, int, int, const std::string&>(), "shapes"_a,
           "domains"_a, "threads"_a, "kernels"_a)
      .def("add_convolution", &NativeProgram::add_convolution, "inputs"_a, "groups"_a, "window"_a, "activation"_a,
           "slope"_a, "kept"_a, "kernels"_a)
      .def("set_convolution", &NativeProgram::set_convolution, "number"_a, "domain"_a, "used"_a, "scale"_a.none(),
           "bias"_a.none(), "ones"_a.none())
      .def("add_affine", &NativeProgram::add_affine, "source"_a, "activation"_a, "slope"_a, "scales"_a, "biases"_a)
      .def("add_layer_norm", &NativeProgram::add_layer_norm, "source"_a, "eps"_a, "scales"_a, "biases"_a)
      .def("add_sum", &NativeProgram::add_sum, "inputs"_a, "activation"_a, "slope"_a)
      .def("add_product", &NativeProgram::add_product, "inputs"_a, "activation"_a, "slope"_a)
      .def("add_join", &NativeProgram::add_join, "inputs"_a)
      .def("add_pool", &NativeProgram::add_pool, "source"_a, "window"_a, "is_max"_a, "count_pads"_a)
      .def("add_mean", &NativeProgram::add_mean, "source"_a)
      .def("set_head", &NativeProgram::set_head, "domain"_a, "weight"_a, "bias"_a)
      .def("finish", &NativeProgram::finish)
      .def("run", &NativeProgram::run, "images"_a, "domain"_a, "logits"_a)
      .def("path", &NativeProgram::path, "number"_a, "domain"_a)
      .def_prop_ro("image_bytes", &NativeProgram::image_bytes)
      .def_prop_ro("kernels", &NativeProgram::kernels);
}
