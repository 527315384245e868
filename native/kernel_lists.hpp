// The kernels of a layer, one by one or four of consecutive inputs together, in the order in which convolutions use
// them: input by input, and for each domain the list of those that it uses. Outputs are divided into blocks whose sums
// stay in the cache.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "stored_arrays.hpp"

namespace prunus {

class KernelLists {
 public:
  // A layer's channels, and how many outputs form a block: 256 at most.
  struct Layout {
    int inputs, outputs, groups, block;
    bool stored_by_output;  // each group's kernels: 1x1 kernels are, larger ones are stored input by input
    bool in_fours = false;  // four kernels of consecutive inputs are listed as one; only if stored_by_output

    int blocks() const { return (outputs + block - 1) / block; }
  };

  KernelLists(const Layout& layout, Bits kept, int domains);

  // The numbers that lists of so many domains need in addition to the kernels.
  static ptrdiff_t num_starts(const Layout& layout, int domains) {
    return (ptrdiff_t{domains} + 1) * layout.blocks() * (layout.inputs + 1);
  }
  // `used` has one bit per kept kernel, in stored order; of the kernels that are listed as one, the first counts.
  void set_used(int domain, Bits used);

  const Layout& layout() const { return layout_; }
  ptrdiff_t num_kernels() const { return static_cast<ptrdiff_t>(outputs_.size()); }
  // The index of a kernel in stored order, or of the first of four.
  ptrdiff_t stored(ptrdiff_t kernel) const { return stored_.empty() ? kernel : stored_[kernel]; }
  bool keeps_order() const { return stored_.empty(); }
  const uint32_t* stored() const { return stored_.data(); }
  // Per kernel: its output within its output block.
  const uint8_t* outputs() const { return outputs_.data(); }
  // [inputs]: the first kernel of each input within an output block.
  const uint32_t* kernels(ptrdiff_t block) const { return kernels_.data() + block * layout_.inputs; }
  // [inputs + 1]: where the used kernels of each input begin in the list of a domain.
  const uint32_t* start(int domain, ptrdiff_t block) const {
    return domains_[domain].start.data() + block * (layout_.inputs + 1);
  }
  // The used kernels of each input, as indices among its kernels within the output block.
  const uint8_t* list(int domain) const { return domains_[domain].list.data(); }

 private:
  struct Used {
    std::vector<uint32_t> start;  // [output block][inputs + 1]
    std::vector<uint8_t> list;
  };

  ptrdiff_t num_lists() const { return static_cast<ptrdiff_t>(layout_.blocks()) * layout_.inputs; }
  std::pair<int, int> place(ptrdiff_t number) const;

  Layout layout_;
  ptrdiff_t num_stored_ = 0;       // kernels, listed or not
  std::vector<uint32_t> kernels_;  // [output block][inputs]
  std::vector<uint8_t> outputs_;
  std::vector<uint32_t> stored_;  // empty if the orders agree
  std::vector<Used> domains_;
};

}  // namespace prunus
