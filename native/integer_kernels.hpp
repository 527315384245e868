// The functions for 8-bit codes that every instruction set implements, as one table, and their arguments as plain data.
//
// Values are stored as lattice.hpp describes. Products are added in 32-bit lanes, one per position. A word of 32 bits
// holds the weights of `group` neighbouring taps or inputs, and a lane the codes that they multiply. Sums of integers
// are exact, and each operation on floats is rounded once, so every instruction set gives the same codes.
#pragma once
#include <cstddef>
#include <cstdint>

namespace prunus {

constexpr int kMaxGroup = 4;             // numbers in a word
constexpr int kMaxTile = 8;              // blocks of positions that are computed together, at most
constexpr ptrdiff_t kNearBytes = 24576;  // what may stay in the L1 cache beside what passes through it

// Turns sums into codes: rint(clamp(sum * multiplier + offset + residual * factor, low, high)), per output channel.
struct Finish {
  const float *multipliers, *offsets;
  const uint8_t* residual;  // the planes to add, or null
  ptrdiff_t residual_plane;
  float residual_factor, low, high;
  bool bounded;           // `high` is 255, and all numbers are below 2^31
  const uint8_t* pixels;  // of the lattice: padding receives `zero`
  uint8_t zero;
  uint8_t* output;
  ptrdiff_t plane;

