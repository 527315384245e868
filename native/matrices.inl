// Convolutions of single pixels: sparse and dense products.

static void select(const Selection& s) {
  const uint32_t* list = s.union_start;
  const uint32_t begin = list[0];
  for (long o = 0; o < s.outputs; o++) {
    const uint32_t group = (s.first_output + o) / s.group_outputs * s.group;
    for (long block = 0, span = 0; block < s.blocks; block++) {
      uint32_t* start = s.start + block * (s.outputs + 1) + o;
      uint32_t found = start[0];
      for (const long last = span + s.block_spans[block]; span < last; span++, list++) {
        for (uint32_t k = list[0]; k < list[1]; k += kBlock) {
          const uint32_t own = list[1] - k < kBlock ? (1u << (list[1] - k)) - 1 : 0xffffu;
          const uint32_t first = group + s.span_first[span];
          if (k + 2 * kBlock <= s.all) {
            found += static_cast<uint32_t>(Vec::compress(s.weights + (k - begin), s.columns + k, s.used.sixteen(k) & own,
                                                         s.channel, first, s.kept + found, s.offsets + found));
          } else {  // nothing is read behind the last
            uint32_t bits = 0;
            for (uint32_t i = 0; i < kBlock && k + i < list[1]; i++) bits |= static_cast<uint32_t>(s.used[k + i]) << i;
            found += static_cast<uint32_t>(compress_bit_by_bit(s.weights + (k - begin), s.columns + k, bits, s.channel, first,
                                                               s.kept + found, s.offsets + found));
          }
        }
      }
      start[1] = found;
    }
  }
}

// N vectors of pixels, C chains of sums each: together enough to hide the latency of multiply-add
template <class V, int N, int C>
static inline void gather(const Pointwise& j, const float* input, uint32_t k, uint32_t end, V (&total)[N]) {
  V sum[C][N];
#pragma GCC unroll 4
  for (int c = 1; c < C; c++)
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) sum[c][n] = V::zero();
#pragma GCC unroll 8
  for (int n = 0; n < N; n++) sum[0][n] = total[n];
  for (; k + C <= end; k += C) {
#pragma GCC unroll 4
    for (int c = 0; c < C; c++) {
      const V w = V::all(j.weights[k + c]);
      const float* x = input + j.offsets[k + c];
#pragma GCC unroll 8
      for (int n = 0; n < N; n++) sum[c][n] = V::fma(V::load(x + n * V::width), w, sum[c][n]);
    }
  }
  for (; k < end; k++) {
    const V w = V::all(j.weights[k]);
    const float* x = input + j.offsets[k];
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) sum[0][n] = V::fma(V::load(x + n * V::width), w, sum[0][n]);
  }
#pragma GCC unroll 4
  for (int c = 1; c < C; c++)
#pragma GCC unroll 8
    for (int n = 0; n < N; n++) sum[0][n] = sum[0][n] + sum[c][n];
#pragma GCC unroll 8
  for (int n = 0; n < N; n++) total[n] = sum[0][n];
}

template <class V, int N, int C>
static void pointwise_tile(const Pointwise& j, long place) {
  constexpr long tile = N * V::width;
  for (int block = 0; block < j.blocks; block++) {
    for (long o = 0; o < j.outputs; o++) {
      float* kept = j.sums + o * tile;
      V sum[N];
#pragma GCC unroll 8
      for (int n = 0; n < N; n++) sum[n] = block ? V::load(kept + n * V::width) : V::zero();
      const uint32_t* start = j.start + block * (j.outputs + 1L) + o;
      if (block + 1 == j.blocks) expect_output<V, N>(j.epilogue, o + kAhead, place, j.output, j.output_plane);
      gather<V, N, C>(j, j.input + place, start[0], start[1], sum);
      if (block + 1 == j.blocks) finish<V, N>(sum, j.epilogue, o, place, j.output + o * j.output_plane + place);
      else
#pragma GCC unroll 8
        for (int n = 0; n < N; n++) sum[n].store(kept + n * V::width);
    }
  }
}

