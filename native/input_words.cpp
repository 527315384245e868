#include "input_words.hpp"

namespace prunus {

namespace {

// Bit k: whether any domain uses one of the kept weights k and k + 1 without the other.
std::vector<uint8_t> differences(const std::vector<Bits>& used, ptrdiff_t count) {
  const ptrdiff_t bytes = (count + 7) / 8;
  std::vector<uint8_t> result(bytes);
  for (const Bits& bits : used)
    for (ptrdiff_t i = 0; i < bytes; i++) {
      const unsigned next = i + 1 < bytes ? bits.data[i + 1] & 1u : 0;
      result[i] |= static_cast<uint8_t>(bits.data[i] ^ (bits.data[i] >> 1 | next << 7));
    }
  return result;
}

// Per input: whether the next one is used by other outputs or domains.
std::vector<uint8_t> edges(const InputWords::Layer& layer) {
  const ptrdiff_t inputs = layer.inputs / layer.groups, outputs = layer.outputs / layer.groups;
  const std::vector<uint8_t> differs = differences(layer.used, layer.kept.count(0, layer.outputs * inputs));
  std::vector<uint8_t> result(layer.inputs);
  for (ptrdiff_t o = 0, kernel = 0; o < layer.outputs; o++) {
    uint8_t* group = result.data() + o / outputs * inputs;
    for (ptrdiff_t i = 0; i < inputs; i++) {
      const bool kept = layer.kept[o * inputs + i], next = i + 1 < inputs && layer.kept[o * inputs + i + 1];
      if (kept != next || (kept && Bits{differs.data()}[kernel])) group[i] = true;
      kernel += kept;
    }
  }
  return result;
}

}  // namespace

InputWords::InputWords(const Layer& layer) {
  const int inputs = layer.inputs / layer.groups, full = (inputs + layer.group - 1) / layer.group;
  const std::vector<uint8_t> edge = edges(layer);
  const auto divide = [&](bool at_edges) {
    first.clear();
    group_words.clear();
    for (int group = 0; group < layer.groups; group++) {
      group_words.push_back(static_cast<int>(first.size()));
      int size = layer.group;  // of the current word
      for (int i = group * inputs; i < (group + 1) * inputs; i++) {
        if (size == layer.group || i == group * inputs || (at_edges && edge[i - 1])) {
          first.push_back(i);
          size = 0;
        }
        size++;
      }
    }
    group_words.push_back(static_cast<int>(first.size()));
  };
  divide(true);
  if (static_cast<ptrdiff_t>(first.size()) > ptrdiff_t{2} * layer.groups * full) divide(false);
  of.resize(layer.inputs);
  for (size_t word = 0; word < first.size(); word++)
    for (int i = first[word]; i < (word + 1 < first.size() ? first[word + 1] : layer.inputs); i++)
      of[i] = static_cast<uint16_t>(word);
  first.push_back(layer.inputs);
}

}  // namespace prunus