  void start_at(ptrdiff_t channel) {
    multipliers += channel;
    offsets += channel;
    if (residual) residual += channel * residual_plane;
    output += channel * plane;
  }
};

// The reads of a window. Position p reads input[step * p + offset], for `group` offsets per word.
struct Words {
  int count;
  int step;                   // 1 or 2; 4 if the input consists of words
  const ptrdiff_t* offsets;   // [word][group]
  const uint8_t* neighbours;  // per word: whether its offsets follow each other
};

// A sparse convolution of any window, input by input. Kernels are listed by output block and input.
struct IntegerDirect {
  Words words;
  const uint8_t* input;
  ptrdiff_t channel;  // bytes from one input channel to the next
  int inputs;
  const uint32_t* union_start;  // [inputs]: the first kept kernel of each input within the output block
  const uint32_t* start;        // [inputs + 1]: where the kernels of each input begin in `list`
  const uint16_t* list;    // the used kernels of each input: an output, plus 256 times an index among its kept kernels
  const int32_t* weights;  // [kernel][word]
  const int32_t* first_sums;  // per output of the block, or null for 0
  int outputs;                // in the block
  int tile;                   // blocks that are computed together, at most
  Finish finish;              // starts at the first output of the block
  int32_t* sums;              // scratch: outputs x tile
};

struct IntegerDepthwise {
  Words words;
  const uint8_t* input;    // one channel
  const int32_t* weights;  // [word]
  int32_t first_sum;
  Finish finish;  // of this channel
};

// A sparse 1x1 convolution over words of inputs: for each output and block of inputs, a list of weights and words.
struct IntegerPointwise {
  const uint8_t* input;      // [word of inputs][position], four bytes each; or planes, if there are `offsets`
  ptrdiff_t row;             // bytes from one word of inputs to the next
  const ptrdiff_t* offsets;  // [word][kMaxGroup]: the planes to interleave tile by tile, or null
  int words;                 // of inputs
  uint8_t* interleaved;      // scratch: words x tile
  int blocks;                // of inputs
  int first_output, outputs, all_outputs;
  const uint16_t* order;      // [block][all_outputs]: the output of each list
  const uint32_t* start;      // [block][all_outputs + 1]
  const uint16_t* inputs;     // per weight: its word of inputs
  const int32_t* weights;     // `group` weights each
  const int32_t* first_sums;  // per output, or null for 0
  Finish finish;              // starts at output 0
  int32_t* sums;              // scratch: outputs x tile; used if there are several blocks
};

struct CodedElementwise {
  enum class Kind { affine, sum, product } kind;
  const uint8_t* first;
  const uint8_t* second;          // the other plane; one code if it `has_one_pixel`; null for affine
  bool has_one_pixel;             // of `second`
  float first_zero, second_zero;  // of a product
  float first_factor, second_factor, offset;
  float low, high;
  const uint8_t* pixels;
  uint8_t zero;
  uint8_t* output;
};

// One channel of a pool. Windows read the pixels inside the image only.
struct CodedPooling {
  int kernel[2], stride[2], top, left;
  int height, width, out_height, out_width;
  ptrdiff_t row, out_row;      // bytes from one row to the next
  ptrdiff_t plane, out_plane;  // bytes from one channel to the next
  int channels;
  const uint8_t* input;
  bool largest;
  // the rest is unused by max pooling
  int32_t zero;            // of the input
  const int32_t* columns;  // per output column: how many columns of the window are inside the image
  const float* factors;    // per output pixel
  float offset;
  uint8_t* output;
  ptrdiff_t end;     // of the blocks of the output's plane
  void* scratch;     // one number per column that windows read: bytes for max pooling, otherwise 32 bits
  ptrdiff_t length;  // the number of these columns
};

// Attention of one head over codes. The pixels of every plane are in one row, and planes have whole blocks.
struct IntegerAttention {
  const uint8_t *q, *k, *v;
  ptrdiff_t q_plane, k_plane, v_plane;
  int queries, keys, dim, width;
  int32_t q_zero, v_zero;
  float multiplier, factor;
  const float *bias, *borders;  // [key][row], one number per query; or null
  ptrdiff_t row;
  const uint8_t* pixels;  // of the output: padding receives `zero`
  uint8_t zero;
  uint8_t* output;
  ptrdiff_t output_plane;
  void* scratch;
};
constexpr ptrdiff_t kAttentionMost = 2;  // blocks of queries that are computed together

// The means of the planes of some channels. A result is the first code of a block, and padding follows it.
struct CodedMeans {
  const uint8_t* codes;
  ptrdiff_t plane, count;  // bytes from one channel to the next, and of whole blocks; padding holds `zero`
  int channels;
  int32_t zero;
  float factor, offset;
  uint8_t padding;
  uint8_t* output;
  ptrdiff_t output_plane;
};

using Spread = void (*)(const uint8_t* from, int step, ptrdiff_t blocks, const uint8_t* inside, uint8_t zero,
                        uint8_t* words);

struct IntegerKernels {
  int group;               // numbers per word: 4 of 8 bits or 2 of 16
  int offset;              // what is subtracted from each code before it is multiplied; first_sums make up for it
  int (*tile)(int words);  // blocks of a tile of windows
  int point_tile;          // blocks of a tile of 1x1 layers
  void (*direct)(const IntegerDirect&, ptrdiff_t first_block, ptrdiff_t last_block);
  void (*depthwise)(const IntegerDepthwise&, ptrdiff_t first_block, ptrdiff_t last_block);
  void (*pointwise)(const IntegerPointwise&, ptrdiff_t first_block, ptrdiff_t last_block);
  // Make words of neighbouring codes, for every code or every second one. Codes outside the image, where `inside` has
  // bytes of 0 instead of 255, become `zero`. Null if a block's words are not in order.
  Spread spread;
  // Interleave the planes at `group` offsets into words, for every code or every second one.
  void (*interleave)(const uint8_t* planes, const ptrdiff_t* offsets, int step, ptrdiff_t blocks, uint8_t* words);
  void (*attention)(const IntegerAttention&);
  void (*elementwise)(const CodedElementwise&, ptrdiff_t first_block, ptrdiff_t last_block);
  // `to` does not overlap with `from`.
  void (*look_up)(const uint8_t* table, const uint8_t* from, uint8_t* to, ptrdiff_t count);
  void (*pool)(const CodedPooling&);
  void (*quantize)(const float* from, float inverse_scale, float zero, uint8_t* to, ptrdiff_t count);
  void (*dequantize)(const uint8_t* from, float scale, float zero, float* to, ptrdiff_t count);
  void (*means)(const CodedMeans&);
  float (*logit)(const int8_t* weights, const uint8_t* codes, ptrdiff_t count, float multiplier, float offset);
};

extern const IntegerKernels portable_integers;
extern const IntegerKernels avx2_integers;
extern const IntegerKernels avxvnni_integers;
extern const IntegerKernels avx512_integers;
extern const IntegerKernels avx512vnni_integers;
extern const IntegerKernels neon_integers;
extern const IntegerKernels neondot_integers;

}  // namespace prunus
