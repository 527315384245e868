// How the work of a step is divided: by image, blocks of pixels and ranges of channels.
//
// Reading what another core has written is slow. Therefore each thread gets the same part of every plane and mostly
// reads what it has written itself. If planes are small, it gets the same range of channels instead.
#pragma once
#include <algorithm>
#include <cstddef>

namespace prunus {

// How finely planes are divided. Threads that write to the same cache lines are slow, and codes have four times as many
// blocks in a line as floats.
struct Grain {
  ptrdiff_t tile;  // blocks that stay together if there are many
  ptrdiff_t few;   // planes of at most so many blocks are not divided if there are enough channels
};
constexpr Grain kFloats{3, 8}, kCodes{32, 8};

struct Piece {
  ptrdiff_t image, first_block, last_block;
  int first_channel, last_channel;
};

class Partition {
 public:
  // `unit` channels stay together.
  Partition(ptrdiff_t images, ptrdiff_t blocks, int channels, int threads, int unit = 1, const Grain& grain = kFloats)
      : images_(images),
        blocks_(blocks),
        units_((channels + unit - 1) / unit),
        unit_(unit),
        channels_(channels),
        tile_(grain.tile) {
    if (threads == 1) return;
    if (blocks > grain.few || units_ < threads) {
      bands_ = std::min<ptrdiff_t>(blocks, threads);
      const ptrdiff_t tiles = ((blocks + bands_ - 1) / bands_ + tile_ - 1) / tile_;
      parts_ = std::min(tiles, kPerThread);
      whole_tiles_ = tiles > kPerThread;
    }
    const ptrdiff_t needed = (kPerThread * threads + bands_ * parts_ - 1) / (bands_ * parts_);
    if (bands_ * parts_ < kPerThread * threads) groups_ = std::min<ptrdiff_t>(units_, needed);
  }

  ptrdiff_t count() const { return images_ * bands_ * parts_ * groups_; }

  // The pieces of one part of a plane are consecutive, so a thread's share is a band of the plane.
  Piece operator[](ptrdiff_t item) const {
    const ptrdiff_t group = item % groups_, part = item / groups_ % (bands_ * parts_),
                    image = item / groups_ / (bands_ * parts_);
    return {image, block(part), block(part + 1), channel(group), channel(group + 1)};
  }

 private:
  static constexpr ptrdiff_t kPerThread = 8;  // pieces; threads that finish early take over some of the others'

  ptrdiff_t block(ptrdiff_t part) const {
    const ptrdiff_t band = part / parts_, begin = blocks_ * band / bands_, size = blocks_ * (band + 1) / bands_ - begin;
    const ptrdiff_t within = part % parts_, tiles = (size + tile_ - 1) / tile_;
    return begin + (whole_tiles_ ? tiles * within / parts_ * tile_ : size * within / parts_);
  }
  int channel(ptrdiff_t group) const {
    return static_cast<int>(std::min<ptrdiff_t>(channels_, units_ * group / groups_ * unit_));
  }

  ptrdiff_t images_, blocks_, units_, unit_, channels_, tile_;
  ptrdiff_t bands_ = 1, parts_ = 1, groups_ = 1;
  bool whole_tiles_ = false;
};

}  // namespace prunus
