// Where the codes of a window are: convolutions of any stride, padding and dilation as reads of words.
//
// With stride 1 and equal sizes, windows read the value in place, with its padding. Otherwise they read a copy whose
// rows have the spacing of the output's, so that an output position p reads position step * p. A stride of 2 across is
// a step of 2. A larger one splits the columns, and every stride down splits the rows, into planes (phases) of every
// n-th.
//
// Small inputs of windows of three columns are spread: each thread makes a copy of its own in which every position
// holds the word of its three neighbours. Their planes need no padding, and all blocks of outputs use the same words.
//
// Threads that divide the planes copy the rows that they need for themselves, just before they read them: of all
// channels, or, where an output reads one channel only, of that channel.
#pragma once
#include <vector>

#include "windows.hpp"

namespace prunus {

class IntegerWindows {
 public:
  // Taps of the window in one word; -1 for none.
  struct Word {
    int taps[kMaxGroup];
    bool neighbours;
  };

  IntegerWindows(const WindowSpec& spec, const Shape& input, const Shape& output, const IntegerKernels& kernels,
                 bool is_depthwise);

  int num_taps() const { return static_cast<int>(taps_.size()); }
  const std::vector<Word>& words() const { return word_taps_; }
  // Tell the program what padding the input, or the output's spacing, needs.
  void announce(Program& program, int input, int output) const;
  // Call it when the padding of all values is known.
  void settle(Program& program, int input, int output);
  // Copy the input of all images if necessary.
  void prepare(const Run& run, int input) const;
  // Whether windows read the input where it lies.
  bool in_place() const;
  // How many blocks before and after those of an output they then read.
  ptrdiff_t reach(const Lattice& lattice) const;
  bool by_channel() const { return by_channel_; }
  // The first channel of a prepared image, with what the outputs of some blocks read, and the bytes from one channel to
  // the next.
  const uint8_t* prepared(const Run& run, int input, const Piece& piece, int worker) const;
  // A worker's copy of one channel, with what the outputs of some blocks read of it.
  const uint8_t* copied_channel(const Run& run, int input, const Piece& piece, ptrdiff_t channel, int worker) const;
  // Ask for what it is made of, because another core may have written it.
  void fetch_channel(const Run& run, int input, const Piece& piece, ptrdiff_t channel) const;
  ptrdiff_t channel() const { return channel_; }
  Words reads() const {
    return {static_cast<int>(word_taps_.size()), spread_ ? 4 : step_, offsets_.data(), neighbours_.data()};
  }

 private:
  struct Tap {
    int row, column;        // of the window
    ptrdiff_t down, right;  // in rows and columns of its phase
    ptrdiff_t phase;        // row phase x stride across + column phase
  };
  struct Range {
    ptrdiff_t first, last;
    ptrdiff_t count() const { return last - first + 1; }
    ptrdiff_t reach() const { return first < 0 && -first > last ? -first : last > 0 ? last : 0; }
  };

  void group_taps(int group);
  bool can_spread() const;
  void settle_spread(Program& program, const Lattice& lattice);
  const uint8_t* own_copy(const Run& run, int input, const Piece& piece, int worker) const;
  void spread_plane(const uint8_t* from, const Lattice& lattice, uint8_t zero, const Range& rows, uint8_t* to) const;
  void spread_rows(const uint8_t* from, const Lattice& lattice, uint8_t zero, const Range& rows, uint8_t* to) const;
  Range rows_read(const Piece& piece) const;
  Range bytes_of(const Range& rows, const Lattice& lattice) const;
  void settle_in_place(const Lattice& lattice);
  void settle_copy(Program& program, int input, const Lattice& lattice);
  void set_offsets(const std::vector<ptrdiff_t>& offset_of_tap);
  ptrdiff_t copied_rows() const { return output_.height + rows_.count() - 1; }
  void copy_rows(const uint8_t* from, const Lattice& lattice, uint8_t zero, const Range& rows, uint8_t* to) const;
  Range columns_inside(ptrdiff_t phase) const;
  void copy_row(const uint8_t* from, ptrdiff_t phase, const Range& inside, uint8_t zero, uint8_t* to) const;
  void copy_exactly(const uint8_t* from, ptrdiff_t phase, const Range& inside, uint8_t zero, uint8_t* to) const;

  WindowSpec spec_;
  Shape input_, output_;
  bool by_channel_ = false;  // each thread copies the channels that it reads
  bool by_worker_ = false;   // each thread copies the rows that it reads
  int group_;
  int step_;    // bytes between the reads of neighbouring positions
  int across_;  // the stride across that phases take care of
  bool is_depthwise_;
  Spread spread_;                // null if the input is not spread
  std::vector<uint8_t> inside_;  // of the words of all rows: 255 for bytes in columns of the image, otherwise 0
  std::vector<Tap> taps_;
  Range rows_, columns_;  // of the taps' shifts
  std::vector<Word> word_taps_;
  std::vector<ptrdiff_t> offsets_;
  std::vector<uint8_t> neighbours_;
  int copy_ = -1;                  // its number in the program
  std::vector<ptrdiff_t> phases_;  // sorted
  ptrdiff_t copied_row_ = 0, copied_phase_ = 0, channel_ = 0;
};

}  // namespace prunus
