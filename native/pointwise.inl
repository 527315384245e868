// 1x1 convolutions, sparse and dense.

// Return up to sixteen bits of a range, without reading past the last bit.
static inline uint32_t some_bits(Bits bits, ptrdiff_t first, ptrdiff_t end, ptrdiff_t all) {
  const uint32_t mask = end - first < kBlock ? (1u << (end - first)) - 1 : 0xffffu;
  if (first + 2 * kBlock <= all) return bits.sixteen(first) & mask;
  uint32_t result = 0;
  for (ptrdiff_t i = first; i < end && i < first + kBlock; i++) result |= static_cast<uint32_t>(bits[i]) << (i - first);
  return result;
}

// Return sixteen weights from `k` on, or as many as are left; widened into `room` if necessary.
static inline const float* some_weights(const Selection& s, uint32_t k, float (&room)[kBlock]) {
  if (s.weights.precision == Precision::float32) return s.weights.as_float32() + k;
  const ptrdiff_t left = s.all - k;
  const bool is_float16 = s.weights.precision == Precision::float16;
  Vec::widen_few(s.weights.as_bits16() + k, is_float16, left < kBlock ? static_cast<int>(left) : kBlock, room);
  return room;
}

// Select from a list of weights with columns; return the number selected.
static inline ptrdiff_t select_list(const Selection& s, uint32_t k, uint32_t end, uint32_t first, float* kept,
                                    uint32_t* offsets) {
  ptrdiff_t selected = 0;
  alignas(64) float room[kBlock];
  for (; k < end; k += kBlock) {
    // BitByBit does not read past the last weight
    const auto compress = k + kBlock <= s.all ? Vec::Lists::compress : BitByBit::compress;
    selected += compress(some_weights(s, k, room), s.columns + k, some_bits(s.used, k, end, s.all), s.channel, first,
                         kept + selected, offsets + selected);
  }
  return selected;
}

// The same without columns: one bit per weight tells whether it is kept.
static inline ptrdiff_t select_bits(const Selection& s, uint32_t k, ptrdiff_t position, ptrdiff_t last, uint32_t first,
                                    float* kept, uint32_t* offsets) {
  const ptrdiff_t outputs = s.total_outputs;
  ptrdiff_t selected = 0;
  alignas(64) float room[kBlock];
  for (; position < last; position += kBlock, first += kBlock * s.channel) {
    const uint32_t here = some_bits(s.union_bits, position, last, outputs * s.inputs), count = __builtin_popcount(here);
    const auto expand = k + kBlock <= s.all ? Vec::Lists::expand : BitByBit::expand;
    selected += expand(some_weights(s, k, room), here, some_bits(s.used, k, k + count, s.all), s.channel, first,
                       kept + selected, offsets + selected);
    k += count;
  }
  return selected;
}

static void select(const Selection& s) {
  const uint32_t* list = s.union_start;
  for (ptrdiff_t o = 0; o < s.outputs; o++) {
    const ptrdiff_t output = s.first_output + o;
    const uint32_t group = static_cast<uint32_t>(output / s.group_outputs * s.inputs * s.channel);
    for (ptrdiff_t block = 0, span = 0; block < s.blocks; block++) {
      uint32_t* start = s.start + block * (s.outputs + 1) + o;
      uint32_t end = start[0];
      for (const ptrdiff_t last = span + s.block_spans[block]; span < last; span++, list++) {
        const uint32_t edge = s.span_first[span], first = group + edge * s.channel;
        end += static_cast<uint32_t>(s.columns ? select_list(s, list[0], list[1], first, s.kept + end, s.offsets + end)
                                               : select_bits(s, list[0], output * s.inputs + edge,
                                                             output * s.inputs + s.span_first[span + 1], first,
                                                             s.kept + end, s.offsets + end));
      }
      start[1] = end;
    }
  }
}

// Add one weight times its input to N vectors of pixels.
template <class V, int N>
static inline void add_weight(const Pointwise& j, const float* input, uint32_t k, V (&sum)[N]) {
  const V w = V::all(j.weights[k]);
  const float* x = input + j.offsets[k];
#pragma GCC unroll 8
  for (int n = 0; n < N; n++) sum[n] = V::fma(V::load(x + n * V::width), w, sum[n]);
}

