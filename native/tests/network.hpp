// A small network as plain data: what the test draws, what it computes in double precision, and what it asks the
// kernels.
#pragma once
#include <cstdint>
#include <vector>

#include "../convolution.hpp"

namespace prunus::test {

// What one domain has of its own in an operation; empty where it has none.
struct Tensors {
  std::vector<float> scale, bias, ones;
  std::vector<uint8_t> used;  // of the kept kernels of a convolution
};

// Eight switches to a byte, as a file has them.
inline std::vector<uint8_t> packed(const std::vector<uint8_t>& switches) {
  std::vector<uint8_t> found((switches.size() + 7) / 8);
  for (size_t k = 0; k < switches.size(); k++) found[k / 8] |= static_cast<uint8_t>(switches[k] << k % 8);
  return found;
}

// StoredFloats as a file may hold them, and what they are worth.
struct Stored {
  Precision precision = Precision::float32;
  std::vector<float> wide;
  std::vector<uint16_t> narrow;
  StoredFloats numbers() const {
    return {precision == Precision::float32 ? static_cast<const void*>(wide.data()) : narrow.data(), precision};
  }
};

enum class Kind { convolution, pool, affine, add, mul, join, mean, layer_norm };

struct Operation {
  Kind kind;
  std::vector<int> inputs;  // value 0 is the image, operation k makes value k + 1
  Shape in, out;            // of the first input, and of what it makes
  Activation activation = Activation::none;
  float slope = 0.3f, eps = 0;
  WindowSpec window{};  // of convolutions and pools
  int groups = 1;
  bool largest = false, count_pads = false;
  std::vector<uint8_t> kept = {};  // of a convolution, in stored order
  Stored kernels = {};
  std::vector<Tensors> domains = {};
};

struct Head {
  int classes;
  Stored weight, bias;
};

struct Network {
  std::vector<Shape> shapes;  // of every value
  std::vector<Operation> operations;
  std::vector<Head> heads;  // of every domain
  std::vector<float> images;
  ptrdiff_t count;
  int threads;
  bool at_once;  // all domains are asked at the same time
};

inline int taps_of(const WindowSpec& window) { return window.kernel[0] * window.kernel[1]; }

}  // namespace prunus::test
