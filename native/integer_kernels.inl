// The kernels for codes, written once for all instruction sets. Included inside a namespace that defines Lanes, Real
// and Block. Compiled without fused multiply-add, because every operation on floats must be rounded once.

#include "coded_blocks.inl"
#include "integer_attention.inl"
#include "integer_elementwise.inl"
#include "integer_pointwise.inl"
#include "integer_pooling.inl"
#include "integer_windowed.inl"

static constexpr IntegerKernels make_integer_table() {
  return {Lanes::group, Lanes::offset,   window_tile, Lanes::point_tile,
          direct,       depthwise,       pointwise,   in_order ? spread<Lanes> : nullptr,
          interleave,   coded_attention, elementwise, look_up,
          pool,         quantize,        dequantize,  means,
          logit};
}
