// What every instruction set offers: one table of functions over plain data.
//
// A value lies in memory as planes, one per channel, `plane` floats apart; a plane holds its pixels row after row
// without gaps. Planes begin at 16-float boundaries and are an odd number of 16-float blocks apart, so that the planes
// of many channels spread over the cache. Behind the last pixel of a plane there is room up to the end of its block,
// whose content means nothing. Before and behind every value there is slack that may be read, never used.
#pragma once
#include <cstdint>

namespace prunus {

constexpr int kBlock = 16;      // floats; planes are divided into blocks
constexpr int kMaxTaps = 9;     // shifted inputs that are held in registers at once
constexpr int kOutputBlock = 128;  // at most so many output channels have their sums in the first-level cache

enum class Activation : int {
  none, relu, relu6, leaky_relu, elu, silu, gelu, gelu_tanh, mish, hard_swish, hard_sigmoid, sigmoid, tanh
};

// activation(scale * sum + bias + residual), per output channel
struct Epilogue {
  const float* scale;     // may be null: 1
  const float* bias;      // may be null: 0
  const float* residual;  // may be null; its planes
  long residual_plane;
  Activation activation;
  float slope;
};

// The shifted reads of a window: tap t of pixel p is input[offset[t] + p], where its bit is on, and 0 elsewhere.
struct Window {
  int taps;
  const long* offset;
  const uint16_t* bits;  // [block][tap]
};

// Sparse convolution of any window, input after input; kernels are listed by output block and input.
struct Direct {
  Window window;
  long pixels;  // of a plane
  const float* input;
  long channel;  // floats from one input channel to the next
  int inputs;
  const uint32_t* union_start;  // [inputs]: the first kept kernel of an input that belongs to the output block
  const uint16_t* union_output;  // of every kept kernel: its place within its output block
  const uint32_t* start;         // [inputs + 1]: the domain's part of `list`
  const uint16_t* list;          // which of an input's kept kernels the domain uses
  const float* weights;          // [kernel][tap]
  const float* ones;             // a plane of ones, or null
  const float* ones_weights;     // [output of the block][tap]
  int outputs;                   // of the block
  bool shared;                   // other threads work on the same planes
  float* output;                 // the block's first plane
  long output_plane;
  Epilogue epilogue;             // of the block's first output on
  float* sums;                   // scratch: kOutputBlock x 3 blocks
};

struct Depthwise {
  Window window;
  const float* input;   // one channel
  const float* weights;  // [tap]
  const float* ones;    // or null
  const float* ones_weights;
  float* output;
  Epilogue epilogue;    // of this channel
};

// Lists of kept weights and the columns of their inputs, of which a domain uses those whose bits are on. They are kept output
// after output, and found block after block, as they are used.
struct Selection {
  int outputs, blocks;
  const uint32_t* union_start;  // [outputs][blocks], and the end
  long all;                     // kept weights of the layer
  const float* weights;
  const uint16_t* columns;
  const uint16_t* bits;   // of every list, from a new word on
  uint32_t channel;       // floats from one input to the next
  const uint32_t* start;  // [blocks][outputs + 1]: where lists go; between blocks there is room for kBlock more
  float* kept;
  uint32_t* offsets;
};

// A 1x1 convolution: per output and block of inputs a list of weights and of the places of their inputs. Inputs are
// taken in blocks, so that those of one tile stay in the first-level cache.
struct Pointwise {
  long pixels;
  const float* input;
  int blocks;             // of inputs
  bool few_inputs;        // wider tiles fit the cache too
  int outputs;
  const uint32_t* start;  // [blocks][outputs + 1]
  const float* weights;
  const uint32_t* offsets;
  float* output;
  long output_plane;
  Epilogue epilogue;
  float* sums;            // scratch: outputs x kPointwiseTile floats, where there are several blocks
};
constexpr int kPointwiseTile = 96;
constexpr int kInputBlock = 96;

struct DensePointwise {
  long pixels;
  const float* input;
  long plane;
  int inputs;
  int outputs;
  const float* packed;  // [outputs / kRows, rounded up][input][kRows]
  float* output;
  long output_plane;
  Epilogue epilogue;
};
constexpr int kRows = 6;

// One pixel: dot products with rows of kept weights, zeros elsewhere, and a bit for each that the domain uses
struct Vectorwise {
  const float* input;  // [padded inputs], contiguous
  int blocks;          // of 16 inputs
  const float* rows;   // [output][padded inputs]
  const uint16_t* bits;  // [output][blocks], or null: all
  int outputs;
  float* output;
  long output_plane;
  Epilogue epilogue;
};

struct Pooling {
  Window window;
  bool largest;
  const float* input;    // one channel
  const float* factors;  // of a mean: 1 / pixels that count, per pixel
  float* output;
};

struct Elementwise {
  enum class Kind : int { affine, add, mul, mul_pixel } kind;
  const float* first;
  const float* second;  // the other plane, or one float for mul_pixel, or null
  float scale, bias;
  Activation activation;
  float slope;
  float* output;
};

struct LayerNorm {
  const float* input;
  long plane;
  int channels;
  const float* scale;
  const float* bias;
  float eps;
  float* output;
  long output_plane;
};

struct Kernels {
  const char* name;
  void (*direct)(const Direct&, long first_block, long last_block);
  void (*depthwise)(const Depthwise&, long first_block, long last_block);
  void (*select)(const Selection&);
  void (*pointwise)(const Pointwise&, long first_block, long last_block);
  void (*dense_pointwise)(const DensePointwise&, int first_panel, int last_panel, long first_block, long last_block);
  void (*vectorwise)(const Vectorwise&, int first_output, int last_output);
  void (*pool)(const Pooling&, long first_block, long last_block);
  void (*elementwise)(const Elementwise&, long first_block, long last_block);
  void (*layer_norm)(const LayerNorm&, long first_block, long last_block);
  float (*sum)(const float* plane, long count);
  void (*every_second)(const float* from, long count, float* even, float* odd);
};

const Kernels& portable_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
const Kernels& neon_kernels();

}  // namespace prunus
