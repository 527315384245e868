// A small network over 8-bit codes as plain data, for the random networks, the reference and the kernels.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "../token_steps.hpp"

namespace prunus::test {

enum class CodedKind { quantize, dequantize, convolution, affine, table, sum, product, join, pool, mean, attention };

// The numbers of one domain in an operation; most operations use a few of them.
struct CodedNumbers {
  std::vector<uint8_t> used;                // per kept kernel of a convolution
  std::vector<float> multipliers, offsets;  // per channel of a convolution or an affine operation
  float first = 0, second = 0, offset = 0;  // factors; `first` also is the scale, inverse scale or residual factor
  std::vector<float> bias;                  // of attention: [head][query][key], or empty
  double factor = 0;                        // of a mean pool
  int low = 0, high = 255;
  std::vector<std::vector<uint8_t>> tables;  // per input; empty for a copy
};

struct CodedOperation {
  CodedKind kind;
  std::vector<int> inputs;  // value 0 is the image; operation k computes value k + 1
  Shape in, out;            // of the first input, and of the result
  WindowSpec window{};      // of convolutions and pools
  int groups = 1;
  bool largest = false, count_pads = false;
  std::vector<uint8_t> kept = {};  // kept kernels of a convolution, in stored order
  std::vector<int8_t> kernels = {};
  AttentionLayout attention{};
  std::vector<CodedNumbers> domains = {};
};

struct CodedHead {
  int classes;
  std::vector<int8_t> weight;
  std::vector<float> multipliers, offsets;
};

struct CodedNetwork {
  std::vector<Shape> shapes;            // one per value
  std::vector<std::vector<int>> zeros;  // per value and domain; empty if it holds floats
  std::vector<CodedOperation> operations;
  std::vector<CodedHead> heads;  // one per domain
  std::vector<float> images;
  ptrdiff_t count;
};

}  // namespace prunus::test
