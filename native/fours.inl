// Sparse 1x1 convolutions whose weights come in fours: of four consecutive inputs each.

// Add one four of inputs, which stays in registers, to the sums of all outputs that use it. So each sum is loaded and
// stored once per four multiply-adds, where reading inputs output by output takes a load for every one.
template <int N>
static inline void add_four(const Fours& j, ptrdiff_t four, const float* input) {
  const uint32_t begin = j.start[four], end = j.start[four + 1], kept = j.union_start[four];
  if (begin == end) return;
  Vec x[4][N];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++)
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) x[i][n] = Vec::load(input + i * j.channel + n * Vec::width);
  const uint8_t* outputs = j.union_output + kept;
  const uint32_t* stored = j.stored + kept;
  const float* next = input + 4 * j.channel;
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++)
    for (int n = 0; n < N * Vec::width; n += kBlock) __builtin_prefetch(next + i * j.channel + n);
  for (uint32_t k = begin; k < end; k++) {
    const ptrdiff_t number = j.list[k];
    float* sums = j.sums + outputs[number] * (N * Vec::width);
    const float* weights = j.weights + ptrdiff_t{4} * stored[number];
    __builtin_prefetch(weights + 16);  // lists are too short for the hardware prefetcher
    Vec sum[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) sum[n] = Vec::load(sums + n * Vec::width);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      const Vec weight = Vec::all(weights[i]);
#pragma GCC unroll 8
      for (int n = 0; n < N; n++) sum[n] = Vec::fma(x[i][n], weight, sum[n]);
    }
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) sum[n].store(sums + n * Vec::width);
  }
}

template <int N>
static void fours_tile(const Fours& j, ptrdiff_t position) {
  constexpr ptrdiff_t tile = N * Vec::width;
  for (ptrdiff_t i = 0; i < j.outputs * tile; i += Vec::width) Vec::zero().store(j.sums + i);
  for (ptrdiff_t four = 0; four < j.fours; four++) add_four<N>(j, four, j.input + 4 * four * j.channel + position);
  for (ptrdiff_t o = 0; o < j.outputs; o++) {
    if (o + kAhead < j.outputs) expect_output<Vec, N>(j.epilogue, o + kAhead, position, j.output, j.output_plane);
    Vec x[N];
    for (int n = 0; n < N; n++) x[n] = Vec::load(j.sums + o * tile + n * Vec::width);
    finish<Vec, N>(x, j.epilogue, o, position, j.output + o * j.output_plane + position);
  }
}

// Tiles of about the same number of vectors; four inputs of each fit the registers.
static void fours(const Fours& j, ptrdiff_t first_block, ptrdiff_t last_block) {
  constexpr ptrdiff_t most = Vec::width == 8 ? 2 : 5;
  const ptrdiff_t vectors = (last_block - first_block) * kBlock / Vec::width, tiles = (vectors + most - 1) / most;
  for (ptrdiff_t tile = 0; tile < tiles; tile++) {
    const ptrdiff_t begin = vectors * tile / tiles, position = first_block * kBlock + begin * Vec::width;
    switch (vectors * (tile + 1) / tiles - begin) {
      case 1: fours_tile<1>(j, position); break;
      case 2: fours_tile<2>(j, position); break;
      case 3: fours_tile<most == 2 ? 2 : 3>(j, position); break;
      case 4: fours_tile<most == 2 ? 2 : 4>(j, position); break;
      default: fours_tile<most == 2 ? 2 : 5>(j, position);
    }
  }
}
