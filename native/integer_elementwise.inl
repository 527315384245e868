// Steps that change codes one by one, the mean of a plane, and the classifier.

static void elementwise(const CodedElementwise& j, ptrdiff_t first_block, ptrdiff_t last_block) {
  const Block::Limits limits(j.low, j.high, j.zero);
  const Real first_factor = Real::all(j.first_factor), second_factor = Real::all(j.second_factor);
  const Real first_zero = Real::all(j.first_zero), second_zero = Real::all(j.second_zero);
  const Real offset = Real::all(j.offset), one = Real::all(j.has_one_pixel ? *j.second : 0.0f);
  for (ptrdiff_t position = first_block * kBlock; position < last_block * kBlock; position += kBlock) {
    Real x[kPerBlock], y[kPerBlock];
    Block::load(j.first + position, x);
    for (int i = 0; i < kPerBlock; i++) y[i] = one;
    if (j.second && !j.has_one_pixel) Block::load(j.second + position, y);
    for (int i = 0; i < kPerBlock; i++) {
      switch (j.kind) {
        case CodedElementwise::Kind::affine: x[i] = x[i] * first_factor; break;
        case CodedElementwise::Kind::sum: x[i] = x[i] * first_factor + y[i] * second_factor; break;
        case CodedElementwise::Kind::product:  // whole numbers below 2^24, so the first product is exact
          x[i] = ((x[i] - first_zero) * (y[i] - second_zero)) * first_factor;
          break;
      }
      x[i] = x[i] + offset;
    }
    Block::store(x, limits, j.output + position, j.pixels + position);
  }
}

static void look_up(const uint8_t* table, const uint8_t* from, uint8_t* to, ptrdiff_t count) {
  ptrdiff_t i = Block::look_up(table, from, to, count);
  if (i > 0 && i < count) {  // the last ones together with some that were looked up before
    i = count - Block::looked_up;
    i += Block::look_up(table, from + i, to + i, Block::looked_up);
  }
  for (; i < count; i++) to[i] = table[from[i]];
}

// Round a number to a code, as Block::store does.
static inline uint8_t encode(float x, float low, float high) {
  const float least = x > low ? x : low, within = least < high ? least : high;
  return static_cast<uint8_t>(static_cast<int32_t>((within + 12582912.0f) - 12582912.0f));
}

static void quantize(const float* from, float inverse_scale, float zero, uint8_t* to, ptrdiff_t count) {
  alignas(16) uint8_t pixels[kBlock];
  for (uint8_t& pixel : pixels) pixel = 255;
  const Block::Limits limits(0, 255, 0);
  ptrdiff_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    Real x[kPerBlock];
    Block::load(from + i, x);
    for (int n = 0; n < kPerBlock; n++) x[n] = x[n] * Real::all(inverse_scale) + Real::all(zero);
    Block::store(x, limits, to + i, pixels);
  }
  for (; i < count; i++) to[i] = encode(from[i] * inverse_scale + zero, 0.0f, 255.0f);
}

static void dequantize(const uint8_t* from, float scale, float zero, float* to, ptrdiff_t count) {
  for (ptrdiff_t i = 0; i < count; i++) to[i] = (static_cast<float>(from[i]) - zero) * scale;
}

static void means(const CodedMeans& j) {
  const int32_t zeros = static_cast<int32_t>(j.count) * j.zero;
  const uint8_t* codes = j.codes;
  uint8_t* output = j.output;
  for (int c = 0; c < j.channels; c++, codes += j.plane, output += j.output_plane) {
    const int32_t total = Block::total(codes, j.count) - zeros;
    std::memset(output, j.padding, kBlock);
    output[0] = encode(static_cast<float>(total) * j.factor + j.offset, 0.0f, 255.0f);
  }
}

static float logit(const int8_t* weights, const uint8_t* codes, ptrdiff_t count, float multiplier, float offset) {
  int32_t total = 0;
  for (ptrdiff_t i = 0; i < count; i++) total += weights[i] * codes[i];
  return static_cast<float>(total) * multiplier + offset;
}
