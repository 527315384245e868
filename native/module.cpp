// The Python module: builds a program step by step, then runs it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "activation_names.hpp"
#include "instruction_sets.hpp"
#include "native_program.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using prunus::NativeProgram;
using prunus::WindowSpec;

namespace {

WindowSpec window_spec(std::array<int, 2> kernel, std::array<int, 2> stride, std::array<int, 4> pads,
                       std::array<int, 2> dilation) {
  WindowSpec spec{};
  std::copy(kernel.begin(), kernel.end(), spec.kernel);
  std::copy(stride.begin(), stride.end(), spec.stride);
  std::copy(pads.begin(), pads.end(), spec.pads);
  std::copy(dilation.begin(), dilation.end(), spec.dilation);
  return spec;
}

void add_integer_steps(nb::class_<NativeProgram>& program) {
  program.def("set_value_zeros", &NativeProgram::set_value_zeros, "value"_a, "zeros"_a)
      .def("add_quantize", &NativeProgram::add_quantize, "source"_a, "inverse_scales"_a, "zeros"_a)
      .def("add_dequantize", &NativeProgram::add_dequantize, "source"_a, "scales"_a, "zeros"_a)
      .def("add_integer_convolution", &NativeProgram::add_integer_convolution, "inputs"_a, "groups"_a, "window"_a,
           "kept"_a, "kernels"_a)
      .def("set_integer_convolution", &NativeProgram::set_integer_convolution, "number"_a, "domain"_a, "used"_a,
           "zero"_a, "multipliers"_a, "offsets"_a, "residual"_a, "low"_a, "high"_a)
      .def("add_integer_affine", &NativeProgram::add_integer_affine, "source"_a, "multipliers"_a, "offsets"_a, "lows"_a,
           "highs"_a)
      .def("add_table", &NativeProgram::add_table, "source"_a, "tables"_a)
      .def("add_integer_sum", &NativeProgram::add_integer_sum, "inputs"_a, "factors"_a, "lows"_a, "highs"_a)
      .def("add_integer_product", &NativeProgram::add_integer_product, "inputs"_a, "zeros"_a, "factors"_a, "lows"_a,
           "highs"_a)
      .def("add_integer_join", &NativeProgram::add_integer_join, "inputs"_a, "tables"_a, "zeros"_a)
      .def("add_integer_pool", &NativeProgram::add_integer_pool, "source"_a, "window"_a, "is_max"_a, "count_pads"_a,
           "zeros"_a, "factors"_a)
      .def("add_integer_mean", &NativeProgram::add_integer_mean, "source"_a, "zeros"_a, "factors"_a)
      .def("set_integer_head", &NativeProgram::set_integer_head, "domain"_a, "weight"_a, "multipliers"_a, "offsets"_a);
}

}  // namespace

NB_MODULE(_native, m) {
  m.doc() = "Runs pruned networks: sparse convolutions of many domains over shared kernels.";
  m.def("activation_names", &prunus::activation_names);
  m.def("available_kernels", &prunus::available_kernels);
  m.def("lacking_kernels", &prunus::lacking_kernels);
  nb::class_<WindowSpec>(m, "Window")
      .def(
          "__init__",
          [](WindowSpec* self, std::array<int, 2> kernel, std::array<int, 2> stride, std::array<int, 4> pads,
             std::array<int, 2> dilation) { new (self) WindowSpec(window_spec(kernel, stride, pads, dilation)); },
          "kernel"_a, "stride"_a, "pads"_a, "dilation"_a);
  nb::class_<NativeProgram> program(m, "Program");
  program
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
      .def("add_affine_map", &NativeProgram::add_affine_map, "source"_a, "scales"_a, "biases"_a)
      .def("add_join_pixels", &NativeProgram::add_join_pixels, "inputs"_a, "count"_a, "tokens"_a)
      .def("add_rearrange", &NativeProgram::add_rearrange, "source"_a, "sizes"_a, "strides"_a, "offset"_a)
      .def("add_attention", &NativeProgram::add_attention, "inputs"_a, "heads"_a, "dims"_a, "first"_a, "step"_a,
           "scale"_a, "apart"_a, "windows"_a, "regions"_a, "biases"_a)
      .def("add_integer_attention", &NativeProgram::add_integer_attention, "inputs"_a, "heads"_a, "dims"_a, "first"_a,
           "step"_a, "apart"_a, "windows"_a, "regions"_a, "zeros"_a, "factors"_a, "biases"_a)
      .def("set_head", &NativeProgram::set_head, "domain"_a, "weight"_a, "bias"_a)
      .def("finish", &NativeProgram::finish)
      .def("run", &NativeProgram::run, "images"_a, "domain"_a, "logits"_a)
      .def("path", &NativeProgram::path, "number"_a, "domain"_a)
      .def_prop_ro("image_bytes", &NativeProgram::image_bytes)
      .def_prop_ro("kernels", &NativeProgram::kernels);
  add_integer_steps(program);
}
