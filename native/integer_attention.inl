// Attention of one head over codes: queries in the lanes, as in attention.inl. Both products are sums of integers; the
// weights between them are codes from 0 to 255, and their sums divide the result.

constexpr int kAttentionBlocks = kPerBlock == 1 ? 2 : 1;               // of queries that are computed together
constexpr int kAttentionRows = kPerBlock == 1 ? 6 : Lanes::max_words;  // whose sums fit the registers
constexpr int32_t kHalf = 128;                                         // makes codes signed

// Where the parts of the scratch memory of a head begin.
struct AttentionRoom {
  int32_t *key_words, *key_sums;         // [word of channels][key], and what the scores of each key begin with
  int32_t *value_words, *value_sums;     // [channel][word of keys], and their sums
  uint8_t *query_words, *weight_words;   // [word][vector] of the current queries
  float* scores;                         // [key][vector]
  ptrdiff_t keys, channel_words, words;  // keys in whole blocks; words of channels and of keys

  explicit AttentionRoom(const IntegerAttention& j)
      : keys((j.keys + kBlock - 1) / kBlock * kBlock),
        channel_words((j.dim + Lanes::group - 1) / Lanes::group),
        words((j.keys + Lanes::group - 1) / Lanes::group) {
    constexpr ptrdiff_t vectors = kAttentionBlocks * kBlock;  // numbers of 32 bits for the queries of a tile
    static_assert(kAttentionBlocks <= kAttentionMost);
    int32_t* next = static_cast<int32_t*>(j.scratch);
    const auto take = [&next](ptrdiff_t numbers) {
      int32_t* begin = next;
      next += (numbers + kBlock - 1) / kBlock * kBlock;
      return begin;
    };
    scores = reinterpret_cast<float*>(take(j.keys * vectors));
    query_words = reinterpret_cast<uint8_t*>(take(channel_words * vectors));
    weight_words = reinterpret_cast<uint8_t*>(take(words * vectors));
    key_words = take(channel_words * keys);
    key_sums = take(keys);
    value_words = take(j.width * words);
    value_sums = take(j.width);
  }
};

// A word of weights with a number in each of its first `count` places.
static inline int32_t word_of(int32_t number, int count) {
  constexpr int bits = 32 / Lanes::group;
  uint32_t word = 0;
  for (int g = 0; g < count; g++) word |= (static_cast<uint32_t>(number) & ((1ull << bits) - 1)) << (bits * g);
  return static_cast<int32_t>(word);
}

static inline int places_used(int word, int numbers) {
  const int left = numbers - word * Lanes::group;
  return left < Lanes::group ? left : Lanes::group;
}

// The planes of the channels of a word; a missing channel repeats the last.
static inline void offsets_of(int word, int channels, ptrdiff_t plane, ptrdiff_t (&offsets)[kMaxGroup]) {
  for (int g = 0; g < kMaxGroup; g++) {
    const int channel = word * Lanes::group + g;
    offsets[g] = (channel < channels ? channel : channels - 1) * plane;
  }
}

// Store a block of words in the order of their positions.
static inline void store_in_order(const Lanes (&x)[kPerBlock], int32_t* to) {
  if constexpr (kPerBlock == 1) {
    x[0].store(to);
  } else {
    alignas(64) static const float counting[kBlock] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    float positions[kBlock];
    int32_t words[kBlock];
    Real position[kPerBlock];
    Block::load(counting, position);
    for (int i = 0; i < kPerBlock; i++) {
      position[i].store(positions + i * Lanes::width);
      x[i].store(words + i * Lanes::width);
    }
    for (int i = 0; i < kBlock; i++) to[static_cast<int>(positions[i])] = words[i];
  }
}

// Make the words of all keys: their channels minus 128. A score begins with what makes up for the zero of queries.
static inline void prepare_keys(const IntegerAttention& j, const AttentionRoom& room) {
  const Lanes first = Lanes::all((Lanes::offset - kHalf) * j.dim);
  for (ptrdiff_t key = 0; key < room.keys; key += kBlock) {
    Lanes sums[kPerBlock];
    for (Lanes& sum : sums) sum = first;
    for (int word = 0; word < room.channel_words; word++) {
      const int used = places_used(word, j.dim);
      const int32_t ones = word_of(1, used), all = word_of(-1, used);
      ptrdiff_t offsets[kMaxGroup];
      offsets_of(word, j.dim, j.k_plane, offsets);
      Lanes x[kPerBlock];
      Lanes::combine<1>(j.k + key, offsets, x);
      for (int i = 0; i < kPerBlock; i++) {
        sums[i] = Lanes::dot(sums[i], x[i], Lanes::weights(&ones));
        x[i] = x[i].as_weights() & Lanes::all(all);
      }
      store_in_order(x, room.key_words + word * room.keys + key);
    }
    for (Lanes& sum : sums) sum = sum * Lanes::all(Lanes::offset - j.q_zero);
    store_in_order(sums, room.key_sums + key);
  }
}

