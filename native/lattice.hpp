// How a value of 8-bit codes is stored: one byte per number, in planes with padding, one plane per channel.
//
// A plane is a flat run of rows. Each row is followed by `side` columns of padding, which are the left padding of the
// next row at the same time, and there are `ring` rows of padding above and below. Padding holds the code of zero, so
// windows read it like pixels. All values of one size share one lattice, and an output has the position of its pixel.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels.hpp"
#include "partition.hpp"

namespace prunus {

struct Lattice {
  int height = 0, width = 0;
  ptrdiff_t side = 0, ring = 0;
  std::vector<uint8_t> pixels;  // per position of all blocks: 255 for a pixel, 0 for padding

  bool is_divided() const { return blocks() > kCodes.few; }  // if there are threads

  ptrdiff_t stride() const { return width + side; }
  ptrdiff_t positions() const { return height * stride() - side; }  // up to the last pixel
  ptrdiff_t blocks() const { return (positions() + kBlock - 1) / kBlock; }
  // Bytes of padding that windows read before the first and after the last block.
  ptrdiff_t padding() const { return (ring * stride() + side + kBlock - 1) / kBlock * kBlock; }
  // Bytes before the first block. Threads that divide a plane in the middle write to cache lines of their own.
  ptrdiff_t margin() const { return margin_; }
  // Bytes from one channel to the next: an odd number of lines or blocks, which spreads channels over the cache.
  // Windows may read a block past the padding, and another thread may be writing the next channel.
  ptrdiff_t plane() const { return plane_; }

  // Call it when the padding is known.
  void settle() {
    const ptrdiff_t beyond = (padding() + blocks() / 2 * kBlock) % kLine, unit = is_divided() ? kLine : kBlock;
    margin_ = padding() + (is_divided() && beyond ? kLine - beyond : 0);
    plane_ = ((margin_ + blocks() * kBlock + padding() + kBlock + unit - 1) / unit | 1) * unit;
  }

  void mark_pixels() {
    pixels.assign(static_cast<size_t>(blocks() * kBlock), 0);
    for (ptrdiff_t row = 0; row < height; row++)
      for (ptrdiff_t column = 0; column < width; column++) pixels[row * stride() + column] = 255;
  }

 private:
  ptrdiff_t margin_ = 0, plane_ = 0;
};

}  // namespace prunus
