// What Python sees of the native engine: a program that is put together step by step and then run.
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

#include "convolution.hpp"
#include "steps.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using prunus::Activation;

template <class T>
using Array = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;
using Flat = std::optional<Array<float>>;
using Stored = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;  // float32, float16, or bfloat16 as 16 bits
using Images = nb::ndarray<const float, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Logits = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void expect(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

void expect_aligned(const void* data, size_t bytes) {
  expect(reinterpret_cast<uintptr_t>(data) % bytes == 0, "numbers lie at an odd address");
}

const float* data_or_null(const Flat& array) {
  if (!array) return nullptr;
  expect_aligned(array->data(), sizeof(float));
  return array->data();
}

prunus::Numbers numbers(const Stored& array) {
  const nb::dlpack::dtype type = array.dtype();
  const bool is_float = type.code == static_cast<uint8_t>(nb::dlpack::dtype_code::Float);
  expect_aligned(array.data(), type.bits / 8);
  if (is_float && type.bits == 32) return {array.data(), prunus::Precision::single};
  if (is_float && type.bits == 16) return {array.data(), prunus::Precision::half};
  expect(type == nb::dtype<uint16_t>(), "numbers are float32, float16 or the bits of bfloat16");
  return {array.data(), prunus::Precision::brain};
}

void expect_size(const Flat& array, size_t size, const char* what) { expect(!array || array->size() == size, what); }

prunus::WindowSpec window_spec(std::array<int, 2> kernel, std::array<int, 2> stride, std::array<int, 4> pads,
                               std::array<int, 2> dilation) {
  prunus::WindowSpec spec{};
  std::copy(kernel.begin(), kernel.end(), spec.kernel);
  std::copy(stride.begin(), stride.end(), spec.stride);
  std::copy(pads.begin(), pads.end(), spec.pads);
  std::copy(dilation.begin(), dilation.end(), spec.dilation);
  return spec;
}

// A program, its convolutions, which learn of one domain after the other, and the arrays that it reads where they lie.
class NativeProgram {
 public:
  NativeProgram(const std::vector<std::tuple<int, int, int>>& shapes, int domains, int threads, const std::string& kernels)
      : program_(as_shapes(shapes), domains, threads, prunus::choose_kernels(kernels)), domains_(domains) {}

  void add_convolution(std::vector<int> inputs, int groups, const prunus::WindowSpec& window, int activation, float slope,
                       const Array<uint8_t>& kept, const Stored& kernels) {
    const prunus::Shape &in = program_.shape(inputs.at(0)), &out = program_.shape(program_.next_value());
    expect(kept.size() == (static_cast<size_t>(out.channels) * (in.channels / groups) + 7) / 8, "kept has another size");
    const size_t taps = static_cast<size_t>(window.kernel[0]) * window.kernel[1];
    const prunus::Bits bits{kept.data()};
    const long count = bits.count(0, static_cast<long>(out.channels) * (in.channels / groups));
    expect(kernels.size() == static_cast<size_t>(count) * taps, "kernels are not as many as are kept");
    const prunus::ConvolutionSpec spec{in.channels, out.channels, groups, window, static_cast<Activation>(activation), slope};
    auto step = prunus::make_convolution(spec, program_, inputs[0], {bits, numbers(kernels)});
    hold(kept), hold(kernels);
    convolutions_.push_back(step.get());
    sizes_.push_back({static_cast<size_t>(count), static_cast<size_t>(out.channels), taps});
    program_.add(std::move(step), std::move(inputs));
  }

  void set_convolution(size_t number, int domain, const Array<uint8_t>& used, const Flat& scale, const Flat& bias,
                       const Flat& ones) {
    const Sizes& sizes = sizes_.at(number);
    expect(used.size() == (sizes.kernels + 7) / 8, "used has another size");
    expect_size(scale, sizes.outputs, "scale has another size");
    expect_size(bias, sizes.outputs, "bias has another size");
    expect_size(ones, sizes.outputs * sizes.taps, "ones has another size");
    hold(used), hold(scale), hold(bias), hold(ones);
    convolutions_.at(number)->set_domain(domain, {used.data()}, data_or_null(scale), data_or_null(bias), data_or_null(ones));
  }

  void add_affine(int input, int activation, float slope, const std::vector<Flat>& scales, const std::vector<Flat>& biases) {
    auto step = std::make_unique<prunus::AffineStep>(domains_, static_cast<Activation>(activation), slope);
    set_scales(*step, input, scales, biases);
    program_.add(std::move(step), {input});
  }

  void add_layer_norm(int input, float eps, const std::vector<Flat>& scales, const std::vector<Flat>& biases) {
    auto step = std::make_unique<prunus::LayerNormStep>(domains_, eps);
    set_scales(*step, input, scales, biases);
    program_.add(std::move(step), {input});
  }

  void add_combination(bool add, int first, int second, int activation, float slope) {
    program_.add(std::make_unique<prunus::CombineStep>(add, static_cast<Activation>(activation), slope), {first, second});
  }

  void add_join(std::vector<int> inputs) { program_.add(std::make_unique<prunus::JoinStep>(), std::move(inputs)); }

  void add_pool(int input, const prunus::WindowSpec& window, bool largest, bool count_pads) {
    program_.add(std::make_unique<prunus::PoolStep>(window, program_, input, largest, count_pads), {input});
  }

  void add_mean(int input) { program_.add(std::make_unique<prunus::MeanStep>(), {input}); }

  void set_head(int domain, const Stored& weight, const Stored& bias) {
    const prunus::Shape& last = program_.shape(program_.next_value() - 1);
    expect(weight.size() == bias.size() * last.channels * last.pixels(), "the classifier does not fit the features");
    hold(weight), hold(bias);
    program_.set_head(domain, numbers(weight), numbers(bias), static_cast<int>(bias.size()));
  }

  void finish() { program_.finish(); }

  bool run(const Images& images, int domain, Logits logits) const {
    check(images, domain, logits);
    const float* from = images.data();
    float* to = logits.data();
    const long count = static_cast<long>(images.shape(0));
    nb::gil_scoped_release release;
    return program_.run(from, count, domain, to);
  }

  // The seconds that every step takes.
  std::vector<double> times(const Images& images, int domain, Logits logits) const {
    check(images, domain, logits);
    std::vector<double> seconds(program_.next_value() - 1, 0.0);
    nb::gil_scoped_release release;
    program_.run(images.data(), static_cast<long>(images.shape(0)), domain, logits.data(), seconds.data());
    return seconds;
  }

  std::string path(size_t number, int domain) const { return convolutions_.at(number)->path(domain); }
  std::string kernels() const { return program_.kernels().name; }
  long image_bytes() const { return program_.image_floats() * static_cast<long>(sizeof(float)); }

 private:
  void check(const Images& images, int domain, const Logits& logits) const {
    const prunus::Shape& in = program_.shape(0);
    expect(domain >= 0 && domain < domains_, "there is no such domain");
    expect(images.shape(1) == static_cast<size_t>(in.channels) && images.shape(2) == static_cast<size_t>(in.height) &&
               images.shape(3) == static_cast<size_t>(in.width),
           "images have another shape");
    expect(logits.shape(0) == images.shape(0) && logits.shape(1) == static_cast<size_t>(program_.classes(domain)),
           "logits have another shape");
  }

  template <class Any>
  void hold(const Any& array) {
    held_.emplace_back(array);
  }

  struct Sizes {
    size_t kernels, outputs, taps;
  };

  static std::vector<prunus::Shape> as_shapes(const std::vector<std::tuple<int, int, int>>& shapes) {
    std::vector<prunus::Shape> found;
    for (const auto& [channels, height, width] : shapes) found.push_back({channels, height, width});
    return found;
  }

  void set_scales(prunus::ScaledStep& step, int input, const std::vector<Flat>& scales, const std::vector<Flat>& biases) {
    const int channels = program_.shape(input).channels;
    for (int domain = 0; domain < domains_; domain++) {
      expect_size(scales.at(domain), channels, "scale has another size");
      expect_size(biases.at(domain), channels, "bias has another size");
      hold(scales[domain]), hold(biases[domain]);
      step.set_domain(domain, data_or_null(scales[domain]), data_or_null(biases[domain]));
    }
  }

  prunus::Program program_;
  int domains_;
  std::vector<prunus::Convolution*> convolutions_;
  std::vector<Sizes> sizes_;
  std::vector<std::any> held_;
};

}  // namespace

