// The arrays that Python passes, and checks of what they hold.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <optional>
#include <stdexcept>

#include "stored_arrays.hpp"

namespace prunus {

namespace nb = nanobind;

template <class T>
using Array = nb::ndarray<const T, nb::c_contig, nb::device::cpu>;
using OptionalFloats = std::optional<Array<float>>;
using Stored = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;  // float32, float16, or bfloat16 as uint16
using Images = nb::ndarray<const float, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Logits = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

inline void expect(bool holds, const char* message) {
  if (!holds) throw std::invalid_argument(message);
}

inline void expect_size(const OptionalFloats& array, size_t size, const char* message) {
  expect(!array || array->size() == size, message);
}

inline void expect_aligned(const void* data, size_t bytes) {
  expect(reinterpret_cast<uintptr_t>(data) % bytes == 0, "an array is not aligned to its element size");
}

inline const float* data_or_null(const OptionalFloats& array) {
  if (!array) return nullptr;
  expect_aligned(array->data(), sizeof(float));
  return array->data();
}

inline StoredFloats stored_floats(const Stored& array) {
  const nb::dlpack::dtype type = array.dtype();
  const bool is_float = type.code == static_cast<uint8_t>(nb::dlpack::dtype_code::Float);
  expect_aligned(array.data(), type.bits / 8);
  if (is_float && type.bits == 32) return {array.data(), Precision::float32};
  if (is_float && type.bits == 16) return {array.data(), Precision::float16};
  expect(type == nb::dtype<uint16_t>(), "weights must be float32, float16, or bfloat16 as uint16");
  return {array.data(), Precision::bfloat16};
}

}  // namespace prunus
