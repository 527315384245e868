#include "integer_windows.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "cache_lines.hpp"

namespace prunus {

namespace {

constexpr ptrdiff_t kMostTaps = ptrdiff_t{1} << 16;  // far above any real window
constexpr ptrdiff_t kMostSpread = 1 << 18;           // bytes: what may stay in the L2 cache beside the rest
constexpr ptrdiff_t kMostOwned = 1 << 20;            // bytes of the rows that a worker copies for itself
constexpr ptrdiff_t kRowsCopied = 4;                 // that a thread copies
constexpr ptrdiff_t kMostRowsCopied = 16;            // per row of outputs: threads share copies of taller windows
constexpr ptrdiff_t kFewChannels = 4;                // per thread: with fewer, threads share the rows
constexpr ptrdiff_t kChannelsAhead = 16;             // that are asked for ahead
constexpr double kMostOfAChannel = 1ull << 30;       // bytes; far above any real image

}  // namespace

IntegerWindows::IntegerWindows(const WindowSpec& spec, const Shape& input, const Shape& output,
                               const IntegerKernels& kernels, bool is_depthwise)
    : spec_(spec),
      input_(input),
      output_(output),
      group_(kernels.group),
      step_(spec.stride[1] == 2 ? 2 : 1),
      across_(spec.stride[1] / step_),
      is_depthwise_(is_depthwise),
      spread_(kernels.spread) {
  if (static_cast<ptrdiff_t>(spec.kernel[0]) * spec.kernel[1] > kMostTaps)
    throw std::length_error("the window is too large for 8 bits");
  for (int y = 0; y < spec.kernel[0]; y++)
    for (int x = 0; x < spec.kernel[1]; x++) {
      const ptrdiff_t top = static_cast<ptrdiff_t>(y) * spec.dilation[0] - spec.pads[0];
      const ptrdiff_t left = static_cast<ptrdiff_t>(x) * spec.dilation[1] - spec.pads[1];
      const ptrdiff_t down = floor_div(top, spec.stride[0]), right = floor_div(left, across_);
      const ptrdiff_t phase = (top - down * spec.stride[0]) * across_ + (left - right * across_);
      taps_.push_back({y, x, down, right, phase});
      phases_.push_back(phase);
    }
  std::sort(phases_.begin(), phases_.end());
  phases_.erase(std::unique(phases_.begin(), phases_.end()), phases_.end());
  rows_ = {taps_[0].down, taps_[0].down};
  columns_ = {taps_[0].right, taps_[0].right};
  for (const Tap& tap : taps_) {
    rows_ = {std::min(rows_.first, tap.down), std::max(rows_.last, tap.down)};
    columns_ = {std::min(columns_.first, tap.right), std::max(columns_.last, tap.right)};
  }
  group_taps(group_);
  by_channel_ = is_depthwise && rows_.count() <= kMostRowsCopied && !in_place();
  if (is_depthwise || !can_spread()) spread_ = nullptr;
}

// Neighbours of a row are read at once; three of them fill a word of four well enough. All other taps are put together
// in any order.
void IntegerWindows::group_taps(int group) {
  std::vector<int> others;
  const bool may_be_neighbours = group == 4 && spec_.dilation[1] == 1 && across_ == 1;
  for (int y = 0; y < spec_.kernel[0]; y++) {
    int x = 0;
    for (; may_be_neighbours && x + 3 <= spec_.kernel[1]; x += 4) {
      const int first = y * spec_.kernel[1] + x;
      word_taps_.push_back({{first, first + 1, first + 2, x + 3 < spec_.kernel[1] ? first + 3 : -1}, true});
    }
    for (; x < spec_.kernel[1]; x++) others.push_back(y * spec_.kernel[1] + x);
  }
  for (size_t t = 0; t < others.size(); t += group) {
    Word word{{-1, -1, -1, -1}, false};
    for (size_t i = t; i < std::min(others.size(), t + group); i++) word.taps[i - t] = others[i];
    word_taps_.push_back(word);
  }
}

bool IntegerWindows::in_place() const {
  return spec_.stride[0] == 1 && spec_.stride[1] == 1 && input_.height == output_.height &&
         input_.width == output_.width;
}

ptrdiff_t IntegerWindows::reach(const Lattice& lattice) const {
  return (rows_.reach() * lattice.stride() + columns_.reach() + kBlock - 1) / kBlock;
}

bool IntegerWindows::can_spread() const {
  const double rows = static_cast<double>(phases_.size()) * (output_.height + rows_.count() - 1);
  return spread_ && spec_.kernel[1] == 3 && spec_.dilation[1] == 1 && across_ == 1 && spec_.pads[1] <= 2 &&
         rows * (output_.width + 1) * 4 * input_.channels <= kMostSpread;
}

void IntegerWindows::announce(Program& program, int input, int output) const {
  if (spread_) return;
  if (in_place()) {
    program.need_ring(input, rows_.reach(), columns_.reach());
  } else {
    program.need_side(output, (columns_.count() + step_ - 1) / step_ - 1);  // a window at the end of a row fits the row
  }
}

void IntegerWindows::settle(Program& program, int input, int output) {
  if (spread_) {
    settle_spread(program, program.lattice(output));
  } else if (in_place()) {
    settle_in_place(program.lattice(input));
  } else {
    settle_copy(program, input, program.lattice(output));
  }
}

void IntegerWindows::settle_in_place(const Lattice& lattice) {
  channel_ = lattice.plane();
  std::vector<ptrdiff_t> offsets;
  for (const Tap& tap : taps_) offsets.push_back(tap.down * lattice.stride() + tap.right);
  set_offsets(offsets);
}

void IntegerWindows::settle_spread(Program& program, const Lattice& lattice) {
  copied_row_ = 4 * lattice.stride();
  const ptrdiff_t rows = output_.height + rows_.count() - 1;
  if (static_cast<double>(rows) * copied_row_ * static_cast<double>(phases_.size()) > kMostOfAChannel)
    throw std::length_error("the window and the image are too large together");
  copied_phase_ = rows * copied_row_ + 4 * kBlock;  // a block is written past the last row, and more is read
  const ptrdiff_t bytes = static_cast<ptrdiff_t>(phases_.size()) * copied_phase_ + 4 * lattice.side;
  channel_ = ((bytes + kLine - 1) / kLine | 1) * kLine;
  program.need_scratch(input_.channels * channel_ + CopyRoom::kMargin);
  std::vector<ptrdiff_t> offsets;
  for (const Tap& tap : taps_) {
    const ptrdiff_t index = std::lower_bound(phases_.begin(), phases_.end(), tap.phase) - phases_.begin();
    offsets.push_back(index * copied_phase_ + (tap.down - rows_.first) * copied_row_);
  }
  set_offsets(offsets);
  program.count_kept(rows * copied_row_);
  inside_.assign(rows * copied_row_ + 4 * kBlock, 255);
  for (ptrdiff_t c = 0; c < output_.width; c++)
    for (ptrdiff_t x = 0; x < spec_.kernel[1]; x++) {
      const ptrdiff_t column = step_ * c + columns_.first + x;
      const bool is_inside = column >= 0 && column < input_.width;
      for (ptrdiff_t r = 0; r < rows && !is_inside; r++) inside_[r * copied_row_ + 4 * c + x] = 0;
    }
}

void IntegerWindows::settle_copy(Program& program, int input, const Lattice& lattice) {
  copied_row_ = step_ * lattice.stride();
  const ptrdiff_t phases = static_cast<ptrdiff_t>(phases_.size());
  if (static_cast<double>(copied_rows()) * copied_row_ * phases > kMostOfAChannel)
    throw std::length_error("the window and the image are too large together");
  copied_phase_ = copied_rows() * copied_row_;
  channel_ = ((phases * copied_phase_ / kBlock + 1) | 1) * kBlock + kBlock;  // blocks are read past the last row
  std::vector<ptrdiff_t> offsets;
  for (const Tap& tap : taps_) {
    const ptrdiff_t index = std::lower_bound(phases_.begin(), phases_.end(), tap.phase) - phases_.begin();
    offsets.push_back(index * copied_phase_ + (tap.down - rows_.first) * copied_row_ + tap.right - columns_.first);
  }
  set_offsets(offsets);
  if (by_channel_) return program.need_scratch(channel_ + CopyRoom::kMargin);
  const ptrdiff_t bytes = input_.channels * channel_ + CopyRoom::kMargin;
  if (!is_depthwise_ && program.threads() > 1 && lattice.is_divided() && bytes <= kMostOwned) {
    by_worker_ = true;
    return program.need_scratch(bytes);
  }
  std::vector<ptrdiff_t> recipe{0,           input,         spec_.stride[0], across_,
                                copied_row_, copied_phase_, rows_.first,     columns_.first};
  recipe.insert(recipe.end(), phases_.begin(), phases_.end());
  copy_ = program.add_copy(recipe, input_.channels * channel_);
}

void IntegerWindows::set_offsets(const std::vector<ptrdiff_t>& offset_of_tap) {
  for (const Word& word : word_taps_) {
    neighbours_.push_back(word.neighbours);
    for (int g = 0; g < group_; g++)  // what a missing tap reads is multiplied by 0
      offsets_.push_back(offset_of_tap[word.taps[word.taps[g] < 0 ? 0 : g]]);
  }
}

void IntegerWindows::prepare(const Run& run, int input) const {
  if (copy_ < 0) return;
  CopyRoom& room = run.context.copy;
  if (room.holds == copy_) return;
  const ptrdiff_t size = input_.channels * channel_;
  uint8_t* copies = room.grow(run.images * size);
  const Lattice& lattice = run.program.lattice(input);
  const uint8_t zero = run.program.zero(input, run.domain);
  const auto work = [&](const Piece& piece, int) {
    for (ptrdiff_t c = piece.first_channel; c < piece.last_channel; c++)
      copy_rows(run.codes(input, piece.image) + c * lattice.plane(), lattice, zero,
                {piece.first_block, piece.last_block - 1}, copies + piece.image * size + c * channel_);
  };
  const ptrdiff_t rows = copied_rows();
  const bool by_rows = input_.channels < kFewChannels * run.program.threads();
  run.for_each_piece(rows, input_.channels, work, 1, {kRowsCopied, by_rows ? 0 : rows});
  room.holds = copy_;
}

const uint8_t* IntegerWindows::copied_channel(const Run& run, int input, const Piece& piece, ptrdiff_t channel,
                                              int worker) const {
  const Lattice& lattice = run.program.lattice(input);
  const uint8_t* plane = run.codes(input, piece.image) + channel * lattice.plane();
  AlignedBuffer& room = run.context.scratch[worker].widened;
  room.grow((channel_ + CopyRoom::kMargin) / static_cast<ptrdiff_t>(sizeof(float)));
  uint8_t* copy = reinterpret_cast<uint8_t*>(room.data());
  copy_rows(plane, lattice, run.program.zero(input, run.domain), rows_read(piece), copy);
  return copy;
}

void IntegerWindows::fetch_channel(const Run& run, int input, const Piece& piece, ptrdiff_t channel) const {
  const Lattice& lattice = run.program.lattice(input);
  const Range bytes = bytes_of(rows_read(piece), lattice);
  fetch(run.codes(input, piece.image) + channel * lattice.plane() + bytes.first, bytes.count());
}

// Which bytes of a plane some rows of the copy come from, with a block before and after them.
IntegerWindows::Range IntegerWindows::bytes_of(const Range& rows, const Lattice& lattice) const {
  const ptrdiff_t first = std::max<ptrdiff_t>((rows.first + rows_.first) * spec_.stride[0], 0);
  const ptrdiff_t end = std::min<ptrdiff_t>((rows.last + rows_.first + 1) * spec_.stride[0], input_.height);
  return {first * lattice.stride() - kBlock, end * lattice.stride() + kBlock - 1};
}

// Which rows of the copy the outputs of a piece read.
IntegerWindows::Range IntegerWindows::rows_read(const Piece& piece) const {
  const ptrdiff_t spacing = copied_row_ / (spread_ ? 4 : step_);
  const ptrdiff_t last = (piece.last_block * kBlock + spacing - 1) / spacing;
  return {piece.first_block * kBlock / spacing, std::min<ptrdiff_t>(last, output_.height) + rows_.count() - 2};
}

const uint8_t* IntegerWindows::prepared(const Run& run, int input, const Piece& piece, int worker) const {
  if (spread_ || by_worker_) return own_copy(run, input, piece, worker);
  if (copy_ < 0) return run.codes(input, piece.image);
  return run.context.copy.data() + piece.image * input_.channels * channel_;
}

// A worker copies or spreads the rows that its pieces read. They are mostly in order, so the rows of the one before are
// kept.
const uint8_t* IntegerWindows::own_copy(const Run& run, int input, const Piece& piece, int worker) const {
  Scratch& scratch = run.context.scratch[worker];
  scratch.widened.grow((input_.channels * channel_ + CopyRoom::kMargin) / static_cast<ptrdiff_t>(sizeof(float)));
  uint8_t* copy = reinterpret_cast<uint8_t*>(scratch.widened.data());
  Range rows = rows_read(piece);
  const bool is_new = scratch.copied_by != this || scratch.copied_in != run.serial;
  if (is_new || scratch.copied_image != piece.image || rows.first < scratch.copied_first ||
      rows.first > scratch.copied_end) {
    scratch.copied_by = this;
    scratch.copied_in = run.serial;
    scratch.copied_image = piece.image;
    scratch.copied_first = scratch.copied_end = rows.first;
  }
  rows.first = scratch.copied_end;
  if (rows.last < rows.first) return copy;
  scratch.copied_end = rows.last + 1;
  const Lattice& lattice = run.program.lattice(input);
  const uint8_t* planes = run.codes(input, piece.image);
  const uint8_t zero = run.program.zero(input, run.domain);
  const bool keeps_rows = spec_.stride[0] == 1 && step_ == 1 && copied_row_ == 4 * lattice.stride();
  const Range bytes = bytes_of(rows, lattice);
  const ptrdiff_t ahead = run.program.threads() > 1 ? kChannelsAhead : input_.channels;  // that is, none
  for (ptrdiff_t c = 0; c < input_.channels; c++, planes += lattice.plane()) {
    if (c + ahead < input_.channels) fetch(planes + ahead * lattice.plane() + bytes.first, bytes.count());
    uint8_t* to = copy + c * channel_;
    if (!spread_) {
      copy_rows(planes, lattice, zero, rows, to);
    } else if (keeps_rows) {
      spread_plane(planes, lattice, zero, rows, to);
    } else {
      spread_rows(planes, lattice, zero, rows, to);
    }
  }
  return copy;
}

// If the rows of the copy have the spacing of the input's, they are spread all at once.
void IntegerWindows::spread_plane(const uint8_t* from, const Lattice& lattice, uint8_t zero, const Range& rows,
                                  uint8_t* to) const {
  const ptrdiff_t end = rows.last + 1;
  const ptrdiff_t first = std::clamp<ptrdiff_t>(-rows_.first, rows.first, end);  // inside the image, and the last
  const ptrdiff_t last = std::clamp<ptrdiff_t>(input_.height - rows_.first, first, end);
  std::memset(to + rows.first * copied_row_, zero, (first - rows.first) * copied_row_);
  spread_(from + (first + rows_.first) * lattice.stride() + columns_.first, 1,
          ((last - first) * lattice.stride() + kBlock - 1) / kBlock, inside_.data(), zero, to + first * copied_row_);
  std::memset(to + last * copied_row_, zero, (end - last) * copied_row_);
}

// Rows are spread in order, in whole blocks: what one writes past its end, the next overwrites.
void IntegerWindows::spread_rows(const uint8_t* from, const Lattice& lattice, uint8_t zero, const Range& rows,
                                 uint8_t* to) const {
  const ptrdiff_t blocks = (output_.width + kBlock - 1) / kBlock;
  for (ptrdiff_t phase : phases_) {
    for (ptrdiff_t r = rows.first; r <= rows.last; r++) {
      const ptrdiff_t row = (r + rows_.first) * spec_.stride[0] + phase;
      if (row < 0 || row >= input_.height) {
        std::memset(to + r * copied_row_, zero, copied_row_);
        continue;
      }
      spread_(from + row * lattice.stride() + columns_.first, step_, blocks, inside_.data(), zero,
              to + r * copied_row_);
    }
    to += copied_phase_;
  }
}

// Copy some rows of a channel. Another thread may copy the next ones, so nothing is written past the end of the last.
void IntegerWindows::copy_rows(const uint8_t* from, const Lattice& lattice, uint8_t zero, const Range& rows,
                               uint8_t* to) const {
  for (ptrdiff_t phase : phases_) {
    const ptrdiff_t down = phase / across_, right = phase % across_;
    const Range inside = columns_inside(right);
    uint8_t* place = to + rows.first * copied_row_;
    for (ptrdiff_t r = rows.first; r <= rows.last; r++, place += copied_row_) {
      const ptrdiff_t row = (r + rows_.first) * spec_.stride[0] + down;
      if (row < 0 || row >= input_.height) {
        std::memset(place, zero, copied_row_);
      } else if ((rows.last - r) * copied_row_ >= kBlock) {
        copy_row(from + row * lattice.stride(), right, inside, zero, place);
      } else {
        copy_exactly(from + row * lattice.stride(), right, inside, zero, place);
      }
    }
    to += copied_phase_;
  }
}

// Which columns of the copy lie inside the image.
IntegerWindows::Range IntegerWindows::columns_inside(ptrdiff_t phase) const {
  const ptrdiff_t extent = input_.width > phase ? (input_.width - phase + across_ - 1) / across_ : 0;
  const ptrdiff_t first = std::clamp<ptrdiff_t>(-columns_.first, 0, copied_row_);
  return {first, std::clamp<ptrdiff_t>(extent - columns_.first, first, copied_row_) - 1};
}

// Rows are copied in order, in whole blocks: what one writes past its end, the next overwrites.
void IntegerWindows::copy_row(const uint8_t* from, ptrdiff_t phase, const Range& inside, uint8_t zero,
                              uint8_t* to) const {
  for (ptrdiff_t c = 0; c < inside.first; c += kBlock) std::memset(to + c, zero, kBlock);
  if (across_ == 1) {
    for (ptrdiff_t c = inside.first; c <= inside.last; c += kBlock)
      std::memcpy(to + c, from + c + columns_.first, kBlock);
  } else {
    for (ptrdiff_t c = inside.first; c <= inside.last; c++) to[c] = from[(c + columns_.first) * across_ + phase];
  }
  for (ptrdiff_t c = inside.last + 1; c < copied_row_; c += kBlock) std::memset(to + c, zero, kBlock);
}

void IntegerWindows::copy_exactly(const uint8_t* from, ptrdiff_t phase, const Range& inside, uint8_t zero,
                                  uint8_t* to) const {
  std::memset(to, zero, inside.first);
  if (across_ == 1) {
    std::memcpy(to + inside.first, from + inside.first + columns_.first, inside.count());
  } else {
    for (ptrdiff_t c = inside.first; c <= inside.last; c++) to[c] = from[(c + columns_.first) * across_ + phase];
  }
  std::memset(to + inside.last + 1, zero, copied_row_ - inside.last - 1);
}

}  // namespace prunus
