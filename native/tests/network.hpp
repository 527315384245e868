// A small network as plain data, for the random networks, the reference and the kernels.
#pragma once
#include <cstdint>
#include <vector>

#include "../convolution.hpp"

namespace prunus::test {

// The tensors of one domain in an operation; empty if it has none.
struct Tensors {
  std::vector<float> scale, bias, ones;
  std::vector<uint8_t> used;  // per kept kernel of a convolution
};

// Pack eight switches into a byte, as model files do.
inline std::vector<uint8_t> packed(const std::vector<uint8_t>& switches) {
  std::vector<uint8_t> bytes((switches.size() + 7) / 8);
  for (size_t k = 0; k < switches.size(); k++) bytes[k / 8] |= static_cast<uint8_t>(switches[k] << k % 8);
  return bytes;
}

// Weights as a model file may store them, and their values.
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
  std::vector<int> inputs;  // value 0 is the image; operation k computes value k + 1
  Shape in, out;            // of the first input, and of the result
  Activation activation = Activation::none;
  float slope = 0.3f, eps = 0;
  WindowSpec window{};  // of convolutions and pools
  int groups = 1;
  bool largest = false, count_pads = false;
  std::vector<uint8_t> kept = {};  // kept kernels of a convolution, in stored order
  Stored kernels = {};
  std::vector<Tensors> domains = {};
};

struct Head {
  int classes;
  Stored weight, bias;
};

struct Network {
  std::vector<Shape> shapes;  // one per value
  std::vector<Operation> operations;
  std::vector<Head> heads;  // one per domain
  std::vector<float> images;
  ptrdiff_t count;
  int threads;
  bool at_once;  // all domains run at the same time
};

inline int taps_of(const WindowSpec& window) { return window.kernel[0] * window.kernel[1]; }

}  // namespace prunus::test
