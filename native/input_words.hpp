// How the inputs of a 1x1 layer form words of 2 or 4.
//
// A word of a domain is computed if the domain uses any of its weights. Where neighbouring inputs are used together by
// every output of every domain, a word holds only such inputs: masks of blocks of inputs then have no half-used words,
// even if some inputs were removed from the model. Other masks get words of consecutive inputs.
#pragma once
#include <cstdint>
#include <vector>

#include "integer_kernels.hpp"
#include "stored_arrays.hpp"

namespace prunus {

struct InputWords {
  struct Layer {
    int inputs, outputs, groups, group;  // group: inputs of a word, at most
    Bits kept;
    std::vector<Bits> used;  // per domain
  };

  explicit InputWords(const Layer& layer);

  int count() const { return static_cast<int>(first.size()) - 1; }

  std::vector<int> first;        // per word: its first input; then the end. Inputs of a word are consecutive.
  std::vector<uint16_t> of;      // per input: its word
  std::vector<int> group_words;  // per group of the convolution: its first word; then the end
};

}  // namespace prunus
