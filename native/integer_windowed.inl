// Convolutions of windows over codes: direct and depthwise.

// For T words of the window, beginning with `first`: go through the inputs, load these words of a tile into registers,
// and let each used kernel of the input add to its output.
template <int T, int B, int Step, bool Near>
static void accumulate(const IntegerDirect& d, int first, ptrdiff_t position) {
  const ptrdiff_t row = d.words.count, inputs = d.inputs, channel = d.channel;
  const ptrdiff_t* offsets = d.words.offsets + first * Lanes::group;
  const uint32_t *start = d.start, *union_start = d.union_start;
  const uint16_t* list = d.list + start[0];
  const int32_t* all_weights = d.weights + first;
  int32_t* sums = d.sums;
  const uint8_t* tile = d.input + Step * position;
  for (ptrdiff_t i = 0; i < inputs; i++, tile += channel) {
    const uint16_t* end = d.list + start[i + 1];
    if (list == end) continue;
    const int32_t* weights = all_weights + union_start[i] * row;
    const int32_t* next = all_weights + union_start[i + 1 < inputs ? i + 1 : i] * row;  // elsewhere in memory
    Lanes x[T][B][kPerBlock];
#pragma GCC unroll 8
    for (int t = 0; t < T; t++) {  // another core may have made the inputs
      const uint8_t* later = tile + kAhead * channel + offsets[t * Lanes::group];
      __builtin_prefetch(later);
      if (B * kBlock * Step >= kLine / 2) __builtin_prefetch(later + B * kBlock * Step);
    }
#pragma GCC unroll 8
    for (int t = 0; t < T; t++)
#pragma GCC unroll 8
      for (int b = 0; b < B; b++)
        read_word<Step, Near>(offsets + t * Lanes::group, tile + b * (kBlock * Step), x[t][b]);
    do {
      const ptrdiff_t kernel = *list >> 8, output = *list & 0xff;
      list++;
      const int32_t* w = weights + kernel * row;
      __builtin_prefetch(next + kernel * row);
      int32_t* sum = sums + output * static_cast<ptrdiff_t>(B * kBlock);
      Lanes s[B][kPerBlock];
#pragma GCC unroll 8
      for (int b = 0; b < B; b++)
#pragma GCC unroll 4
        for (int v = 0; v < kPerBlock; v++) s[b][v] = Lanes::load(sum + b * kBlock + v * Lanes::width);
#pragma GCC unroll 8
      for (int t = 0; t < T; t++) {
        const typename Lanes::Weights word = Lanes::weights(w + t);
#pragma GCC unroll 8
        for (int b = 0; b < B; b++)
#pragma GCC unroll 4
          for (int v = 0; v < kPerBlock; v++) s[b][v] = Lanes::dot(s[b][v], x[t][b][v], word);
      }
#pragma GCC unroll 8
      for (int b = 0; b < B; b++)
#pragma GCC unroll 4
        for (int v = 0; v < kPerBlock; v++) s[b][v].store(sum + b * kBlock + v * Lanes::width);
    } while (list != end);
  }
}

constexpr bool in_order = kPerBlock == 1 && Lanes::group == 4;  // the words of a block of neighbours

template <class L>  // a template, because only lanes in order have `where`
static void spread(const uint8_t* from, int step, ptrdiff_t blocks, const uint8_t* inside, uint8_t zero,
                   uint8_t* words) {
  if constexpr (in_order) {
    const ptrdiff_t neighbours[kMaxGroup] = {0, 1, 2, 3};
    const L outside = L::all(static_cast<int32_t>(0x01010101u * zero));
    for (ptrdiff_t position = 0; position < blocks * kBlock; position += kBlock) {
      L x[kPerBlock];
      if (step == 1) {
        read_word<1, true>(neighbours, from + position, x);
      } else {
        read_word<2, true>(neighbours, from + 2 * position, x);
      }
      x[0].where(L::words(inside + 4 * position), outside).store_words(words + 4 * position);
    }
  }
}

using Accumulate = void (*)(const IntegerDirect&, int, ptrdiff_t);

template <int T, int B>
static inline Accumulate accumulate_from(int step, bool near) {
  constexpr bool can_be_near = Lanes::group == 4;  // otherwise there are no words of neighbours
  if constexpr (in_order)
    if (step == 4) return accumulate<T, B, 4, true>;
  if (near) return step == 1 ? accumulate<T, B, 1, can_be_near> : accumulate<T, B, 2, can_be_near>;
  return step == 1 ? accumulate<T, B, 1, false> : accumulate<T, B, 2, false>;
}

template <int B, int T = 1>
static inline Accumulate accumulate_words(int words, int step, bool near) {
  if constexpr (B <= Lanes::tile(T) && T <= Lanes::max_words) {
    return words == T ? accumulate_from<T, B>(step, near) : accumulate_words<B, T + 1>(words, step, near);
  }
  return nullptr;
}

static inline bool are_near(const Words& words, int first, int count) {
  for (int w = first; w < first + count; w++)
    if (!words.neighbours[w]) return false;
  return true;
}

