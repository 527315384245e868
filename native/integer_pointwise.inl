// Sparse 1x1 convolutions over words of inputs, and the pass that makes these words.

template <int Step>
static inline void interleave_blocks(const uint8_t* planes, const ptrdiff_t* offsets, ptrdiff_t blocks,
                                     uint8_t* words) {
  for (ptrdiff_t position = 0; position < blocks * kBlock; position += kBlock) {
    Lanes x[kPerBlock];
    Lanes::combine<Step>(planes + Step * position, offsets, x);
    for (int i = 0; i < kPerBlock; i++) x[i].store_words(words + 4 * (position + i * Lanes::width));
  }
}

static void interleave(const uint8_t* planes, const ptrdiff_t* offsets, int step, ptrdiff_t blocks, uint8_t* words) {
  const auto of_step = step == 1 ? interleave_blocks<1> : interleave_blocks<2>;
  of_step(planes, offsets, blocks, words);
}

// The words of a tile, and the bytes from one to the next.
struct Tile {
  const uint8_t* words;
  ptrdiff_t row;
};

template <int B>
static inline Tile make_tile(const IntegerPointwise& j, ptrdiff_t position) {
  if (!j.offsets) return {j.input + 4 * position, j.row};
  constexpr ptrdiff_t row = 4 * B * kBlock;
  for (ptrdiff_t word = 0; word < j.words; word++) {
    const ptrdiff_t* later = j.offsets + (word + 2 < j.words ? word + 2 : word) * kMaxGroup;
    for (int g = 0; g < Lanes::group; g++) {  // another core may have made them
      __builtin_prefetch(j.input + position + later[g]);
      if (B * kBlock >= kLine / 2) __builtin_prefetch(j.input + position + later[g] + B * kBlock - 1);
    }
    interleave_blocks<1>(j.input + position, j.offsets + word * kMaxGroup, B, j.interleaved + word * row);
  }
  return {j.interleaved, row};
}

// Add one word of weights times its inputs to N vectors of positions.
template <int N>
static inline void add_word(const IntegerPointwise& j, const Tile& tile, uint32_t k, Lanes (&sums)[N]) {
  const typename Lanes::Weights w = Lanes::weights(j.weights + k);
  const uint8_t* x = tile.words + j.inputs[k] * tile.row;
#pragma GCC unroll 16
  for (int n = 0; n < N; n++) sums[n] = Lanes::dot(sums[n], Lanes::words(x + n * (Lanes::width * 4)), w);
}

// Short tiles have several chains of sums, which together hide the latency of an addition.
template <int N>
static inline void add_list(const IntegerPointwise& j, const Tile& tile, uint32_t k, uint32_t end, Lanes (&sums)[N]) {
  constexpr int chains = N >= 4 ? 1 : N >= 2 ? 2 : 4;
  if constexpr (chains > 1) {
    Lanes others[chains - 1][N];
    for (int c = 0; c + 1 < chains; c++)
      for (int n = 0; n < N; n++) others[c][n] = Lanes::all(0);
    for (; k + chains <= end; k += chains) {
      add_word<N>(j, tile, k, sums);
#pragma GCC unroll 4
      for (int c = 0; c + 1 < chains; c++) add_word<N>(j, tile, k + 1 + c, others[c]);
    }
    for (int c = 0; c + 1 < chains; c++)
      for (int n = 0; n < N; n++) sums[n] = sums[n] + others[c][n];
  }
  for (; k < end; k++) add_word<N>(j, tile, k, sums);
}

template <int B, class L>
static void pointwise_tile(const IntegerPointwise& job, ptrdiff_t position) {
  constexpr int n = B * kPerBlock;
  const IntegerPointwise j = job;  // a copy that stores of codes cannot change as far as the compiler knows
  const Finisher<L> finisher(j.finish);
  const Tile tile = make_tile<B>(j, position);
  for (int block = 0; block < j.blocks; block++) {
    const uint32_t* start = j.start + block * (ptrdiff_t{j.all_outputs} + 1) + j.first_output;
    const uint16_t* order = j.order + block * ptrdiff_t{j.all_outputs} + j.first_output;
    uint32_t next = start[0];
    for (ptrdiff_t i = 0; i < j.outputs; i++) {
      const ptrdiff_t o = order[i];
      int32_t* kept = j.sums + (o - j.first_output) * (B * kBlock);
      Lanes sums[n];
      if (block + 1 == j.blocks && i + kAhead < j.outputs) expect_output<B>(finisher.f, order[i + kAhead], position);
      const int32_t first_sum = j.first_sums ? j.first_sums[o] : 0;
#pragma GCC unroll 16
      for (int v = 0; v < n; v++) sums[v] = block ? Lanes::load(kept + v * Lanes::width) : Lanes::all(first_sum);
      const uint32_t first = next;
      next = start[i + 1];
      add_list<n>(j, tile, first, next, sums);
      if (block + 1 < j.blocks) {
#pragma GCC unroll 16
        for (int v = 0; v < n; v++) sums[v].store(kept + v * Lanes::width);
      } else {
        finish<B>(sums, finisher, o, position);
      }
    }
  }
}

template <class L, int B = 1>
static inline void pointwise_tile_of(ptrdiff_t blocks, const IntegerPointwise& j, ptrdiff_t position) {
  if constexpr (B <= Lanes::point_tile) {
    if (blocks == B) return pointwise_tile<B, L>(j, position);
    pointwise_tile_of<L, B + 1>(blocks, j, position);
  }
}

template <class L>
static void pointwise_within(const IntegerPointwise& j, ptrdiff_t first_block, ptrdiff_t last_block) {
  for_each_tile(first_block, last_block, Lanes::point_tile,
                [&](ptrdiff_t blocks, ptrdiff_t position) { pointwise_tile_of<L>(blocks, j, position); });
}

static void pointwise(const IntegerPointwise& j, ptrdiff_t first_block, ptrdiff_t last_block) {
  const auto within = j.finish.bounded ? pointwise_within<Block::FreeLimits> : pointwise_within<Block::Limits>;
  within(j, first_block, last_block);
}
