// Pools over codes: first the rows of a window, for a whole row of pixels, then its columns.

// Merge the rows of a window that lie inside the image; return their number. Three rows, the usual number, are merged
// at once.
template <class Number, class Merge>
static inline int32_t merge_rows(const CodedPooling& j, int window, Number* __restrict row, Merge merge) {
  const ptrdiff_t start = static_cast<ptrdiff_t>(window) * j.stride[0] - j.top, stop = start + j.kernel[0];
  const ptrdiff_t first = start < 0 ? 0 : start, end = stop < j.height ? stop : j.height, width = j.width;
  const uint8_t* __restrict from = j.input + first * j.row;
  ptrdiff_t y = first;
  if (end - first >= 3) {
    const uint8_t* __restrict second = from + j.row, * __restrict third = second + j.row;
    for (ptrdiff_t x = 0; x < width; x++)
      row[x] =
          merge(merge(static_cast<Number>(from[x]), static_cast<Number>(second[x])), static_cast<Number>(third[x]));
    y += 3;
  } else if (end > first) {
    for (ptrdiff_t x = 0; x < width; x++) row[x] = from[x];
    y++;
  }
  for (; y < end; y++) {
    const uint8_t* __restrict other = j.input + y * j.row;
    for (ptrdiff_t x = 0; x < width; x++) row[x] = merge(row[x], static_cast<Number>(other[x]));
  }
  return static_cast<int32_t>(end > first ? end - first : 0);
}

// Merge the columns of each window. The usual strides and sizes are constants, so that the loop is vectorized.
template <int Stride, int Kernel, class Number, class Merge>
static void merge_columns(const CodedPooling& j, const Number* __restrict row, Number* __restrict to, Merge merge) {
  const ptrdiff_t stride = Stride ? Stride : j.stride[1], width = j.out_width, kernel = j.kernel[1];
  if constexpr (Kernel == 3) {
    for (ptrdiff_t c = 0; c < width; c++)
      to[c] = merge(merge(row[stride * c], row[stride * c + 1]), row[stride * c + 2]);
  } else {
    for (ptrdiff_t c = 0; c < width; c++) to[c] = row[stride * c];
    for (ptrdiff_t x = 1; x < kernel; x++)
      for (ptrdiff_t c = 0; c < width; c++) to[c] = merge(to[c], row[stride * c + x]);
  }
}

template <class Number, class Merge>
static inline auto columns_of(const CodedPooling& j) {
  if (j.stride[1] == 2)
    return j.kernel[1] == 3 ? merge_columns<2, 3, Number, Merge> : merge_columns<2, 0, Number, Merge>;
  return j.stride[1] == 1 ? merge_columns<1, 0, Number, Merge> : merge_columns<0, 0, Number, Merge>;
}

template <class Number, class Merge, class Store>
static inline void pool_rows(const CodedPooling& j, Merge merge, Store store) {
  Number *row = static_cast<Number*>(j.scratch), *merged = row + j.length;
  for (ptrdiff_t x = 0; x < j.length; x++) row[x] = 0;  // what lies outside the image adds nothing and never wins
  const auto columns = columns_of<Number, Merge>(j);
  for (int r = 0; r < j.out_height; r++) {
    const int32_t rows = merge_rows(j, r, row + j.left, merge);
    columns(j, row, merged, merge);
    store(r, rows, merged);
  }
}

