// The functions that every instruction set implements, as one table, and their arguments as plain data.
//
// A value is stored as planes, one per channel, `plane` floats apart. A plane holds its pixels row by row without gaps.
// Planes start at multiples of 16 floats (a block) and are an odd number of blocks apart, which spreads the planes of
// many channels over the cache. The floats between the last pixel of a plane and the end of its block are undefined.
// The memory before and after a value may be read, but its content is never used.
#pragma once
#include <cstddef>
#include <cstdint>

#include "stored_arrays.hpp"

namespace prunus {

constexpr int kBlock = 16;         // floats; planes are divided into blocks
constexpr ptrdiff_t kLine = 64;    // bytes of a cache line
constexpr int kMaxTaps = 9;        // shifted inputs that are held in registers at once
constexpr int kOutputBlock = 128;  // output channels whose sums are held in the L1 cache at once

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
  const float* scale;     // null means 1
  const float* bias;      // null means 0
  const float* residual;  // the planes to add, or null
  ptrdiff_t residual_plane;
  Activation activation;
  float slope;
};

// The shifted reads of a window. Tap t of pixel p is input[offset[t] + p] if its bit is set, otherwise 0.
struct Window {
  int taps;
  const ptrdiff_t* offset;
  const uint16_t* bits;  // [block][tap]
};

// A sparse convolution of any window, input by input. Kernels are listed by output block and input.
struct Direct {
  Window window;
  ptrdiff_t pixels;  // in a plane
  const float* input;
  ptrdiff_t channel;  // floats from one input channel to the next
  int inputs;
  const uint32_t* union_start;  // [inputs]: the first kept kernel of each input within the output block
  const uint32_t* start;        // [inputs + 1]: where the kernels of each input begin in `list`
  const uint16_t* list;  // the used kernels of each input: an output, plus 256 times an index among its kept kernels
  StoredFloats weights;  // [kernel][tap]
  const float* ones;     // a plane of ones, or null
  const float* ones_weights;  // [output of the block][tap]
  int outputs;                // in the block
  bool shared;                // other threads work on the same planes
  float* output;              // the first plane of the block
  ptrdiff_t output_plane;
  Epilogue epilogue;  // starts at the first output of the block
  float* sums;        // scratch: kOutputBlock x 3 blocks
  float* widened;     // scratch: kOutputBlock x kMaxTaps, plus one block
};

struct Depthwise {
  Window window;
  const float* input;    // one channel
  const float* weights;  // [tap]
  const float* ones;     // a plane of ones, or null
  const float* ones_weights;
  float* output;
  Epilogue epilogue;  // of this channel
};

// Selects the weights that a domain uses in some outputs of a 1x1 convolution, and the offsets of their inputs. A list
// belongs to one output and one span of inputs; a block consists of one or more spans. Kept weights are stored output
// by output. Selected weights are written block by block, in the order of their use.
struct Selection {
  int outputs, blocks;
  const uint16_t* block_spans;  // per block: its number of spans
  const uint32_t* union_start;  // [outputs][spans of all blocks], then the end
  ptrdiff_t all;                // number of kept weights in the layer
  StoredFloats weights;
  const uint8_t* columns;      // per kept weight: its input, relative to its span; null if union_bits is used instead
  Bits union_bits;             // per weight of the dense layer: whether it is kept
  ptrdiff_t inputs;            // of a group: the number of bits per output
  Bits used;                   // per kept weight: whether the domain uses it
  const uint32_t* span_first;  // per span: its first input; then the end
  int first_output, group_outputs, total_outputs;
  uint32_t channel;  // floats from one input to the next
  uint32_t* start;   // [blocks][outputs + 1]: where lists begin; the caller sets those of the first output
  float* kept;
  uint32_t* offsets;
};
constexpr int kSpan = 256;  // inputs that one byte can index

// A sparse 1x1 convolution: for each output and block of inputs, a list of weights and of the offsets of their inputs.
// Blocks of inputs keep the inputs of one tile in the L1 cache.
struct Pointwise {
  ptrdiff_t pixels;
  const float* input;
  int blocks;       // of inputs
  bool few_inputs;  // few enough that wider tiles fit the cache too
  bool divided;     // threads may divide the pixels, so no sum may depend on the tile that it is computed in
  int outputs;
  const uint32_t* start;  // [blocks][outputs + 1]
  const float* weights;
  const uint32_t* offsets;
  float* output;
  ptrdiff_t output_plane;
  Epilogue epilogue;
  float* sums;  // scratch: outputs x kPointwiseTile floats; used if there are several blocks
};
constexpr int kPointwiseTile = 96;
constexpr int kInputBlock = 96;

