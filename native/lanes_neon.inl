// Four 32-bit lanes with NEON: four codes of 8 bits in a lane, minus 128, because the products are of signed numbers.
// PRUNUS_DOT_PRODUCT tells that there is an instruction for them. Included inside a namespace.

struct Lanes {
  int32x4_t v;
  static constexpr int width = 4, group = 4, offset = 128;
  static constexpr int max_words = 5, point_tile = 2;  // five words of four vectors fit the registers
  static constexpr int tile(int) { return 1; }

  static Lanes all(int32_t x) { return {vdupq_n_s32(x)}; }
  static Lanes load(const int32_t* p) { return {vld1q_s32(p)}; }
  void store(int32_t* p) const { vst1q_s32(p, v); }
  friend Lanes operator+(Lanes a, Lanes b) { return {vaddq_s32(a.v, b.v)}; }
  friend Lanes operator*(Lanes a, Lanes b) { return {vmulq_s32(a.v, b.v)}; }
  friend Lanes operator&(Lanes a, Lanes b) { return {vandq_s32(a.v, b.v)}; }
  template <int Bits>
  Lanes shifted() const {
    return {vshlq_n_s32(v, Bits)};
  }

  static Lanes minus_offset(uint8x16_t codes) { return {vreinterpretq_s32_u8(veorq_u8(codes, vdupq_n_u8(128)))}; }

  // Four codes, in the low half.
  template <int Step>
  static uint32_t codes(const uint8_t* p) {
    uint32_t four;
    if (Step == 1) {
      std::memcpy(&four, p, sizeof four);
      return four;
    }
    const uint8x8_t eight = vld1_u8(p);
    return vget_lane_u32(vreinterpret_u32_u8(vuzp1_u8(eight, eight)), 0);
  }
  template <int Step>
  static Lanes four_of(const uint8_t* p, const ptrdiff_t* offsets) {
    const uint32_t rows[4] = {codes<Step>(p + offsets[0]), codes<Step>(p + offsets[1]), codes<Step>(p + offsets[2]),
                              codes<Step>(p + offsets[3])};
    static const uint8_t transposed[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    return minus_offset(vqtbl1q_u8(vreinterpretq_u8_u32(vld1q_u32(rows)), vld1q_u8(transposed)));
  }
  template <int Step>
  static void combine(const uint8_t* p, const ptrdiff_t* offsets, Lanes (&x)[4]) {
    for (int i = 0; i < 4; i++) x[i] = four_of<Step>(p + 4 * Step * i, offsets);
  }
  template <int Step>
  static void spread(const uint8_t* p, Lanes (&x)[4]) {
    static const uint8_t bytes[2][16] = {{0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6},
                                         {0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7, 8, 9}};
    for (int i = 0; i < 4; i++) x[i] = minus_offset(vqtbl1q_u8(vld1q_u8(p + 4 * Step * i), vld1q_u8(bytes[Step - 1])));
  }
  static Lanes words(const uint8_t* p) { return {vreinterpretq_s32_u8(vld1q_u8(p))}; }
  void store_words(uint8_t* p) const { vst1q_u8(p, vreinterpretq_u8_s32(v)); }
  // Of words of codes, which are stored minus 128: the same, as weights.
  Lanes as_weights() const { return *this; }
  // Put the codes of neighbouring words into one: those of the first lowest.
  static Lanes packed(const Lanes (&x)[4]) {
    const int32x4_t low = vorrq_s32(x[0].v, vshlq_n_s32(x[1].v, 8)), high = vorrq_s32(x[2].v, vshlq_n_s32(x[3].v, 8));
    return minus_offset(vreinterpretq_u8_s32(vorrq_s32(low, vshlq_n_s32(high, 16))));
  }

  using Weights = int8x16_t;
  static Weights weights(const int32_t* word) { return vreinterpretq_s8_s32(vdupq_n_s32(*word)); }
  // The weights are from -127 to 127.
  static Lanes dot(Lanes sum, Lanes x, Weights w) {
    const int8x16_t codes = vreinterpretq_s8_s32(x.v);
#if defined(PRUNUS_DOT_PRODUCT)
    return {vdotq_s32(sum.v, codes, w)};
#else
    const int16x8_t low = vmull_s8(vget_low_s8(codes), vget_low_s8(w)), high = vmull_high_s8(codes, w);
    return {vpadalq_s16(sum.v, vpaddq_s16(low, high))};  // two products of at most 128 * 127 fit 16 bits
#endif
  }
  // The weights are codes too, minus 128. Two products of -128 and -128 do not fit 16 bits.
  static Lanes dot_codes(Lanes sum, Lanes x, Weights w) {
#if defined(PRUNUS_DOT_PRODUCT)
    return dot(sum, x, w);
#else
    const int8x16_t codes = vreinterpretq_s8_s32(x.v);
    const int16x8_t low = vmull_s8(vget_low_s8(codes), vget_low_s8(w)), high = vmull_high_s8(codes, w);
    return {vaddq_s32(sum.v, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)))};
#endif
  }
};

