// How the work of a step is divided: images, blocks of pixels, ranges of channels.
//
// Numbers that another core has written are slow to come. So every thread has the same part of every plane, and most of what
// it reads it has written itself; where planes are small, it has the same part of the channels instead.
#pragma once
#include <algorithm>

namespace prunus {

constexpr long kFewBlocks = 8;  // a plane of so few is not divided, if there are channels enough

struct Piece {
  long image, first_block, last_block;
  int first_channel, last_channel;
};

class Pieces {
 public:
  // `unit`: channels that stay together; `tile`: blocks that do, where there are many.
  Pieces(long images, long blocks, int channels, int threads, int unit = 1, long tile = 3)
      : images_(images), blocks_(blocks), units_((channels + unit - 1) / unit), unit_(unit), channels_(channels), tile_(tile) {
    if (threads == 1) return;
    if (blocks > kFewBlocks || units_ < threads) {
      bands_ = std::min<long>(blocks, threads);
      const long tiles = ((blocks + bands_ - 1) / bands_ + tile - 1) / tile;
      parts_ = std::min(tiles, kPerThread);
      whole_tiles_ = tiles > kPerThread;
    }
    const long wanted = (kPerThread * threads + bands_ * parts_ - 1) / (bands_ * parts_);
    if (bands_ * parts_ < kPerThread * threads) groups_ = std::min<long>(units_, wanted);
  }

  long count() const { return images_ * bands_ * parts_ * groups_; }

  // Pieces of one part of a plane follow each other, then those of the next part: a thread's share is a band of the plane.
  Piece operator[](long item) const {
    const long group = item % groups_, part = item / groups_ % (bands_ * parts_), image = item / groups_ / (bands_ * parts_);
    return {image, block(part), block(part + 1), channel(group), channel(group + 1)};
  }

 private:
  static constexpr long kPerThread = 8;  // pieces, so that one who is done early can help

  long block(long part) const {
    const long band = part / parts_, begin = blocks_ * band / bands_, size = blocks_ * (band + 1) / bands_ - begin;
    const long within = part % parts_, tiles = (size + tile_ - 1) / tile_;
    return begin + (whole_tiles_ ? tiles * within / parts_ * tile_ : size * within / parts_);
  }
  int channel(long group) const { return static_cast<int>(std::min<long>(channels_, units_ * group / groups_ * unit_)); }

  long images_, blocks_, units_, unit_, channels_, tile_;
  long bands_ = 1, parts_ = 1, groups_ = 1;
  bool whole_tiles_ = false;
};

}  // namespace prunus
