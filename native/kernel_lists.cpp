#include "kernel_lists.hpp"

#include <algorithm>

namespace prunus {

// In fours, `kept` has four bits per input of the layout.
KernelLists::KernelLists(const Layout& layout, Bits kept, int domains) : layout_(layout), domains_(domains) {
  const int group_inputs = layout.inputs / layout.groups, group_outputs = layout.outputs / layout.groups;
  const ptrdiff_t all = static_cast<ptrdiff_t>(layout.outputs) * group_inputs, unit = layout.in_fours ? 4 : 1;
  const auto listed = [&](ptrdiff_t k) { return layout.in_fours ? kept.four(k) == 0xf : kept[k]; };
  num_stored_ = kept.count(0, all * unit);
  std::vector<uint32_t> rank(layout.stored_by_output ? all : 0);
  for (ptrdiff_t k = 0, next = 0; k < static_cast<ptrdiff_t>(rank.size()); k++) {
    rank[k] = static_cast<uint32_t>(next);
    next += layout.in_fours ? __builtin_popcount(kept.four(k)) : kept[k];
  }
  const ptrdiff_t count = num_stored_ / unit;  // or fewer, where a four is not whole
  outputs_.reserve(count);
  if (layout.stored_by_output) stored_.reserve(count);
  kernels_.resize(num_lists());
  for (ptrdiff_t number = 0; number < num_lists(); number++) {
    const auto [block, i] = place(number);
    const int group = i / group_inputs, within = i % group_inputs, first = group * group_outputs;
    const int begin = std::max(block * layout.block, first) - first,
              end = std::min((block + 1) * layout.block, first + group_outputs) - first;
    kernels_[static_cast<size_t>(block) * layout.inputs + i] = static_cast<uint32_t>(outputs_.size());
    for (ptrdiff_t o = begin; o < end; o++) {
      const ptrdiff_t stored =
          static_cast<ptrdiff_t>(first) * group_inputs +
          (layout.stored_by_output ? o * group_inputs + within : static_cast<ptrdiff_t>(within) * group_outputs + o);
      if (!listed(stored)) continue;
      outputs_.push_back(static_cast<uint8_t>((first + o) % layout.block));
      if (layout.stored_by_output) stored_.push_back(rank[stored]);
    }
  }
}

// Which output block and input the number-th list of kept kernels belongs to. Kernels that are stored input by input
// stay in this order. Others are listed block by block, so that computing a block reads memory in order.
std::pair<int, int> KernelLists::place(ptrdiff_t number) const {
  const ptrdiff_t each = layout_.stored_by_output ? layout_.inputs : layout_.blocks();
  const int major = static_cast<int>(number / each), minor = static_cast<int>(number % each);
  return layout_.stored_by_output ? std::pair(major, minor) : std::pair(minor, major);
}

void KernelLists::set_used(int domain, Bits used) {
  Used& d = domains_.at(domain);
  d = {};
  d.list.reserve(used.count(0, num_stored_) / (layout_.in_fours ? 4 : 1));
  const int inputs = layout_.inputs, blocks = layout_.blocks();
  for (int block = 0; block < blocks; block++) {
    for (int i = 0; i < inputs; i++) {
      d.start.push_back(static_cast<uint32_t>(d.list.size()));
      const ptrdiff_t next =
          1 + (layout_.stored_by_output ? ptrdiff_t{block} * inputs + i : ptrdiff_t{i} * blocks + block);
      const uint32_t first = kernels(block)[i];
      uint32_t last = static_cast<uint32_t>(num_kernels());
      if (next < num_lists()) {
        const auto [next_block, next_input] = place(next);
        last = kernels(next_block)[next_input];
      }
      for (uint32_t k = first; k < last; k++)
        if (used[stored(k)]) d.list.push_back(static_cast<uint8_t>(k - first));
    }
    d.start.push_back(static_cast<uint32_t>(d.list.size()));
  }
}

}  // namespace prunus