static inline int32_t word_of_values(const uint8_t* v) {
  uint32_t word = 0;
  if constexpr (Lanes::group == 4) {
    std::memcpy(&word, v, sizeof word);
    word ^= 0x80808080u;
  } else {
    for (int g = 0; g < Lanes::group; g++)
      word |= (static_cast<uint32_t>(v[g] - kHalf) & 0xffffu) << (32 / Lanes::group * g);
  }
  return static_cast<int32_t>(word);
}

// Make the words of all values: minus 128, and 0 after the last.
static inline void prepare_values(const IntegerAttention& j, const AttentionRoom& room) {
  for (ptrdiff_t channel = 0; channel < j.width; channel++) {
    const uint8_t* v = j.v + channel * j.v_plane;
    int32_t* words = room.value_words + channel * room.words;
    for (ptrdiff_t word = 0; word < room.words; word++) words[word] = word_of_values(v + word * Lanes::group);
    const int last = static_cast<int>(room.words) - 1;
    words[last] &= word_of(-1, places_used(last, j.keys));
    int32_t sum = 0;
    for (int key = 0; key < j.keys && Lanes::offset; key++) sum += v[key] - kHalf;
    room.value_sums[channel] = sum;
  }
}

template <int N>
static inline void prepare_queries(const IntegerAttention& j, const AttentionRoom& room, ptrdiff_t position) {
  constexpr int blocks = N / kPerBlock;
  for (int word = 0; word < room.channel_words; word++) {
    ptrdiff_t offsets[kMaxGroup];
    offsets_of(word, j.dim, j.q_plane, offsets);
    for (int b = 0; b < blocks; b++) {
      Lanes x[kPerBlock];
      Lanes::combine<1>(j.q + position + b * kBlock, offsets, x);
      for (int i = 0; i < kPerBlock; i++)
        x[i].store_words(room.query_words + 4 * (word * N + b * kPerBlock + i) * Lanes::width);
    }
  }
}

// Add the products of R rows of weights with N vectors of words to `sums`, and hand them on; `row` is from one row to
// the next, and `next` from one word to the next.
template <int R, int N, class Begin, class End>
static inline void multiply(const int32_t* weights, ptrdiff_t row, ptrdiff_t next, const uint8_t* words,
                            ptrdiff_t count, Begin begin, End end) {
  Lanes sums[R][N];
#pragma GCC unroll 16
  for (int r = 0; r < R; r++)
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) sums[r][n] = begin(r, n);
  for (ptrdiff_t word = 0; word < count; word++, weights += next, words += 4 * N * Lanes::width) {
    Lanes x[N];
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) x[n] = Lanes::words(words + 4 * n * Lanes::width);
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
      const typename Lanes::Weights w = Lanes::weights(weights + r * row);
#pragma GCC unroll 4
      for (int n = 0; n < N; n++) sums[r][n] = Lanes::dot_codes(sums[r][n], x[n], w);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; r++) end(r, sums[r]);
}

// Add a row of numbers, one per query in order of position.
template <int N>
static inline void add_row(const float* row, Real (&x)[N]) {
  for (int b = 0; b < N / kPerBlock; b++) {
    Real more[kPerBlock];
    Block::load(row + b * kBlock, more);
    for (int i = 0; i < kPerBlock; i++) x[b * kPerBlock + i] = x[b * kPerBlock + i] + more[i];
  }
}

// The scores of R keys from `key` on.
template <int R, int N>
static inline void code_scores(const IntegerAttention& j, const AttentionRoom& room, ptrdiff_t key, ptrdiff_t position,
                               Real (&most)[N]) {
  const Real multiplier = Real::all(j.multiplier);
  const auto begin = [&](int r, int) { return Lanes::all(room.key_sums[key + r]); };
  const auto end = [&](int r, const Lanes(&sums)[N]) {
    Real x[N];
    for (int n = 0; n < N; n++) x[n] = Real::of(sums[n]) * multiplier;
    if (j.bias) add_row(j.bias + (key + r) * j.row + position, x);
    if (j.borders) add_row(j.borders + (key + r) * j.row + position, x);
    for (int n = 0; n < N; n++) {
      most[n] = Real::max(most[n], x[n]);
      x[n].store(room.scores + ((key + r) * N + n) * Lanes::width);
    }
  };
  multiply<R, N>(room.key_words + key, 1, room.keys, room.query_words, room.channel_words, begin, end);
}

