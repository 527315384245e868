// The classifiers of a program, over floats and over codes.
#include <algorithm>
#include <cstring>

#include "program.hpp"

namespace prunus {

void Program::classify(const Run& run, float* logits) const {
  const Shape& last = shapes_.back();
  const Head& head = heads_[run.domain];
  const ptrdiff_t features = last.channels * last.pixels(), blocks = (features + kBlock - 1) / kBlock;
  std::vector<float> bias(head.classes);
  copy_wide(kernels_, head.bias, 0, head.classes, bias.data());
  const float* rows = head_rows(run.context, head);
  run.context.gathered.grow(blocks * kBlock);
  float* flat = run.context.gathered.data();
  std::fill(flat + features, flat + blocks * kBlock, 0.0f);
  for (ptrdiff_t n = 0; n < run.images; n++) {
    const float* value = run.value(static_cast<int>(shapes_.size()) - 1, n);
    for (int c = 0; c < last.channels; c++)
      std::copy_n(value + c * last.plane(), last.pixels(), flat + c * last.pixels());
    kernels_.classify({flat, static_cast<int>(blocks), rows, bias.data(), logits + n * head.classes}, 0, head.classes);
  }
}

void Program::classify_codes(const Run& run, float* logits) const {
  const int value = static_cast<int>(shapes_.size()) - 1;
  const Shape& last = shapes_.back();
  const Lattice& from = lattice(value);
  const IntegerHead& head = integer_heads_[run.domain];
  const ptrdiff_t features = last.channels * last.pixels();
  run.context.gathered.grow(features / static_cast<ptrdiff_t>(sizeof(float)) + 1);
  uint8_t* flat = reinterpret_cast<uint8_t*>(run.context.gathered.data());
  for (ptrdiff_t n = 0; n < run.images; n++) {
    for (ptrdiff_t row = 0; row < ptrdiff_t{last.channels} * last.height; row++)
      std::memcpy(flat + row * last.width,
                  run.codes(value, n) + row / last.height * from.plane() + row % last.height * from.stride(),
                  last.width);
    for (ptrdiff_t c = 0; c < head.classes; c++)
      logits[n * head.classes + c] =
          integers().logit(head.weight + c * features, flat, features, head.multipliers[c], head.offsets[c]);
  }
}

// Return the rows of a classifier, padded to whole blocks of float32. Most classifiers need no copy.
const float* Program::head_rows(Context& context, const Head& head) const {
  const ptrdiff_t features = shapes_.back().channels * shapes_.back().pixels(),
                  padded = (features + kBlock - 1) / kBlock * kBlock;
  if (head.weight.precision == Precision::float32 && features == padded) return head.weight.as_float32();
  context.widened.grow(head.classes * padded);
  for (ptrdiff_t c = 0; c < head.classes; c++) {
    float* row = context.widened.data() + c * padded;
    copy_wide(kernels_, head.weight, c * features, features, row);
    std::fill(row + features, row + padded, 0.0f);
  }
  return context.widened.data();
}

}  // namespace prunus