struct Real {
  float32x4_t v;

  static Real all(float x) { return {vdupq_n_f32(x)}; }
  static Real of(Lanes x) { return {vcvtq_f32_s32(x.v)}; }
  friend Real operator+(Real a, Real b) { return {vaddq_f32(a.v, b.v)}; }
  friend Real operator-(Real a, Real b) { return {vsubq_f32(a.v, b.v)}; }
  friend Real operator*(Real a, Real b) { return {vmulq_f32(a.v, b.v)}; }
  friend Real operator/(Real a, Real b) { return {vdivq_f32(a.v, b.v)}; }
  static Real max(Real a, Real b) { return {vmaxq_f32(a.v, b.v)}; }
  static Real load(const float* p) { return {vld1q_f32(p)}; }
  void store(float* p) const { vst1q_f32(p, v); }
  static Real of_bits(Lanes x) { return {vreinterpretq_f32_s32(x.v)}; }
  Lanes bits() const { return {vreinterpretq_s32_f32(v)}; }
};

struct Block {
  static void load(const uint8_t* p, Real (&x)[4]) {
    const uint8x16_t codes = vld1q_u8(p);
    const uint16x8_t low = vmovl_u8(vget_low_u8(codes)), high = vmovl_high_u8(codes);
    x[0].v = vcvtq_f32_u32(vmovl_u16(vget_low_u16(low)));
    x[1].v = vcvtq_f32_u32(vmovl_high_u16(low));
    x[2].v = vcvtq_f32_u32(vmovl_u16(vget_low_u16(high)));
    x[3].v = vcvtq_f32_u32(vmovl_high_u16(high));
  }
  static void load(const float* p, Real (&x)[4]) {
    for (int i = 0; i < 4; i++) x[i].v = vld1q_f32(p + 4 * i);
  }

  // Only `high` must be applied before rounding: smaller numbers become 0 when they are packed, and NaN before.
  struct Limits {
    float32x4_t high;
    uint8x16_t low, zero;
    Limits(float least, float most, uint8_t code)
        : high(vdupq_n_f32(most)), low(vdupq_n_u8(static_cast<uint8_t>(least))), zero(vdupq_n_u8(code)) {}
    uint16x4_t round(Real x) const { return vqmovun_s32(vcvtnq_s32_f32(vminq_f32(x.v, high))); }
  };
  using FreeLimits = Limits;  // for numbers below 2^31

  // The sum of the codes of whole blocks; it fits 32 bits.
  static int32_t total(const uint8_t* codes, ptrdiff_t count) {
    uint32x4_t sums = vdupq_n_u32(0);
    for (ptrdiff_t i = 0; i < count; i += kBlock) sums = vpadalq_u16(sums, vpaddlq_u8(vld1q_u8(codes + i)));
    return static_cast<int32_t>(vaddvq_u32(sums));
  }

  // Clamp and round; padding receives `zero`.
  static void store(const Real (&x)[4], const Limits& limits, uint8_t* to, const uint8_t* pixels) {
    const uint16x8_t first = vcombine_u16(limits.round(x[0]), limits.round(x[1]));
    const uint16x8_t second = vcombine_u16(limits.round(x[2]), limits.round(x[3]));
    const uint8x16_t codes = vmaxq_u8(vcombine_u8(vmovn_u16(first), vmovn_u16(second)), limits.low);
    vst1q_u8(to, vbslq_u8(vld1q_u8(pixels), codes, limits.zero));
  }

  // Look up the codes of a multiple of `looked_up`; return how many. Each instruction looks up those of a quarter of
  // the table.
  static constexpr ptrdiff_t looked_up = 16;
  static ptrdiff_t look_up(const uint8_t* table, const uint8_t* from, uint8_t* to, ptrdiff_t count) {
    uint8x16x4_t quarters[4];
    for (int part = 0; part < 4; part++) quarters[part] = vld1q_u8_x4(table + 64 * part);
    ptrdiff_t i = 0;
    for (; i + looked_up <= count; i += looked_up) {
      uint8x16_t codes = vld1q_u8(from + i), found = vqtbl4q_u8(quarters[0], codes);
      for (int part = 1; part < 4; part++) {
        codes = vsubq_u8(codes, vdupq_n_u8(64));
        found = vqtbx4q_u8(found, quarters[part], codes);
      }
      vst1q_u8(to + i, found);
    }
    return i;
  }
};
