// Pools over codes: first the rows of a window, for a whole row of pixels, then its columns.

// Merge the rows of a window that lie inside the image; return their number.
template <class Number, class Merge>
static inline int32_t merge_rows(const CodedPooling& j, int window, Number* __restrict row, Merge merge) {
  const ptrdiff_t start = static_cast<ptrdiff_t>(window) * j.stride[0] - j.top, stop = start + j.kernel[0];
  const ptrdiff_t first = start < 0 ? 0 : start, end = stop < j.height ? stop : j.height, width = j.width;
  for (ptrdiff_t y = first; y < end; y++) {
    const uint8_t* __restrict from = j.input + y * j.row;
    if (y == first) {
      for (ptrdiff_t x = 0; x < width; x++) row[x] = from[x];
    } else {
      for (ptrdiff_t x = 0; x < width; x++) row[x] = merge(row[x], from[x]);
    }
  }
  return static_cast<int32_t>(end > first ? end - first : 0);
}

// Merge the columns of each window. The usual strides are constants, so that the loop is vectorized.
template <int Stride, class Number, class Merge>
static void merge_columns(const CodedPooling& j, const Number* __restrict row, Number* __restrict to, Merge merge) {
  const ptrdiff_t stride = Stride ? Stride : j.stride[1], width = j.out_width, kernel = j.kernel[1];
  for (ptrdiff_t c = 0; c < width; c++) to[c] = row[stride * c];
  for (ptrdiff_t x = 1; x < kernel; x++)
    for (ptrdiff_t c = 0; c < width; c++) to[c] = merge(to[c], row[stride * c + x]);
}

template <class Number, class Merge, class Store>
static inline void pool_rows(const CodedPooling& j, Merge merge, Store store) {
  Number *row = static_cast<Number*>(j.scratch), *merged = row + j.length;
  for (ptrdiff_t x = 0; x < j.length; x++) row[x] = 0;  // what lies outside the image adds nothing and never wins
  const auto columns = j.stride[1] == 1   ? merge_columns<1, Number, Merge>
                       : j.stride[1] == 2 ? merge_columns<2, Number, Merge>
                                          : merge_columns<0, Number, Merge>;
  for (int r = 0; r < j.out_height; r++) {
    const int32_t rows = merge_rows(j, r, row + j.left, merge);
    columns(j, row, merged, merge);
    store(r, rows, merged);
  }
}

static void pool(const CodedPooling& j) {
  if (j.largest) {
    const auto larger = [](uint8_t a, uint8_t b) { return b > a ? b : a; };
    return pool_rows<uint8_t>(j, larger, [&](int r, int32_t, const uint8_t* merged) {
      for (ptrdiff_t c = 0; c < j.out_width; c++) j.output[r * j.out_row + c] = merged[c];
    });
  }
  const auto sum = [](int32_t a, int32_t b) { return a + b; };
  pool_rows<int32_t>(j, sum, [&](ptrdiff_t r, int32_t rows, const int32_t* merged) {
    const float* factors = j.factors + r * j.out_width;
    for (ptrdiff_t c = 0; c < j.out_width; c++) {
      const float total = static_cast<float>(merged[c] - j.zero * rows * j.columns[c]);
      j.output[r * j.out_row + c] = encode(total * factors[c] + j.offset, 0.0f, 255.0f);
    }
  });
}