// Tiles of four vectors; one vector alone would cost nearly as much as four, so that five go together at the end.
static void pointwise(const Pointwise& j, long first_block, long last_block) {
  constexpr long w = Vec::width;
  const long end = last_block * kBlock;
  long place = first_block * kBlock;
  if (j.few_inputs)
    for (; place + 6 * w <= end; place += 6 * w) pointwise_tile<Vec, 6, 1>(j, place);
  for (; place + 4 * w <= end && end - place != 5 * w; place += 4 * w) pointwise_tile<Vec, 4, 1>(j, place);
  if (place + 5 * w <= end) pointwise_tile<Vec, 5, 1>(j, place), place += 5 * w;
  if (place + 3 * w <= end) pointwise_tile<Vec, 3, 2>(j, place), place += 3 * w;
  if (place + 2 * w <= end) pointwise_tile<Vec, 2, 2>(j, place), place += 2 * w;
  for (; place < end; place += w)
    half_is_enough(place, j.pixels) ? pointwise_tile<Half, 1, 4>(j, place) : pointwise_tile<Vec, 1, 4>(j, place);
}

// The last panel begins early enough to be whole, and leaves out what the one before it has computed.
template <class V, int N>
static inline void dense_tile(const DensePointwise& j, int panel, long place) {
  const long wanted = static_cast<long>(panel) * kRows, first = wanted + kRows <= j.outputs ? wanted : j.outputs - kRows;
  V sum[kRows][N];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r++)
#pragma GCC unroll 4
    for (int n = 0; n < N; n++) sum[r][n] = V::zero();
  for (long r = 0; r < kRows; r++) expect_output<V, N>(j.epilogue, first + r, place, j.output, j.output_plane);
  const float *rows[kRows], *input = j.input + place;
  for (long r = 0; r < kRows; r++) rows[r] = j.weights + (first + r) * j.inputs;
  for (long some = 0; some < j.inputs; some += kBlock) {
    for (int r = 0; r < kRows; r++) __builtin_prefetch(rows[r] + static_cast<long>(kRows) * j.inputs + some);  // the next panel
    const long end = some + kBlock < j.inputs ? some + kBlock : j.inputs;
    for (long i = some; i < end; i++, input += j.plane) {
      V x[N];
#pragma GCC unroll 4
      for (int n = 0; n < N; n++) x[n] = V::load(input + n * V::width);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; r++) {
        const V w = V::all(rows[r][i]);
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) sum[r][n] = V::fma(x[n], w, sum[r][n]);
      }
    }
  }
  for (long r = wanted - first; r < kRows; r++)
    finish<V, N>(sum[r], j.epilogue, first + r, place, j.output + (first + r) * j.output_plane + place);
}

template <class V, int N>
static inline void dense_panels(const DensePointwise& j, int first_panel, int last_panel, long place) {
  for (int p = first_panel; p < last_panel; p++) dense_tile<V, N>(j, p, place);
}

static void dense_pointwise(const DensePointwise& j, int first_panel, int last_panel, long first_block, long last_block) {
  constexpr int many = Vec::width == 8 ? 2 : 4;  // 6 x 2 or 6 x 4 sums fit the registers
  constexpr long w = Vec::width;
  const long end = last_block * kBlock;
  long place = first_block * kBlock;
  for (; place + many * w <= end; place += many * w) dense_panels<Vec, many>(j, first_panel, last_panel, place);
  if (place + 2 * w <= end) dense_panels<Vec, 2>(j, first_panel, last_panel, place), place += 2 * w;
  for (; place < end; place += w)
    half_is_enough(place, j.pixels) ? dense_panels<Half, 1>(j, first_panel, last_panel, place)
                                    : dense_panels<Vec, 1>(j, first_panel, last_panel, place);
}

