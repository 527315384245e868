// How kernels for codes begin and end: reading the words of a window; then scale, add, clamp, round, and padding.

constexpr int kPerBlock = kBlock / Lanes::width;  // vectors of a block

// Load the codes that one word of a window multiplies, for the block at p. Near: its offsets follow each other. A step
// of 4: they are words already.
template <int Step, bool Near, class L>
static inline void read_word(const ptrdiff_t* offsets, const uint8_t* p, L (&x)[kPerBlock]) {
  if constexpr (Step == 4) {
    for (int i = 0; i < kPerBlock; i++) x[i] = L::words(p + offsets[0] + i * (L::width * 4));
  } else if constexpr (Near && L::group == 4) {
    L::template spread<Step>(p + offsets[0], x);
  } else {
    L::template combine<Step>(p, offsets, x);
  }
}

// A copy of Finish that stores of codes cannot change as far as the compiler knows, so that it stays in registers.
template <class L>
struct Finisher {
  explicit Finisher(const Finish& finish)
      : f(finish), limits(f.low, f.high, f.zero), factor(Real::all(f.residual_factor)) {}
  const Finish f;
  const L limits;
  const Real factor;
};

// Store B blocks, up to four at a time if a block is a single vector.
template <int B, class AnyBlock, class L>
static inline void store_blocks(const Real (&x)[B][kPerBlock], const L& limits, uint8_t* to, const uint8_t* pixels) {
  constexpr int together = kPerBlock > 1 ? 1 : 4, rest = B % together;
  int b = 0;
  if constexpr (together > 1) {
    for (; b + together <= B; b += together)
      AnyBlock::template store_some<together>(x + b, limits, to + b * kBlock, pixels + b * kBlock);
    if constexpr (rest > 1) AnyBlock::template store_some<rest>(x + b, limits, to + b * kBlock, pixels + b * kBlock);
    if constexpr (rest > 1) return;
  }
  for (; b < B; b++) AnyBlock::store(x[b], limits, to + b * kBlock, pixels + b * kBlock);
}

// Finish the sums of one output channel for B blocks.
template <int B, class L>
static inline void finish(const Lanes (&sums)[B * kPerBlock], const Finisher<L>& all, ptrdiff_t channel,
                          ptrdiff_t position) {
  const Finish& f = all.f;
  const Real multiplier = Real::all(f.multipliers[channel]), offset = Real::all(f.offsets[channel]);
  Real x[B][kPerBlock];
#pragma GCC unroll 8
  for (int b = 0; b < B; b++) {
#pragma GCC unroll 4
    for (int i = 0; i < kPerBlock; i++) x[b][i] = Real::of(sums[b * kPerBlock + i]) * multiplier + offset;
    if (f.residual) {
      Real residual[kPerBlock];
      Block::load(f.residual + channel * f.residual_plane + position + b * kBlock, residual);
#pragma GCC unroll 4
      for (int i = 0; i < kPerBlock; i++) x[b][i] = x[b][i] + residual[i] * all.factor;
    }
  }
  store_blocks<B, Block>(x, all.limits, f.output + channel * f.plane + position, f.pixels + position);
}

// Ask for what a later output channel will read and write. Another core may have it, which takes long.
template <int B>
static inline void expect_output(const Finish& f, ptrdiff_t channel, ptrdiff_t position) {
  constexpr ptrdiff_t end = B * kBlock - 1;
  const uint8_t* to = f.output + channel * f.plane + position;
  __builtin_prefetch(to, 1);
  if (end >= kLine / 2) __builtin_prefetch(to + end, 1);
  if (!f.residual) return;
  const uint8_t* residual = f.residual + channel * f.residual_plane + position;
  __builtin_prefetch(residual);
  if (end >= kLine / 2) __builtin_prefetch(residual + end);
}
constexpr ptrdiff_t kAhead = 8;  // channels to ask for ahead

// Call tile(blocks, position) for tiles of nearly equal size, none larger than `most` blocks.
template <class Tile>
static inline void for_each_tile(ptrdiff_t first_block, ptrdiff_t last_block, ptrdiff_t most, Tile tile) {
  while (first_block < last_block) {
    const ptrdiff_t left = last_block - first_block, tiles = (left + most - 1) / most,
                    size = (left + tiles - 1) / tiles;
    tile(size, first_block * kBlock);
    first_block += size;
  }
}