// Add to N vectors of pixels in C chains each, which together hide the latency of multiply-add. The weights of an
// output take turns in the chains, also from block to block: its sum depends on its weights alone, not on where blocks
// begin. `before` is the number of weights in earlier blocks.
template <class V, int N, int C>
static inline void gather(const Pointwise& j, const float* input, uint32_t k, uint32_t end, uint32_t before,
                          V (&sum)[C][N]) {
#pragma GCC unroll 4
  for (uint32_t c = 1; c < C; c++)
    if (before % C == c && k < end) {
      add_weight<V, N>(j, input, k++, sum[c]);
      before++;
    }
  for (; k + C <= end; k += C) {
#pragma GCC unroll 4
    for (int c = 0; c < C; c++) add_weight<V, N>(j, input, k + c, sum[c]);
  }
#pragma GCC unroll 4
  for (int c = 0; c + 1 < C; c++)
    if (k < end) add_weight<V, N>(j, input, k++, sum[c]);
}

template <class V, int N, int C>
static void pointwise_tile(const Pointwise& j, ptrdiff_t position) {
  constexpr ptrdiff_t tile = C * N * V::width;
  static_assert(tile <= kPointwiseTile);
  const ptrdiff_t lists = ptrdiff_t{j.outputs} + 1;
  for (int block = 0; block < j.blocks; block++) {
    for (ptrdiff_t o = 0; o < j.outputs; o++) {
      float* kept = j.sums + o * tile;
      V sum[C][N];
#pragma GCC unroll 4
      for (int c = 0; c < C; c++)
#pragma GCC unroll 8
        for (int n = 0; n < N; n++) sum[c][n] = block ? V::load(kept + (c * N + n) * V::width) : V::zero();
      const uint32_t* start = j.start + block * lists + o;
      uint32_t before = 0;
      for (int b = 0; C > 1 && b < block; b++) before += j.start[b * lists + o + 1] - j.start[b * lists + o];
      if (block + 1 == j.blocks) expect_output<V, N>(j.epilogue, o + kAhead, position, j.output, j.output_plane);
      gather<V, N, C>(j, j.input + position, start[0], start[1], before, sum);
      if (block + 1 < j.blocks) {
#pragma GCC unroll 4
        for (int c = 0; c < C; c++)
#pragma GCC unroll 8
          for (int n = 0; n < N; n++) sum[c][n].store(kept + (c * N + n) * V::width);
        continue;
      }
#pragma GCC unroll 4
      for (int c = 1; c < C; c++)
#pragma GCC unroll 8
        for (int n = 0; n < N; n++) sum[0][n] = sum[0][n] + sum[c][n];
      finish<V, N>(sum[0], j.epilogue, o, position, j.output + o * j.output_plane + position);
    }
  }
}

// Tiles of three to six vectors, all in one chain. Only a piece of one or two vectors waits for multiply-add.
static void pointwise_in_one_chain(const Pointwise& j, ptrdiff_t position, ptrdiff_t end) {
  while (position < end) {
    const ptrdiff_t left = (end - position) / Vec::width, count = left > 6 ? 4 : left;
    switch (count) {
      case 1: pointwise_tile<Vec, 1, 1>(j, position); break;
      case 2: pointwise_tile<Vec, 2, 1>(j, position); break;
      case 3: pointwise_tile<Vec, 3, 1>(j, position); break;
      case 4: pointwise_tile<Vec, 4, 1>(j, position); break;
      case 5: pointwise_tile<Vec, 5, 1>(j, position); break;
      default: pointwise_tile<Vec, 6, 1>(j, position);
    }
    position += count * Vec::width;
  }
}

// Tiles of four vectors. A single vector would cost nearly as much as four, so the end may be a tile of five.
static void pointwise(const Pointwise& j, ptrdiff_t first_block, ptrdiff_t last_block) {
  constexpr ptrdiff_t w = Vec::width;
  const ptrdiff_t end = last_block * kBlock;
  ptrdiff_t position = first_block * kBlock;
  if (j.few_inputs)
    for (; position + 6 * w <= end; position += 6 * w) pointwise_tile<Vec, 6, 1>(j, position);
  if (j.divided) return pointwise_in_one_chain(j, position, end);
  for (; position + 4 * w <= end && end - position != 5 * w; position += 4 * w) pointwise_tile<Vec, 4, 1>(j, position);
  if (position + 5 * w <= end) {
    pointwise_tile<Vec, 5, 1>(j, position);
    position += 5 * w;
  }
  if (position + 3 * w <= end) {
    pointwise_tile<Vec, 3, 2>(j, position);
    position += 3 * w;
  }
  if (position + 2 * w <= end) {
    pointwise_tile<Vec, 2, 2>(j, position);
    position += 2 * w;
  }
  for (; position < end; position += w) {
    if (fits_half_vector(position, j.pixels)) {
      pointwise_tile<HalfVec, 1, 4>(j, position);
    } else {
      pointwise_tile<Vec, 1, 4>(j, position);
    }
  }
}

