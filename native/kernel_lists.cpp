#include "kernel_lists.hpp"

namespace prunus {

KernelLists::KernelLists(const Layout& layout, Bits kept, int domains) : layout_(layout), domains_(domains) {
  const int group_inputs = layout.inputs / layout.groups, group_outputs = layout.outputs / layout.groups;
  const ptrdiff_t all = static_cast<ptrdiff_t>(layout.outputs) * group_inputs;
  std::vector<uint32_t> rank(layout.stored_by_output ? all : 0);
  for (size_t k = 0, next = 0; k < rank.size(); k++) rank[k] = static_cast<uint32_t>(kept[k] ? next++ : next);
  outputs_.reserve(kept.count(0, all));
  kernels_.resize(static_cast<size_t>(layout.blocks()) * layout.inputs);
  for (int i = 0; i < layout.inputs; i++) {
    const int group = i / group_inputs, within = i % group_inputs;
    int block = 0;  // all blocks before this one have begun
    const auto begin = [&](int until) {
      for (; block < until; block++)
        kernels_[static_cast<size_t>(block) * layout.inputs + i] = static_cast<uint32_t>(outputs_.size());
    };
    for (int o = 0; o < group_outputs; o++) {
      const int output = group * group_outputs + o;
      begin(output / layout.block + 1);
      const ptrdiff_t stored = static_cast<ptrdiff_t>(group) * group_outputs * group_inputs +
                               (layout.stored_by_output ? static_cast<ptrdiff_t>(o) * group_inputs + within
                                                        : static_cast<ptrdiff_t>(within) * group_outputs + o);
      if (!kept[stored]) continue;
      outputs_.push_back(static_cast<uint8_t>(output % layout.block));
      if (layout.stored_by_output) stored_.push_back(rank[stored]);
    }
    begin(layout.blocks());
  }
}

void KernelLists::set_used(int domain, Bits used) {
  Used& d = domains_.at(domain);
  d = {};
  d.list.reserve(used.count(0, num_kernels()));
  const int inputs = layout_.inputs, blocks = layout_.blocks();
  for (int block = 0; block < blocks; block++) {
    for (int i = 0; i < inputs; i++) {
      d.start.push_back(static_cast<uint32_t>(d.list.size()));
      const uint32_t first = kernels(block)[i];
      // the kernels of an input are consecutive, output block by output block; the next input follows
      const bool is_last = block + 1 == blocks && i + 1 == inputs;
      const uint32_t last = is_last              ? static_cast<uint32_t>(num_kernels())
                            : block + 1 < blocks ? kernels(block + 1)[i]
                                                 : kernels(0)[i + 1];
      for (uint32_t k = first; k < last; k++)
        if (used[stored(k)]) d.list.push_back(static_cast<uint16_t>((k - first) << 8 | outputs_[k]));
    }
    d.start.push_back(static_cast<uint32_t>(d.list.size()));
  }
}

}  // namespace prunus
