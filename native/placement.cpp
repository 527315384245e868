// Where a program stores its values, and the padding of those that are coded.
#include <algorithm>
#include <stdexcept>

#include "program.hpp"

namespace prunus {

namespace {

constexpr ptrdiff_t kMostPadding = ptrdiff_t{1} << 20;  // rows or columns; far above any real window

}  // namespace

void Run::fill_ring(int number, const Piece& piece) const {
  if (piece.first_block == piece.last_block) return;  // empty pieces are no ends
  fill_ends(number, piece, piece.first_block == 0, piece.last_block == program.lattice(number).blocks());
}

void Run::fill_ends(int number, const Piece& channels, bool above, bool below) const {
  if (!program.ringed_[number]) return;
  const Lattice& lattice = program.lattice(number);
  const ptrdiff_t padding = lattice.padding(), plane = lattice.plane(), end = lattice.blocks() * kBlock;
  const uint8_t zero = program.zero(number, domain);
  uint8_t* channel = codes(number, channels.image) + channels.first_channel * plane;
  for (int c = channels.first_channel; c < channels.last_channel; c++, channel += plane)
    for (ptrdiff_t i = 0; i < padding; i += kBlock) {  // whole blocks, which need no call
      if (above) std::memset(channel - padding + i, zero, kBlock);
      if (below) std::memset(channel + end + i, zero, kBlock);
    }
}

void Run::fill_padding(int number, ptrdiff_t image, ptrdiff_t channel, ptrdiff_t first_row, ptrdiff_t last_row) const {
  const Lattice& lattice = program.lattice(number);
  const uint8_t zero = program.zero(number, domain);
  const bool below = last_row == lattice.height;
  uint8_t* plane = codes(number, image) + channel * lattice.plane();
  // most paddings of a row are a single column, not worth a call
  uint8_t* end = plane + first_row * lattice.stride() + lattice.width;
  for (ptrdiff_t row = first_row; lattice.side && row < last_row - below; row++, end += lattice.stride()) {
    end[0] = zero;
    if (lattice.side > 1) std::memset(end, zero, lattice.side);
  }
  if (below) std::memset(plane + lattice.positions(), zero, lattice.blocks() * kBlock - lattice.positions());
  const int first = static_cast<int>(channel);
  fill_ends(number, {image, 0, 0, first, first + 1}, first_row == 0, below);
}

void Run::fill_padding(int number, ptrdiff_t image, ptrdiff_t channel) const {
  fill_padding(number, image, channel, 0, program.shape(number).height);
}

void Program::set_zeros(int value, std::vector<uint8_t> zeros) {
  zeros_.at(value) = std::move(zeros);
  Lattice& lattice = lattices_[{shapes_[value].height, shapes_[value].width}];
  lattice.height = shapes_[value].height;
  lattice.width = shapes_[value].width;
  lattice_of_[value] = &lattice;
}

void Program::need_ring(int value, ptrdiff_t rows, ptrdiff_t columns) {
  Lattice& lattice = *lattice_of_[value];
  if (rows > kMostPadding) throw std::length_error("the window and the image are too large together");
  lattice.ring = std::max(lattice.ring, rows);
  need_side(value, columns);
  if (rows > 0 || columns > 0) ringed_[value] = true;
}

void Program::need_side(int value, ptrdiff_t columns) {
  Lattice& lattice = *lattice_of_[value];
  if (columns > kMostPadding) throw std::length_error("the window and the image are too large together");
  lattice.side = std::max(lattice.side, columns);
}

// Throw if a step reads codes where a value holds floats, or the other way round.
void Program::check_codes() const {
  if (is_coded(0)) throw std::invalid_argument("the image cannot be coded");
  for (const std::unique_ptr<Step>& step : steps_) {
    if (step->makes_codes() != is_coded(step->output))
      throw std::invalid_argument("a value has zeros but its step makes floats, or the other way round");
    for (int value : step->inputs)
      if (step->reads_codes() != is_coded(value))
        throw std::invalid_argument("a step reads codes but its input holds floats, or the other way round");
  }
  for (const IntegerHead& head : integer_heads_)
    if ((head.weight != nullptr) != is_coded(static_cast<int>(shapes_.size()) - 1))
      throw std::invalid_argument("the classifiers must read codes exactly if the last value is coded");
}

// What lies within a value has its padding.
void Program::spread_rings() {
  for (int value = static_cast<int>(shapes_.size()) - 1; value >= 0; value--)
    if (homes_[value].within >= 0 && ringed_[homes_[value].within]) ringed_[value] = true;
}

ptrdiff_t Program::plane(int value) const {
  if (!is_coded(value)) return shapes_[value].plane();
  return lattice(value).plane() / static_cast<ptrdiff_t>(sizeof(float));  // a multiple of 16 bytes
}

// Let steps write values that will be joined directly to their destination, unless they were joined before.
void Program::join_values() {
  for (const std::unique_ptr<Step>& step : steps_) {
    ptrdiff_t channel = 0;
    for (size_t input = 0; input < step->inputs.size(); input++) {
      const int value = step->inputs[input];
      Home& home = homes_[value];
      if (step->joins(input) && value > 0 && home.within < 0 && zeros_[value] == zeros_[step->output]) {
        home.within = step->output;
        home.first_channel = channel;
      }
      channel += shapes_[value].channels;
    }
  }
}

// Assign a slot to each value that is not inside another. A slot is free again after the last step that reads it.
void Program::place_values() {
  const int values = static_cast<int>(shapes_.size());
  std::vector<int> outer(values);
  std::vector<size_t> last(values, 0);  // per value: the last step that reads it
  for (int value = values - 1; value >= 0; value--)
    outer[value] = homes_[value].within < 0 ? value : outer[homes_[value].within];
  for (size_t s = 0; s < steps_.size(); s++) {
    last[outer[s + 1]] = std::max(last[outer[s + 1]], s);
    for (int value : steps_[s]->inputs) last[outer[value]] = s;
  }
  for (const Chain& chain : chains_)  // some threads read while others already write the last output
    for (size_t s = chain.first; s <= chain.last; s++)
      for (int value : steps_[s]->inputs) last[outer[value]] = std::max(last[outer[value]], chain.last);
  last[outer.back()] = steps_.size();
  place_between();
  std::vector<int> free;
  for (int value = 0; value < values; value++) {
    Home& home = homes_[outer[value]];
    if (value == 0 && !copies_images_) continue;  // the images lie elsewhere, and no other value is free yet
    if (home.slot < 0 && home.between < 0)
      home.slot =
          take_slot(free, (shapes_[outer[value]].channels * plane(outer[value]) + kBlock - 1) / kBlock * kBlock);
    for (int other = 0; other < values; other++)  // values whose last reader was the step that made this value
      if (value > 0 && outer[other] == other && homes_[other].slot >= 0 &&
          last[other] + 1 == static_cast<size_t>(value))
        free.push_back(homes_[other].slot);
  }
  for (int value = values - 1; value >= 0; value--) {
    Home& home = homes_[value];
    if (home.between >= 0) continue;  // a worker has one image at a time
    home.image = shapes_[outer[value]].channels * plane(value);
    if (home.within < 0) continue;
    home.slot = homes_[home.within].slot;
    home.offset = homes_[home.within].offset + home.first_channel * plane(value);
  }
}

// What lies between the steps of a chain is stored once for each worker, in turns in two places: only the next step
// reads it.
void Program::place_between() {
  for (const Chain& chain : chains_)
    for (size_t s = chain.first; chain.channels == 0 && s < chain.last; s++) {
      const int value = steps_[s]->output, number = static_cast<int>((s - chain.first) % 2);
      homes_[value].between = number;
      if (between_sizes_.size() <= static_cast<size_t>(number)) between_sizes_.push_back(0);
      between_sizes_[number] = std::max(between_sizes_[number], shapes_[value].channels * plane(value));
    }
}

int Program::take_slot(std::vector<int>& free, ptrdiff_t size) {
  auto best = free.end();
  for (auto it = free.begin(); it != free.end(); ++it) {
    const bool fits = slot_sizes_[*it] >= size;
    if (best == free.end() || (fits ? slot_sizes_[*best] < size || slot_sizes_[*it] < slot_sizes_[*best]
                                    : slot_sizes_[*best] < size && slot_sizes_[*it] > slot_sizes_[*best]))
      best = it;
  }
  if (best == free.end()) {
    slot_sizes_.push_back(size);
    return static_cast<int>(slot_sizes_.size()) - 1;
  }
  const int slot = *best;
  slot_sizes_[slot] = std::max(slot_sizes_[slot], size);
  free.erase(best);
  return slot;
}

}  // namespace prunus