// N vectors of pixels, followed by half a vector if `Edge`. The last panel starts early enough to be complete and skips
// the rows that the previous panel has computed.
template <class V, int N, bool Edge = false>
static inline void dense_tile(const DensePointwise& j, int panel, ptrdiff_t position) {
  const ptrdiff_t start = static_cast<ptrdiff_t>(panel) * kRows,
                  first = start + kRows <= j.outputs ? start : j.outputs - kRows;
  V sum[kRows][N];
  HalfVec edge[kRows][1];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r++) {
    edge[r][0] = HalfVec::zero();
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) sum[r][n] = V::zero();
  }
  for (ptrdiff_t r = 0; r < kRows; r++)
    expect_output<V, N + Edge>(j.epilogue, first + r, position, j.output, j.output_plane);
  const float *rows[kRows], *input = j.input + position;
  for (ptrdiff_t r = 0; r < kRows; r++) rows[r] = j.weights + (first + r) * j.inputs;
  for (ptrdiff_t some = 0; some < j.inputs; some += kBlock) {
    for (int r = 0; r < kRows; r++)
      __builtin_prefetch(rows[r] + static_cast<ptrdiff_t>(kRows) * j.inputs + some);  // the next panel
    const ptrdiff_t last = some + kBlock < j.inputs ? some + kBlock : j.inputs;
    for (ptrdiff_t i = some; i < last; i++, input += j.plane) {
      V x[N];
#pragma GCC unroll 4
      for (int n = 0; n < N; n++) x[n] = V::load(input + n * V::width);
      const HalfVec after = Edge ? HalfVec::load(input + N * V::width) : HalfVec::zero();
#pragma GCC unroll 8
      for (int r = 0; r < kRows; r++) {
        const V w = V::all(rows[r][i]);
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) sum[r][n] = V::fma(x[n], w, sum[r][n]);
        if (Edge) edge[r][0] = HalfVec::fma(after, lower_half(w), edge[r][0]);
      }
    }
  }
  for (ptrdiff_t r = start - first; r < kRows; r++) {
    float* output = j.output + (first + r) * j.output_plane + position;
    finish<V, N>(sum[r], j.epilogue, first + r, position, output);
    if (Edge) finish<HalfVec, 1>(edge[r], j.epilogue, first + r, position + N * V::width, output + N * V::width);
  }
}

template <class V, int N, bool Edge = false>
static inline void dense_panels(const DensePointwise& j, int first_panel, int last_panel, ptrdiff_t position) {
  for (int p = first_panel; p < last_panel; p++) dense_tile<V, N, Edge>(j, p, position);
}

static void dense_pointwise(const DensePointwise& j, int first_panel, int last_panel, ptrdiff_t first_block,
                            ptrdiff_t last_block) {
  constexpr int many = Vec::width == 8 ? 2 : 4;  // 6 x 2 or 6 x 4 sums fit the registers
  constexpr ptrdiff_t w = Vec::width;
  const ptrdiff_t end = last_block * kBlock;
  ptrdiff_t position = first_block * kBlock;
  const auto has_edge = [&] { return end - position == 4 * w && fits_half_vector(position + 3 * w, j.pixels); };
  for (; position + many * w <= end && !has_edge(); position += many * w)
    dense_panels<Vec, many>(j, first_panel, last_panel, position);
  if (has_edge()) return dense_panels<Vec, 3, true>(j, first_panel, last_panel, position);
  if (position + 2 * w <= end) {
    dense_panels<Vec, 2>(j, first_panel, last_panel, position);
    position += 2 * w;
  }
  for (; position < end; position += w) {
    if (fits_half_vector(position, j.pixels)) {
      dense_panels<HalfVec, 1>(j, first_panel, last_panel, position);
    } else {
      dense_panels<Vec, 1>(j, first_panel, last_panel, position);
    }
  }
}