// Means of windows that lie inside the image: sums of words with weights of 1, as in a depthwise convolution. The usual
// window has two rows of one word.
template <int Step, bool Small>
static void mean_inside(const CodedPooling& pooling) {
  const CodedPooling j = pooling;  // a copy that stores of codes cannot change as far as the compiler knows
  const int height = Small ? 2 : j.kernel[0], width = Small ? 1 : j.kernel[1];
  ptrdiff_t neighbours[Lanes::group];
  int32_t full = 0, rest = 0;  // weights of a word, and of the last word of a row
  for (int g = 0; g < Lanes::group; g++) {
    const int32_t one = int32_t{1} << (32 / Lanes::group * g);
    neighbours[g] = g;
    full |= one;
    if (g < (j.kernel[1] - 1) % Lanes::group + 1) rest |= one;
  }
  const typename Lanes::Weights full_weights = Lanes::weights(&full), rest_weights = Lanes::weights(&rest);
  const Lanes first = Lanes::all((Lanes::offset - j.zero) * j.kernel[0] * j.kernel[1]);
  const Real factor = Real::all(j.factors[0]), offset = Real::all(j.offset);  // all windows have the same size
  const Block::Limits limits(0, 255, 0);
  alignas(16) uint8_t pixels[kBlock], partial[kBlock];
  for (uint8_t& pixel : pixels) pixel = 255;
  const uint8_t* input = j.input;
  uint8_t* output = j.output;
  for (int channel = 0; channel < j.channels; channel++, input += j.plane, output += j.out_plane) {
    for (ptrdiff_t r = 0; r < j.out_height; r++)
      for (ptrdiff_t c = 0; c < j.out_width; c += kBlock) {
        Lanes sums[kPerBlock];
        for (int i = 0; i < kPerBlock; i++) sums[i] = first;
        const uint8_t* from = input + r * j.stride[0] * j.row + Step * c;
        for (int y = 0; y < height; y++, from += j.row)
          for (int x = 0; x < width; x += Lanes::group) {
            const typename Lanes::Weights w = !Small && x + Lanes::group < width ? full_weights : rest_weights;
            Lanes codes[kPerBlock];
            read_word<Step, true>(neighbours, from + x, codes);
            for (int i = 0; i < kPerBlock; i++) sums[i] = Lanes::dot(sums[i], codes[i], w);
          }
        Real means[kPerBlock];
        for (int i = 0; i < kPerBlock; i++) means[i] = Real::of(sums[i]) * factor + offset;
        const ptrdiff_t position = r * j.out_row + c;  // what a row writes past its end, later rows overwrite
        const bool fits = position + kBlock <= j.end;
        Block::store(means, limits, fits ? output + position : partial, pixels);
        for (ptrdiff_t i = 0; !fits && i < j.out_width - c; i++) output[position + i] = partial[i];
      }
  }
}

static inline bool is_inside(const CodedPooling& j) {
  return j.top == 0 && j.left == 0 &&
         static_cast<ptrdiff_t>(j.out_height - 1) * j.stride[0] + j.kernel[0] <= j.height &&
         static_cast<ptrdiff_t>(j.out_width - 1) * j.stride[1] + j.kernel[1] <= j.width;
}

// The codes of a row of means. Nothing that the loop reads can change as far as the compiler knows, so it is
// vectorized.
static void encode_sums(const CodedPooling& j, const int32_t* __restrict sums, int32_t rows,
                        const float* __restrict factors, uint8_t* __restrict to) {
  const int32_t* __restrict columns = j.columns;
  const int32_t zeros = j.zero * rows;
  const float offset = j.offset;
  const ptrdiff_t width = j.out_width;
  for (ptrdiff_t c = 0; c < width; c++)
    to[c] = encode(static_cast<float>(sums[c] - zeros * columns[c]) * factors[c] + offset, 0.0f, 255.0f);
}

static void pool_channel(const CodedPooling& j) {
  if (j.largest) {
    const auto larger = [](uint8_t a, uint8_t b) { return b > a ? b : a; };
    return pool_rows<uint8_t>(j, larger, [&](int r, int32_t, const uint8_t* merged) {
      std::memcpy(j.output + r * j.out_row, merged, j.out_width);
    });
  }
  const auto sum = [](int32_t a, int32_t b) { return a + b; };
  pool_rows<int32_t>(j, sum, [&](ptrdiff_t r, int32_t rows, const int32_t* merged) {
    encode_sums(j, merged, rows, j.factors + r * j.out_width, j.output + r * j.out_row);
  });
}

static void pool(const CodedPooling& pooling) {
  if (!pooling.largest && is_inside(pooling) && pooling.stride[1] <= 2) {
    if (pooling.stride[1] == 1) return mean_inside<1, false>(pooling);
    const bool is_small = pooling.kernel[0] == 2 && pooling.kernel[1] <= Lanes::group;
    return is_small ? mean_inside<2, true>(pooling) : mean_inside<2, false>(pooling);
  }
  CodedPooling j = pooling;
  for (int c = 0; c < pooling.channels; c++, j.input += j.plane, j.output += j.out_plane) pool_channel(j);
}
