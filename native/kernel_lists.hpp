// The kernels of a layer in the order in which convolutions of windows use them: input by input, and for each domain
// the list of those that it uses. Outputs are divided into blocks whose sums stay in the cache.
#pragma once
#include <cstdint>
#include <vector>

#include "stored_arrays.hpp"

namespace prunus {

class KernelLists {
 public:
  // A layer's channels, and how many outputs form a block: 256 at most.
  struct Layout {
    int inputs, outputs, groups, block;
    bool stored_by_output;  // each group's kernels: 1x1 kernels are, larger ones are stored input by input

    int blocks() const { return (outputs + block - 1) / block; }
  };

  KernelLists(const Layout& layout, Bits kept, int domains);

  // The numbers that lists of so many domains need in addition to the kernels.
  static ptrdiff_t num_starts(const Layout& layout, int domains) {
    return (ptrdiff_t{domains} + 1) * layout.blocks() * (layout.inputs + 1);
  }
  // `used` has one bit per kept kernel, in stored order.
  void set_used(int domain, Bits used);

  const Layout& layout() const { return layout_; }
  ptrdiff_t num_kernels() const { return static_cast<ptrdiff_t>(outputs_.size()); }
  // The index of a kernel in stored order.
  ptrdiff_t stored(ptrdiff_t kernel) const { return stored_.empty() ? kernel : stored_[kernel]; }
  bool keeps_order() const { return stored_.empty(); }
  // [inputs]: the first kernel of each input within an output block.
  const uint32_t* kernels(ptrdiff_t block) const { return kernels_.data() + block * layout_.inputs; }
  // [inputs + 1]: where the used kernels of each input begin in the list of a domain.
  const uint32_t* start(int domain, ptrdiff_t block) const {
    return domains_[domain].start.data() + block * (layout_.inputs + 1);
  }
  // The used kernels of each input: an output of the block, plus 256 times the index among the input's kernels in the
  // block.
  const uint16_t* list(int domain) const { return domains_[domain].list.data(); }

 private:
  struct Used {
    std::vector<uint32_t> start;  // [output block][inputs + 1]
    std::vector<uint16_t> list;
  };

  Layout layout_;
  std::vector<uint32_t> kernels_;  // [output block][inputs]
  std::vector<uint8_t> outputs_;   // per kernel: its output within its output block
  std::vector<uint32_t> stored_;   // empty if the orders agree
  std::vector<Used> domains_;
};

}  // namespace prunus
