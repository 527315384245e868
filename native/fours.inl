// Sparse 1x1 convolutions whose weights come in fours: of four consecutive inputs each.

// The sums of one output: N vectors, and half a vector if `Edge`.
template <int N, bool Edge>
constexpr ptrdiff_t kFoursRow = (N + Edge) * Vec::width;

// Add one four of inputs, which stays in registers, to the sums of all outputs that use it. So each sum is loaded and
// stored once per four multiply-adds, where reading inputs output by output takes a load for every one.
template <int N, bool Edge>
static inline void add_four(const Fours& j, ptrdiff_t four, const float* input) {
  const uint32_t begin = j.start[four], end = j.start[four + 1];
  if (begin == end) return;
  Vec x[4][N];
  HalfVec edge[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) x[i][n] = Vec::load(input + i * j.channel + n * Vec::width);
    if (Edge) edge[i] = HalfVec::load(input + i * j.channel + N * Vec::width);
  }
  const uint32_t* list = j.list;
  const float *next = input + 4 * j.channel, *all_weights = j.weights;
  float* all_sums = j.sums;
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++)
    __builtin_prefetch(next + i * j.channel);  // the processor itself asks for the lines after it
  for (uint32_t k = begin; k < end; k++) {
    float* sums = all_sums + list[k] % kFoursOutputs * kFoursRow<N, Edge>;
    const float* weights = all_weights + list[k] / kFoursOutputs;
    __builtin_prefetch(weights + 16);  // lists are too short for the hardware prefetcher
    Vec sum[N];
    HalfVec last = HalfVec::zero();
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) sum[n] = Vec::load(sums + n * Vec::width);
    if (Edge) last = HalfVec::load(sums + N * Vec::width);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      const Vec weight = Vec::all(weights[i]);
#pragma GCC unroll 8
      for (int n = 0; n < N; n++) sum[n] = Vec::fma(x[i][n], weight, sum[n]);
      if (Edge) last = HalfVec::fma(edge[i], lower_half(weight), last);
    }
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) sum[n].store(sums + n * Vec::width);
    if (Edge) last.store(sums + N * Vec::width);
  }
}

// Bring the weights of the next chunk of outputs into the L2 cache, a part with every four of inputs: a network has
// more weights than the cache holds. Every part has the same number of lines, so the processor foresees where it ends.
static inline void expect_weights(const float* next, ptrdiff_t lines) {
  for (ptrdiff_t i = 0; i < lines; i++) __builtin_prefetch(next + i * kBlock, 0, 2);
}

template <int N, bool Edge>
static void fours_tile(const Fours& j, ptrdiff_t position) {
  constexpr int all = N + Edge;  // half a vector ends in padding
  constexpr ptrdiff_t row = kFoursRow<N, Edge>;
  const ptrdiff_t each = j.next_floats / j.fours, lines = (each + kBlock - 1) / kBlock;
  for (ptrdiff_t four = 0; four < j.fours; four++) {
    expect_weights(j.next + four * each, lines);
    add_four<N, Edge>(j, four, j.input + 4 * four * j.channel + position);
  }
  for (ptrdiff_t o = 0; o < j.outputs; o++) {
    if (o + kAhead < j.outputs) expect_output<Vec, all>(j.epilogue, o + kAhead, position, j.output, j.output_plane);
    float* sums = j.sums + o * row;
    Vec x[all];
    for (int n = 0; n < all; n++) {
      x[n] = Vec::load(sums + n * Vec::width);
      Vec::zero().store(sums + n * Vec::width);
    }
    finish<Vec, all>(x, j.epilogue, o, position, j.output + o * j.output_plane + position);
  }
}

// Vectors of which four inputs fit the registers.
constexpr ptrdiff_t kFoursVectors = Vec::width == 8 ? 2 : 5;

template <int N = 1>
static inline void fours_tile_of(ptrdiff_t vectors, const Fours& j, ptrdiff_t position) {
  if constexpr (N <= kFoursVectors) {
    if (N < vectors) return fours_tile_of<N + 1>(vectors, j, position);
    if constexpr (N > 1 && HalfVec::width < Vec::width)
      if (fits_half_vector(position + (N - 1) * Vec::width, j.pixels)) return fours_tile<N - 1, true>(j, position);
    fours_tile<N, false>(j, position);
  }
}

// Tiles of about the same number of vectors.
static void fours(const Fours& j, ptrdiff_t first_block, ptrdiff_t last_block) {
  const ptrdiff_t vectors = (last_block - first_block) * kBlock / Vec::width,
                  tiles = (vectors + kFoursVectors - 1) / kFoursVectors;
  for (ptrdiff_t tile = 0; tile < tiles; tile++) {
    const ptrdiff_t begin = vectors * tile / tiles, end = vectors * (tile + 1) / tiles;
    fours_tile_of(end - begin, j, first_block * kBlock + begin * Vec::width);
  }
}
