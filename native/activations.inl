// Activations, one vector at a time. Included inside a namespace that defines Vec. max and min return their second
// argument if one is NaN, so that an overflow is not hidden.

template <class V>
static inline V exponential(V x) {
  x = V::min(V::all(88.0f), V::max(V::all(-87.0f), x));
  const V n = V::round(x * V::all(1.44269504f));
  V r = V::fma(n, V::all(-0.693359375f), x);
  r = V::fma(n, V::all(2.12194440e-4f), r);
  V p = V::all(1.9875691500e-4f);
  p = V::fma(p, r, V::all(1.3981999507e-3f));
  p = V::fma(p, r, V::all(8.3334519073e-3f));
  p = V::fma(p, r, V::all(4.1665795894e-2f));
  p = V::fma(p, r, V::all(1.6666665459e-1f));
  p = V::fma(p, r, V::all(5.0000001201e-1f));
  return V::times_pow2(V::fma(p * r, r, r + V::all(1.0f)), n);
}

template <class V>
static inline V sigmoid(V x) {
  return V::all(1.0f) / (V::all(1.0f) + exponential(V::zero() - x));
}

template <class V>
static inline V tanh(V x) {
  // near zero the quotient below would lose precision
  const V square = x * x;
  V series = V::all(-17.0f / 315.0f);
  series = V::fma(series, square, V::all(2.0f / 15.0f));
  series = V::fma(series, square, V::all(-1.0f / 3.0f));
  series = V::fma(series * square, x, x);
  const V e = exponential(V::min(V::all(20.0f), x) * V::all(2.0f));
  const V quotient = (e - V::all(1.0f)) / (e + V::all(1.0f));
  return V::select(V::less(V::abs(x), V::all(0.1f)), series, quotient);
}

// x times the share of a normal distribution below x: 0.5 + erf(x / sqrt(2)) / 2. A quotient of polynomials of x * x
// was fitted to this error function, divided by x: the error is at most 2.2e-8, plus that of rounding, up to 4 *
// sqrt(2). Beyond, the share is 0 or 1 within the same error.
template <class V>
static inline V gelu(V x) {
  const V most = V::all(5.656854249f), half = V::all(0.5f), near = V::min(most, V::max(V::zero() - most, x));
  const V square = near * near;
  V above = V::all(2.181898957e-08f), below = V::all(1.171274334e-06f);
  above = V::fma(above, square, V::all(6.364844245e-06f));
  below = V::fma(below, square, V::all(7.602183175e-05f));
  above = V::fma(above, square, V::all(1.769361332e-04f));
  below = V::fma(below, square, V::all(1.930543571e-03f));
  above = V::fma(above, square, V::all(4.725891879e-03f));
  below = V::fma(below, square, V::all(2.911902033e-02f));
  above = V::fma(above, square, V::all(3.469210097e-02f));
  below = V::fma(below, square, V::all(2.536257803e-01f));
  above = V::fma(above, square, V::all(3.989422167e-01f));
  below = V::fma(below, square, V::all(1.0f));
  const V part = near * above * V::reciprocal(below);
  return x * (half + V::min(half, V::max(V::zero() - half, part)));
}

template <class V>
static inline V logarithm_of_one_plus_exp(V x) {  // softplus, for mish
  alignas(64) float lanes[V::width];
  x.store(lanes);
  for (float& lane : lanes) lane = lane > 20.0f ? lane : __builtin_log1pf(__builtin_expf(lane));
  return V::load(lanes);
}

template <class V>
static inline V activate(V x, Activation activation, float slope) {
  const V zero = V::zero(), one = V::all(1.0f);
  switch (activation) {
    case Activation::none: return x;
    case Activation::relu: return V::max(zero, x);
    case Activation::relu6: return V::min(V::all(6.0f), V::max(zero, x));
    case Activation::leaky_relu: return V::select(V::less(x, zero), x * V::all(slope), x);
    case Activation::elu: return V::select(V::less(x, zero), (exponential(x) - one) * V::all(slope), x);
    case Activation::silu: return x * sigmoid(x);
    case Activation::gelu: return gelu(x);
    case Activation::gelu_tanh:
      return x * V::all(0.5f) * (one + tanh(V::all(0.79788456f) * V::fma(x * x * x, V::all(0.044715f), x)));
    case Activation::mish: return x * tanh(logarithm_of_one_plus_exp(x));
    case Activation::hard_swish: return x * V::min(V::all(6.0f), V::max(zero, x + V::all(3.0f))) * V::all(1.0f / 6.0f);
    case Activation::hard_sigmoid: return V::min(V::all(6.0f), V::max(zero, x + V::all(3.0f))) * V::all(1.0f / 6.0f);
    case Activation::sigmoid: return sigmoid(x);
    case Activation::tanh: return tanh(x);
  }
  return x;
}

// Activate several vectors. GELU is slow, and its constants stay in registers.
template <class V>
__attribute__((noinline)) static void activate_some(V* x, int count, Activation activation, float slope) {
  if (activation == Activation::gelu) {
    for (int i = 0; i < count; i++) x[i] = gelu(x[i]);
  } else {
    for (int i = 0; i < count; i++) x[i] = activate(x[i], activation, slope);
  }
}