// A sparse 1x1 convolution whose weights come in fours, of four consecutive inputs each: for each four of inputs, the
// outputs of a chunk that use it.
struct Fours {
  ptrdiff_t pixels;
  const float* input;
  ptrdiff_t channel;      // floats from one input to the next
  int fours;              // of inputs
  const uint32_t* start;  // [fours + 1]: where the entries of a four begin in `list`
  const uint32_t* list;   // entries: an output of the chunk, plus kFoursOutputs times the index of its first weight
  const float* weights;   // of the chunk; those of a four in a row, among others
  const float* next;      // the weights of the next chunk of outputs
  ptrdiff_t next_floats;  // their number
  int outputs;            // in the chunk
  float* output;          // the first plane of the chunk
  ptrdiff_t output_plane;
  Epilogue epilogue;  // starts at the first output of the chunk
  float* sums;        // kFoursOutputs x kFoursTile blocks of zeros; they are zeros again afterwards
};
constexpr int kFoursOutputs = 64;      // of a chunk, whose sums stay in the L1 cache
constexpr int kFoursInputs = 1 << 20;  // for which entries fit 32 bits
constexpr ptrdiff_t kFoursTile = 5;    // blocks of pixels that are computed together, at most

// A dense 1x1 convolution with at least kRows outputs.
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
constexpr int kRows = 6;  // outputs that are computed together, called a panel

// A classifier: dot products of the features with rows of weights.
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
  const float* factors;  // per pixel: 1 / number of pixels that count; unused by max pooling
  float* output;
};

struct Elementwise {
  enum class Kind { affine, add, mul, mul_pixel } kind;
  const float* first;
  const float* second;  // the other plane; one float for mul_pixel; otherwise null
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

// Attention of one head. Channels of q, k and v are planes; a vector holds queries.
struct Attention {
  const float *q, *k, *v;
  ptrdiff_t q_plane, k_plane, v_plane;
  int queries, keys, dim, width;  // width: channels of v
  float scale;
  const float* bias;  // [key][query], or null
  ptrdiff_t bias_plane;
  const float* regions;  // per query, which are the keys too; null if no border is between them
  float apart;           // what is added between two regions
  float* output;
  ptrdiff_t output_plane;
  float* scores;  // scratch: keys x kAttentionTile
};
constexpr int kAttentionTile = 32;  // queries whose scores are stored at once

struct IntegerKernels;

struct Kernels {
  const char* name;
  const IntegerKernels* integers;
  void (*direct)(const Direct&, ptrdiff_t first_block, ptrdiff_t last_block);
  void (*depthwise)(const Depthwise&, ptrdiff_t first_block, ptrdiff_t last_block);
  void (*select)(const Selection&);
  void (*pointwise)(const Pointwise&, ptrdiff_t first_block, ptrdiff_t last_block);
  // Up to kFoursTile blocks.
  void (*fours)(const Fours&, ptrdiff_t first_block, ptrdiff_t last_block);
  void (*dense_pointwise)(const DensePointwise&, int first_panel, int last_panel, ptrdiff_t first_block,
                          ptrdiff_t last_block);
  void (*classify)(const Classifier&, int first_class, int last_class);
  void (*pool)(const Pooling&, ptrdiff_t blocks);
  void (*elementwise)(const Elementwise&, ptrdiff_t first_block, ptrdiff_t last_block);
  void (*layer_norm)(const LayerNorm&, ptrdiff_t first_block, ptrdiff_t last_block);
  void (*attention)(const Attention&);
  float (*sum)(const float* plane, ptrdiff_t count);
  void (*every_second)(const float* from, ptrdiff_t count, float* even, float* odd);
  void (*widen)(const uint16_t* from, Precision precision, float* to, ptrdiff_t count);
  bool (*copy_finite)(const float* from, float* to, ptrdiff_t count);  // returns whether all are finite
};

// Copy floats of any precision to float32.
inline void copy_wide(const Kernels& kernels, StoredFloats from, ptrdiff_t first, ptrdiff_t count, float* to) {
  if (from.precision != Precision::float32)
    kernels.widen(from.as_bits16() + first, from.precision, to, count);
  else if (count)
    std::memcpy(to, from.as_float32() + first, static_cast<size_t>(count) * sizeof(float));
}

// Some instruction sets differ in their kernels for codes only.
extern const Kernels portable_kernels;
extern const Kernels avx2_kernels, avxvnni_kernels;
extern const Kernels avx512_kernels, avx512vnni_kernels;
extern const Kernels neon_kernels, neondot_kernels;

}  // namespace prunus