template <int B, class L>
static void direct_tile(const IntegerDirect& d, ptrdiff_t position, bool is_first, bool is_last) {
  constexpr ptrdiff_t tile = B * kBlock;
  const ptrdiff_t outputs = d.outputs;
  const int32_t* first_sums = d.first_sums;
  int32_t* all_sums = d.sums;
  const auto begin = [&](ptrdiff_t o) {
    const Lanes first_sum = Lanes::all(first_sums ? first_sums[o] : 0);
    for (ptrdiff_t i = 0; i < tile; i += Lanes::width) first_sum.store(all_sums + o * tile + i);
  };
  for (ptrdiff_t o = 0; is_first && o < outputs; o++) begin(o);
  const int parts = (d.words.count + Lanes::max_words - 1) / Lanes::max_words;
  for (int part = 0; part < parts; part++) {  // large windows: some words at a time
    const int first = d.words.count * part / parts, some = d.words.count * (part + 1) / parts - first;
    accumulate_words<B>(some, d.words.step, are_near(d.words, first, some))(d, first, position);
  }
  const Finisher<L> finisher(d.finish);
  for (ptrdiff_t o = 0; o < outputs; o++) {
    expect_output<B>(finisher.f, o + kAhead, position);
    Lanes x[B * kPerBlock];
#pragma GCC unroll 16
    for (int i = 0; i < B * kPerBlock; i++) x[i] = Lanes::load(all_sums + o * tile + i * Lanes::width);
    if (!is_last) begin(o);  // of the next tile: these stores cost nothing beside the arithmetic
    finish<B>(x, finisher, o, position);
  }
}

template <class L, int B = 1>
static inline void direct_tile_of(ptrdiff_t blocks, const IntegerDirect& d, ptrdiff_t position, bool is_first,
                                  bool is_last) {
  if constexpr (B <= Lanes::tile(1)) {
    if (blocks == B) return direct_tile<B, L>(d, position, is_first, is_last);
    direct_tile_of<L, B + 1>(blocks, d, position, is_first, is_last);
  }
}

static int window_tile(int words) { return Lanes::tile(words < Lanes::max_words ? words : Lanes::max_words); }

template <class L>
static void direct_within(const IntegerDirect& d, ptrdiff_t first_block, ptrdiff_t last_block) {
  ptrdiff_t begun = 0;  // blocks of the tile for which the sums are ready
  for_each_tile(first_block, last_block, d.tile, [&](ptrdiff_t blocks, ptrdiff_t position) {
    direct_tile_of<L>(blocks, d, position, blocks != begun, position / kBlock + blocks == last_block);
    begun = blocks;
  });
}

static void direct(const IntegerDirect& d, ptrdiff_t first_block, ptrdiff_t last_block) {
  const auto within = d.finish.bounded ? direct_within<Block::FreeLimits> : direct_within<Block::Limits>;
  within(d, first_block, last_block);
}

template <int B, int Step, bool Near>
static inline void depthwise_tile(const IntegerDepthwise& d, const Finisher<Block::Limits>& finisher,
                                  ptrdiff_t position) {
  Lanes sums[B * kPerBlock];
  for (int i = 0; i < B * kPerBlock; i++) sums[i] = Lanes::all(d.first_sum);
  for (int t = 0; t < d.words.count; t++) {
    const typename Lanes::Weights w = Lanes::weights(d.weights + t);
    const uint8_t* tile = d.input + Step * position;
#pragma GCC unroll 4
    for (int b = 0; b < B; b++) {
      Lanes x[kPerBlock];
      read_word<Step, Near>(d.words.offsets + t * Lanes::group, tile + b * (kBlock * Step), x);
#pragma GCC unroll 4
      for (int i = 0; i < kPerBlock; i++) sums[b * kPerBlock + i] = Lanes::dot(sums[b * kPerBlock + i], x[i], w);
    }
  }
  finish<B>(sums, finisher, 0, position);
}

template <int Step, bool Near>
static void depthwise_blocks(const IntegerDepthwise& d, ptrdiff_t first_block, ptrdiff_t last_block) {
  constexpr int many = kPerBlock == 1 ? 4 : 2;
  const Finisher<Block::Limits> finisher(d.finish);
  ptrdiff_t block = first_block;
  for (; block + many <= last_block; block += many) depthwise_tile<many, Step, Near>(d, finisher, block * kBlock);
  for (; block < last_block; block++) depthwise_tile<1, Step, Near>(d, finisher, block * kBlock);
}

static void depthwise(const IntegerDepthwise& d, ptrdiff_t first_block, ptrdiff_t last_block) {
  const bool near = are_near(d.words, 0, d.words.count), steps = d.words.step == 2;
  const auto blocks = near ? (steps ? depthwise_blocks<2, true> : depthwise_blocks<1, true>)
                           : (steps ? depthwise_blocks<2, false> : depthwise_blocks<1, false>);
  blocks(d, first_block, last_block);
}
