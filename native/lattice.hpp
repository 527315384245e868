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

namespace prunus {

struct Lattice {
  int height = 0, width = 0;
  ptrdiff_t side = 0, ring = 0;
  std::vector<uint8_t> pixels;  // per position of all blocks: 255 for a pixel, 0 for padding

  ptrdiff_t stride() const { return width + side; }
  ptrdiff_t positions() const { return height * stride() - side; }  // up to the last pixel
  ptrdiff_t blocks() const { return (positions() + kBlock - 1) / kBlock; }
  // Bytes of padding before the first and after the last block.
  ptrdiff_t margin() const { return (ring * stride() + side + kBlock - 1) / kBlock * kBlock; }
  // Bytes from one channel to the next: an odd number of blocks, which spreads channels over the cache.
  ptrdiff_t plane() const { return ((2 * margin() + blocks() * kBlock) / kBlock | 1) * kBlock; }

  void mark_pixels() {
    pixels.assign(static_cast<size_t>(blocks() * kBlock), 0);
    for (ptrdiff_t row = 0; row < height; row++)
      for (ptrdiff_t column = 0; column < width; column++) pixels[row * stride() + column] = 255;
  }
};

}  // namespace prunus