// rint(255 * 2^x) for x of at most 0: 2^x is a whole power of two times a polynomial of the rest.
static inline Lanes power_code(Real x) {
  constexpr int32_t large_bits = 0x4b400000, bits_of_255 = 0x437f0000;
  const Real large = Real::all(12582912.0f);  // 1.5 * 2^23: adding it rounds to whole numbers, ties to even
  x = Real::max(x, Real::all(-16.0f));
  const Real shifted = x + large, rest = x - (shifted - large);
  Real power = Real::all(0x1.3b2ab6p-7f);
  constexpr float terms[] = {0x1.c6b08ep-5f, 0x1.ebfbep-3f, 0x1.62e43p-1f, 1.0f};  // ln(2)^k / k! for k = 3, 2, 1, 0
  for (float term : terms) power = power * rest + Real::all(term);
  const Real scale = Real::of_bits(Lanes::all(bits_of_255) + shifted.bits().template shifted<23>());
  return (power * scale + large).bits() + Lanes::all(-large_bits);
}

// Turn the scores into weights; return the sums of each query's.
template <int N>
static inline void weigh(const IntegerAttention& j, const AttentionRoom& room, const Real (&most)[N],
                         Lanes (&totals)[N]) {
  for (Lanes& total : totals) total = Lanes::all(0);
  for (ptrdiff_t word = 0; word < room.words; word++)
    for (int n = 0; n < N; n++) {
      Lanes codes[Lanes::group];
#pragma GCC unroll 4
      for (int g = 0; g < Lanes::group; g++) {
        const ptrdiff_t key = word * Lanes::group + g;
        codes[g] = Lanes::all(0);
        if (key < j.keys) codes[g] = power_code(Real::load(room.scores + (key * N + n) * Lanes::width) - most[n]);
        totals[n] = totals[n] + codes[g];
      }
      Lanes::packed(codes).store_words(room.weight_words + 4 * (word * N + n) * Lanes::width);
    }
}

// R channels of the result from `channel` on.
template <int R, int N>
static inline void code_means(const IntegerAttention& j, const AttentionRoom& room, ptrdiff_t channel,
                              ptrdiff_t position, const Lanes (&shifts)[N], const Real (&factors)[N]) {
  const Block::Limits limits(0, 255, j.zero);
  const Real offset = Real::all(static_cast<float>(j.zero));
  const auto begin = [&](int r, int n) { return shifts[n] + Lanes::all(Lanes::offset * room.value_sums[channel + r]); };
  const auto end = [&](ptrdiff_t r, const Lanes(&sums)[N]) {
    Real x[N / kPerBlock][kPerBlock];
    for (int n = 0; n < N; n++) x[n / kPerBlock][n % kPerBlock] = Real::of(sums[n]) * factors[n] + offset;
    store_blocks<N / kPerBlock, Block>(x, limits, j.output + (channel + r) * j.output_plane + position,
                                       j.pixels + position);
  };
  multiply<R, N>(room.value_words + channel * room.words, room.words, 1, room.weight_words, room.words, begin, end);
}

// Call `many` for groups of R items. The last group may begin early and compute some items again, which is faster than
// one at a time; `one` is for less than R items.
template <int R, class Many, class One>
static inline void in_rows(ptrdiff_t count, Many many, One one) {
  for (ptrdiff_t done = 0; done < count && count >= R; done += R) many(done + R <= count ? done : count - R);
  for (ptrdiff_t item = 0; item < count && count < R; item++) one(item);
}

template <int B>
static void coded_attention_tile(const IntegerAttention& j, const AttentionRoom& room, ptrdiff_t position) {
  constexpr int n = B * kPerBlock;
  prepare_queries<n>(j, room, position);
  Real most[n];
  for (Real& x : most) x = Real::all(-__builtin_inff());
  in_rows<kAttentionRows>(
      j.keys, [&](ptrdiff_t key) { code_scores<kAttentionRows, n>(j, room, key, position, most); },
      [&](ptrdiff_t key) { code_scores<1, n>(j, room, key, position, most); });
  Lanes totals[n], shifts[n];
  weigh<n>(j, room, most, totals);
  Real factors[n];
  for (int i = 0; i < n; i++) {
    factors[i] = Real::all(j.factor) / Real::of(totals[i]);
    shifts[i] = totals[i] * Lanes::all(kHalf - j.v_zero);
  }
  in_rows<kAttentionRows>(
      j.width, [&](ptrdiff_t channel) { code_means<kAttentionRows, n>(j, room, channel, position, shifts, factors); },
      [&](ptrdiff_t channel) { code_means<1, n>(j, room, channel, position, shifts, factors); });
}

static void coded_attention(const IntegerAttention& job) {
  const IntegerAttention j = job;  // a copy that stores of codes cannot change as far as the compiler knows
  const AttentionRoom room(j);
  prepare_keys(j, room);
  prepare_values(j, room);
  ptrdiff_t position = 0;
  for (; position + (kAttentionBlocks - 1) * kBlock < j.queries; position += kAttentionBlocks * kBlock)
    coded_attention_tile<kAttentionBlocks>(j, room, position);
  for (; position < j.queries; position += kBlock) coded_attention_tile<1>(j, room, position);
}
