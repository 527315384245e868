// Eight floats with AVX2, and sixteen codes as two vectors of floats: positions 0-3 and 8-11, and 4-7 and 12-15, as
// unpacking leaves them. Included after a file that defines Lanes.

struct Real {
  __m256 v;

  static Real all(float x) { return {_mm256_set1_ps(x)}; }
  static Real of(Lanes x) { return {_mm256_cvtepi32_ps(x.v)}; }
  friend Real operator+(Real a, Real b) { return {_mm256_add_ps(a.v, b.v)}; }
  friend Real operator-(Real a, Real b) { return {_mm256_sub_ps(a.v, b.v)}; }
  friend Real operator*(Real a, Real b) { return {_mm256_mul_ps(a.v, b.v)}; }
  friend Real operator/(Real a, Real b) { return {_mm256_div_ps(a.v, b.v)}; }
  static Real max(Real a, Real b) { return {_mm256_max_ps(a.v, b.v)}; }
  static Real load(const float* p) { return {_mm256_loadu_ps(p)}; }
  void store(float* p) const { _mm256_storeu_ps(p, v); }
  static Real of_bits(Lanes x) { return {_mm256_castsi256_ps(x.v)}; }
  Lanes bits() const { return {_mm256_castps_si256(v)}; }
};

struct Block {
  static void load(const uint8_t* p, Real (&x)[2]) {
    const __m256i codes = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    x[0].v = _mm256_cvtepi32_ps(_mm256_unpacklo_epi16(codes, _mm256_setzero_si256()));
    x[1].v = _mm256_cvtepi32_ps(_mm256_unpackhi_epi16(codes, _mm256_setzero_si256()));
  }
  static void load(const float* p, Real (&x)[2]) {
    x[0].v = _mm256_set_m128(_mm_loadu_ps(p + 8), _mm_loadu_ps(p));
    x[1].v = _mm256_set_m128(_mm_loadu_ps(p + 12), _mm_loadu_ps(p + 4));
  }

  // Only `high` must be applied before rounding: smaller numbers and NaN, whose conversion is the smallest integer,
  // become 0 when they are packed.
  struct Limits {
    __m256 high;
    __m128i low, zero;
    Limits(float least, float most, uint8_t code)
        : high(_mm256_set1_ps(most)),
          low(_mm_set1_epi8(static_cast<char>(static_cast<int>(least)))),
          zero(_mm_set1_epi8(static_cast<char>(code))) {}
    // The minimum of a number and NaN is its second argument.
    __m256i round(Real x) const { return _mm256_cvtps_epi32(_mm256_min_ps(high, x.v)); }
  };
  using FreeLimits = Limits;  // for numbers below 2^31

  // The sum of the codes of whole blocks; it fits 32 bits.
  static int32_t total(const uint8_t* codes, ptrdiff_t count) {
    __m128i sums = _mm_setzero_si128();
    for (ptrdiff_t i = 0; i < count; i += kBlock) {
      const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + i));
      sums = _mm_add_epi64(sums, _mm_sad_epu8(block, _mm_setzero_si128()));
    }
    return static_cast<int32_t>(_mm_cvtsi128_si64(sums) + _mm_extract_epi64(sums, 1));
  }

  // Clamp and round; padding receives `zero`.
  static void store(const Real (&x)[2], const Limits& limits, uint8_t* to, const uint8_t* pixels) {
    const __m256i words = _mm256_packs_epi32(limits.round(x[0]), limits.round(x[1]));
    const __m128i codes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    const __m128i mask = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pixels));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm_blendv_epi8(limits.zero, _mm_max_epu8(codes, limits.low), mask));
  }

  // Look up the codes of a multiple of `looked_up`; return how many. A shuffle looks up the codes of one sixteenth of
  // the table. All others have their highest bit set after 112 was added with saturation, and it gives 0 for them.
  static constexpr ptrdiff_t looked_up = 64;
  static ptrdiff_t look_up(const uint8_t* table, const uint8_t* from, uint8_t* to, ptrdiff_t count) {
    const __m256i shift = _mm256_set1_epi8(112), sixteen = _mm256_set1_epi8(16);
    ptrdiff_t i = 0;
    for (; i + looked_up <= count; i += looked_up) {
      __m256i codes[2], found[2];
      for (int n = 0; n < 2; n++) {
        codes[n] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i + 32 * n));
        found[n] = _mm256_setzero_si256();
      }
#pragma GCC unroll 16
      for (int part = 0; part < 16; part++) {
        const __m256i entries =
            _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table + 16 * part)));
        for (int n = 0; n < 2; n++) {
          found[n] = _mm256_or_si256(found[n], _mm256_shuffle_epi8(entries, _mm256_adds_epu8(codes[n], shift)));
          codes[n] = _mm256_sub_epi8(codes[n], sixteen);
        }
      }
      for (int n = 0; n < 2; n++) _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i + 32 * n), found[n]);
    }
    return i;
  }
};
