// What every instruction set offers: one table of functions over plain data.
//
// A value lies in memory as planes, one per channel, `plane` floats apart; a plane holds its pixels row after row
// without gaps. Planes begin at 16-float boundaries and are an odd number of 16-float blocks apart, so that the planes
// of many channels spread over the cache. Behind the last pixel of a plane there is room up to the end of its block,
// whose content means nothing. Before and behind every value there is something that may be read, never used.
#pragma once
#include <cstddef>
#include <cstdint>

#include "stored_arrays.hpp"

namespace prunus {

constexpr int kBlock = 16;         // floats; planes are divided into blocks
constexpr int kMaxTaps = 9;        // shifted inputs that are held in registers at once
constexpr int kOutputBlock = 128;  // at most so many output channels have their sums in the first-level cache

enum class Activation {
  none,
  relu,
  relu6,
  leaky_relu,
  elu,
  silu,
  gelu,
  gelu_tanh,
  mish,
  hard_swish,
  hard_sigmoid,
  sigmoid,
  tanh
};

// activation(scale * sum + bias + residual), per output channel
struct Epilogue {
  const float* scale;     // may be null: 1
  const float* bias;      // may be null: 0
  const float* residual;  // may be null; its planes
  ptrdiff_t residual_plane;
  Activation activation;
  float slope;
};

// The shifted reads of a window: tap t of pixel p is input[offset[t] + p], where its bit is on, and 0 elsewhere.
struct Window {
  int taps;
  const ptrdiff_t* offset;
  const uint16_t* bits;  // [block][tap]
};

// Sparse convolution of any window, input after input; kernels are listed by output block and input.
struct Direct {
  Window window;
  ptrdiff_t pixels;  // of a plane
  const float* input;
  ptrdiff_t channel;  // floats from one input channel to the next
  int inputs;
  const uint32_t* union_start;  // [inputs]: the first kept kernel of an input that belongs to the output block
  const uint8_t* union_output;  // of every kept kernel: its place within its output block
  const uint32_t* start;        // [inputs + 1]: the domain's part of `list`
  const uint8_t* list;          // which of an input's kept kernels the domain uses
  StoredFloats weights;         // [kernel][tap]
  const float* ones;            // a plane of ones, or null
  const float* ones_weights;    // [output of the block][tap]
  int outputs;                  // of the block
  bool shared;                  // other threads work on the same planes
  float* output;                // the block's first plane
  ptrdiff_t output_plane;
  Epilogue epilogue;  // of the block's first output on
  float* sums;        // scratch: kOutputBlock x 3 blocks
  float* widened;     // scratch: kOutputBlock x kMaxTaps, and a block
};

struct Depthwise {
  Window window;
  const float* input;    // one channel
  const float* weights;  // [tap]
  const float* ones;     // or null
  const float* ones_weights;
  float* output;
  Epilogue epilogue;  // of this channel
};

// Lists of kept weights and the columns of their inputs, of which a domain uses those whose bits are on. A list is of
// one output and one span of inputs; they are kept output after output, and found block after block, as they are used.
// A block is some spans.
struct Selection {
  int outputs, blocks;
  const uint16_t* block_spans;  // of every block: how many spans it has
  const uint32_t* union_start;  // [outputs][spans of all blocks], and the end
  ptrdiff_t all;                // kept weights of the layer
  StoredFloats weights;
  const uint8_t* columns;      // of every kept weight: its input, counted from its span's first; null: see union_bits
  Bits union_bits;             // of every weight: is it kept
  ptrdiff_t inputs;            // of a group: so many bits has an output
  Bits used;                   // of every kept weight
  const uint32_t* span_first;  // of every span: its first input, and the end
  int first_output, group_outputs, total_outputs;
  uint32_t channel;  // floats from one input to the next
  uint32_t* start;   // [blocks][outputs + 1]: where lists begin; those of the first output are given, others found
  float* kept;
  uint32_t* offsets;
};
constexpr int kSpan = 256;  // inputs that one byte counts

// A 1x1 convolution: per output and block of inputs a list of weights and of the places of their inputs. Inputs are
// taken in blocks, so that those of one tile stay in the first-level cache.
struct Pointwise {
  ptrdiff_t pixels;
  const float* input;
  int blocks;       // of inputs
  bool few_inputs;  // wider tiles fit the cache too
  int outputs;
  const uint32_t* start;  // [blocks][outputs + 1]
  const float* weights;
  const uint32_t* offsets;
  float* output;
  ptrdiff_t output_plane;
  Epilogue epilogue;
  float* sums;  // scratch: outputs x kPointwiseTile floats, where there are several blocks
};
constexpr int kPointwiseTile = 96;
constexpr int kInputBlock = 96;

// A 1x1 convolution with all weights; it has kRows outputs at least.
struct DensePointwise {
  ptrdiff_t pixels;
  const float* input;
  ptrdiff_t plane;
  int inputs;
  int outputs;
  const float* weights;  // [output][input]
  float* output;
  ptrdiff_t output_plane;
  Epilogue epilogue;
};
constexpr int kRows = 6;  // outputs that are computed together: a panel

// A classifier: dot products with rows of weights
struct Classifier {
  const float* features;  // [padded], contiguous
  int blocks;             // of 16 features
  const float* rows;      // [class][padded]
  const float* bias;
  float* logits;
};

struct Pooling {
  Window window;
  bool largest;
  const float* input;    // one channel
  const float* factors;  // of a mean: 1 / pixels that count, per pixel
  float* output;
};

struct Elementwise {
  enum class Kind { affine, add, mul, mul_pixel } kind;
  const float* first;
  const float* second;  // the other plane, or one float for mul_pixel, or null
  float scale, bias;
  Activation activation;
  float slope;
  float* output;
};

struct LayerNorm {
  const float* input;
  ptrdiff_t plane;
  int channels;
  const float* scale;
  const float* bias;
  float eps;
  float* output;
  ptrdiff_t output_plane;
};

struct Kernels {
  const char* name;
  void (*direct)(const Direct&, ptrdiff_t first_block, ptrdiff_t last_block);
  void (*depthwise)(const Depthwise&, ptrdiff_t first_block, ptrdiff_t last_block);
  void (*select)(const Selection&);
  void (*pointwise)(const Pointwise&, ptrdiff_t first_block, ptrdiff_t last_block);
  void (*dense_pointwise)(const DensePointwise&, int first_panel, int last_panel, ptrdiff_t first_block,
                          ptrdiff_t last_block);
  void (*classify)(const Classifier&, int first_class, int last_class);
  void (*pool)(const Pooling&, ptrdiff_t blocks);
  void (*elementwise)(const Elementwise&, ptrdiff_t first_block, ptrdiff_t last_block);
  void (*layer_norm)(const LayerNorm&, ptrdiff_t first_block, ptrdiff_t last_block);
  float (*sum)(const float* plane, ptrdiff_t count);
  void (*every_second)(const float* from, ptrdiff_t count, float* even, float* odd);
  void (*widen)(const uint16_t* from, Precision precision, float* to, ptrdiff_t count);
};

// Copy numbers of any precision.
inline void copy_wide(const Kernels& kernels, StoredFloats from, ptrdiff_t first, ptrdiff_t count, float* to) {
  if (from.precision != Precision::float32)
    kernels.widen(from.as_bits16() + first, from.precision, to, count);
  else if (count)
    std::memcpy(to, from.as_float32() + first, static_cast<size_t>(count) * sizeof(float));
}

const Kernels& portable_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
const Kernels& neon_kernels();

}  // namespace prunus