NB_MODULE(_native, m) {
  m.doc() = "Runs pruned networks: sparse convolutions of many domains over shared kernels.";
  m.def("available_kernels", &prunus::available_kernels);
  nb::class_<prunus::WindowSpec>(m, "Window")
      .def("__init__", [](prunus::WindowSpec* self, std::array<int, 2> kernel, std::array<int, 2> stride,
                          std::array<int, 4> pads, std::array<int, 2> dilation) {
        new (self) prunus::WindowSpec(window_spec(kernel, stride, pads, dilation));
      }, "kernel"_a, "stride"_a, "pads"_a, "dilation"_a);
  nb::class_<NativeProgram>(m, "Program")
      .def(nb::init<const std::vector<std::tuple<int, int, int>>&, int, int, const std::string&>(), "shapes"_a, "domains"_a,
           "threads"_a, "kernels"_a)
      .def("add_convolution", &NativeProgram::add_convolution, "inputs"_a, "groups"_a, "window"_a,
           "activation"_a, "slope"_a, "kept"_a, "kernels"_a)
      .def("set_convolution", &NativeProgram::set_convolution, "number"_a, "domain"_a, "used"_a, "scale"_a.none(),
           "bias"_a.none(), "ones"_a.none())
      .def("add_affine", &NativeProgram::add_affine, "source"_a, "activation"_a, "slope"_a, "scales"_a, "biases"_a)
      .def("add_layer_norm", &NativeProgram::add_layer_norm, "source"_a, "eps"_a, "scales"_a, "biases"_a)
      .def("add_combination", &NativeProgram::add_combination, "add"_a, "first"_a, "second"_a, "activation"_a, "slope"_a)
      .def("add_join", &NativeProgram::add_join, "inputs"_a)
      .def("add_pool", &NativeProgram::add_pool, "source"_a, "window"_a, "largest"_a, "count_pads"_a)
      .def("add_mean", &NativeProgram::add_mean, "source"_a)
      .def("set_head", &NativeProgram::set_head, "domain"_a, "weight"_a, "bias"_a)
      .def("finish", &NativeProgram::finish)
      .def("run", &NativeProgram::run, "images"_a, "domain"_a, "logits"_a)
      .def("times", &NativeProgram::times, "images"_a, "domain"_a, "logits"_a)
      .def("path", &NativeProgram::path, "number"_a, "domain"_a)
      .def_prop_ro("image_bytes", &NativeProgram::image_bytes)
      .def_prop_ro("kernels", &NativeProgram::kernels);
}
