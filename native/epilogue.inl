// The end of every kernel (scale, bias, residual, activation), and the masks of windows.

// Finish the sums of one output channel for N vectors.
template <class V, int N>
static inline void finish(V (&x)[N], const Epilogue& e, ptrdiff_t channel, ptrdiff_t position, float* output) {
  const V scale = e.scale ? V::all(e.scale[channel]) : V::all(1.0f);
  const V bias = e.bias ? V::all(e.bias[channel]) : V::zero();
  for (int i = 0; i < N; i++) x[i] = V::fma(x[i], scale, bias);
  if (e.residual) {
    const float* residual = e.residual + channel * e.residual_plane + position;
    for (int i = 0; i < N; i++) x[i] = x[i] + V::load(residual + i * V::width);
  }
  if (e.activation == Activation::relu) {  // the most frequent activation, without a jump
    for (int i = 0; i < N; i++) x[i] = V::max(V::zero(), x[i]);
  } else if (e.activation != Activation::none) {
    V copies[N];  // so that `x` itself stays in registers
    for (int i = 0; i < N; i++) copies[i] = x[i];
    activate_some(copies, N, e.activation, e.slope);
    for (int i = 0; i < N; i++) x[i] = copies[i];
  }
  for (int i = 0; i < N; i++) x[i].store(output + i * V::width);
}

// Prefetch what a later output channel will read and write. Planes are too far apart for the hardware prefetcher.
template <class V, int N>
static inline void expect_output(const Epilogue& e, ptrdiff_t channel, ptrdiff_t position, const float* output,
                                 ptrdiff_t plane) {
  for (int i = 0; i < N * V::width; i += kBlock) {
    __builtin_prefetch(output + channel * plane + position + i, 1);
    if (e.residual) __builtin_prefetch(e.residual + channel * e.residual_plane + position + i, 0);
  }
}
constexpr ptrdiff_t kAhead = 4;  // output channels to prefetch ahead

template <class V>
static inline uint32_t lane_bits(const Window& w, ptrdiff_t position, int tap) {
  constexpr uint32_t all = V::width == 32 ? 0xffffffffu : (1u << V::width) - 1;
  return w.bits[position / kBlock * w.taps + tap] >> (position % kBlock) & all;
}

// The last block of a plane is often half empty, and then half a vector is enough.
static inline bool fits_half_vector(ptrdiff_t position, ptrdiff_t pixels) {
  return HalfVec::width < Vec::width && pixels - position <= HalfVec::width;
}
