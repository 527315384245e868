// Sixteen 32-bit lanes in plain C++ with the vector types of GCC and Clang, for every processor. Included inside a
// namespace.

struct Lanes {
  typedef int32_t Vector __attribute__((vector_size(64)));
  Vector v;
  static constexpr int width = 16, group = 4, offset = 0;
  static constexpr int max_words = 3, point_tile = 3;
  static constexpr int tile(int words) { return words <= 2 ? 3 : 2; }

  static Lanes all(int32_t x) { return {x - Vector{}}; }
  static Lanes load(const int32_t* p) { return words(reinterpret_cast<const uint8_t*>(p)); }
  void store(int32_t* p) const { std::memcpy(p, &v, sizeof v); }
  friend Lanes operator+(Lanes a, Lanes b) { return {a.v + b.v}; }
  friend Lanes operator*(Lanes a, Lanes b) { return {a.v * b.v}; }
  friend Lanes operator&(Lanes a, Lanes b) { return {a.v & b.v}; }
  template <int Bits>
  Lanes shifted() const {
    return {v << Bits};
  }

  // Read a block: one lane per position, with the codes at p + offset for four offsets, or at four neighbours.
  template <int Step>
  static void combine(const uint8_t* p, const ptrdiff_t* offsets, Lanes (&x)[1]) {
    uint8_t codes[64];
    for (int i = 0; i < width; i++)
      for (int t = 0; t < 4; t++) codes[4 * i + t] = p[offsets[t] + Step * i];
    x[0] = words(codes);
  }
  template <int Step>
  static void spread(const uint8_t* p, Lanes (&x)[1]) {
    uint8_t codes[64];
    for (int i = 0; i < width; i++) std::memcpy(codes + 4 * i, p + Step * i, 4);
    x[0] = words(codes);
  }
  static Lanes words(const uint8_t* p) {
    Lanes r;
    std::memcpy(&r.v, p, sizeof r.v);
    return r;
  }
  // Keep the bytes where a mask has ones; take those of others elsewhere.
  Lanes where(Lanes mask, Lanes others) const { return {(v & mask.v) | (others.v & ~mask.v)}; }
  void store_words(uint8_t* p) const { std::memcpy(p, &v, sizeof v); }
  // Of words of codes: the same minus 128, as weights.
  Lanes as_weights() const { return {v ^ static_cast<int32_t>(0x80808080u)}; }
  // Put the codes of neighbouring words into one: those of the first lowest.
  static Lanes packed(const Lanes (&x)[4]) { return {x[0].v | x[1].v << 8 | x[2].v << 16 | x[3].v << 24}; }

  struct Weights {
    int8_t w[4];
  };
  static Weights weights(const int32_t* word) {
    Weights r;
    std::memcpy(r.w, word, sizeof r.w);
    return r;
  }
  static Lanes dot(Lanes sum, Lanes x, Weights w) {
    for (int t = 0; t < 4; t++) sum.v += (x.v >> (8 * t) & 255) * int32_t{w.w[t]};
    return sum;
  }
  static Lanes dot_codes(Lanes sum, Lanes x, Weights w) { return dot(sum, x, w); }  // added in 32 bits
};

struct Real {
  typedef float Vector __attribute__((vector_size(64)));
  Vector v;

  static Real all(float x) { return {x - Vector{}}; }
  static Real of(Lanes x) { return {__builtin_convertvector(x.v, Vector)}; }
  friend Real operator+(Real a, Real b) { return {a.v + b.v}; }
  friend Real operator-(Real a, Real b) { return {a.v - b.v}; }
  friend Real operator*(Real a, Real b) { return {a.v * b.v}; }
  friend Real operator/(Real a, Real b) { return {a.v / b.v}; }
  static Real max(Real a, Real b) { return {a.v > b.v ? a.v : b.v}; }
  static Real load(const float* p) {
    Real r;
    std::memcpy(&r.v, p, sizeof r.v);
    return r;
  }
  void store(float* p) const { std::memcpy(p, &v, sizeof v); }
  static Real of_bits(Lanes x) { return {reinterpret_cast<Vector>(x.v)}; }
  Lanes bits() const { return {reinterpret_cast<Lanes::Vector>(v)}; }
};

// Sixteen codes as floats, and back.
struct Block {
  // Look up the codes of a multiple of `looked_up`; return how many.
  static constexpr ptrdiff_t looked_up = 1;
  static ptrdiff_t look_up(const uint8_t*, const uint8_t*, uint8_t*, ptrdiff_t) { return 0; }
  static void load(const uint8_t* p, Real (&x)[1]) {
    for (int i = 0; i < 16; i++) x[0].v[i] = p[i];
  }
  static void load(const float* p, Real (&x)[1]) { std::memcpy(&x[0].v, p, sizeof x[0].v); }

  struct Limits {
    Real low, high;
    uint8_t zero;
    Limits(float least, float most, uint8_t code) : low(Real::all(least)), high(Real::all(most)), zero(code) {}
  };
  using FreeLimits = Limits;  // for numbers below 2^31

  // The sum of the codes of whole blocks; it fits 32 bits.
  static int32_t total(const uint8_t* codes, ptrdiff_t count) {
    int32_t sum = 0;
    for (ptrdiff_t i = 0; i < count; i++) sum += codes[i];
    return sum;
  }

  // Clamp and round; NaN becomes `low`, and padding receives `zero`.
  static void store(const Real (&x)[1], const Limits& limits, uint8_t* to, const uint8_t* pixels) {
    const Real::Vector least = x[0].v > limits.low.v ? x[0].v : limits.low.v;
    const Real within{least < limits.high.v ? least : limits.high.v};
    const Real large = Real::all(12582912.0f);  // 1.5 * 2^23: adding it rounds to even
    const Lanes::Vector codes = __builtin_convertvector((within + large - large).v, Lanes::Vector);
    for (int i = 0; i < 16; i++) to[i] = static_cast<uint8_t>((codes[i] & pixels[i]) | (limits.zero & ~pixels[i]));
  }
  template <int B, class L>
  static void store_some(const Real (*x)[1], const L& limits, uint8_t* to, const uint8_t* pixels) {
    for (int b = 0; b < B; b++) store(x[b], limits, to + 16 * b, pixels + 16 * b);
  }
};
