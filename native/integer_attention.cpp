#include "integer_attention.hpp"

#include <algorithm>
#include <utility>

namespace prunus {

namespace {

ptrdiff_t in_blocks(ptrdiff_t count) { return (count + kBlock - 1) / kBlock * kBlock; }

// Numbers of 32 bits that a head needs as scratch memory.
ptrdiff_t attention_room(ptrdiff_t keys, ptrdiff_t dim, ptrdiff_t width, int group) {
  const ptrdiff_t channel_words = (dim + group - 1) / group, words = (keys + group - 1) / group;
  const ptrdiff_t tile = (keys + channel_words + words) * kAttentionMost * kBlock;
  return tile + (channel_words + 1) * in_blocks(keys) + width * (words + 1) + 7 * kBlock;
}

}  // namespace

CodedAttentionStep::CodedAttentionStep(AttentionLayout layout, std::vector<Domain> domains)
    : layout_(std::move(layout)), domains_(std::move(domains)), bias_(domains_.size()) {
  set_borders();
}

// Windows with borders between the same pixels share their numbers.
void CodedAttentionStep::set_borders() {
  pattern_.assign(layout_.num_windows(), -1);
  std::vector<std::vector<uint8_t>> known;
  const ptrdiff_t pixels = layout_.queries, row = in_blocks(pixels);
  for (size_t window = 0; window * pixels < layout_.regions.size() && layout_.spec.apart != 0.0f; window++) {
    const uint8_t* first = layout_.regions.data() + window * pixels;
    const std::vector<uint8_t> regions(first, first + pixels);
    if (std::all_of(first, first + pixels, [first](uint8_t region) { return region == *first; })) continue;
    const auto same = std::find(known.begin(), known.end(), regions);
    pattern_[window] = static_cast<int>(same - known.begin());
    if (same != known.end()) continue;
    known.push_back(regions);
    borders_.emplace_back(pixels * row);
    for (ptrdiff_t key = 0; key < pixels; key++)
      for (ptrdiff_t query = 0; query < pixels; query++)
        if (regions[query] != regions[key]) borders_.back().data()[key * row + query] = layout_.spec.apart;
  }
}

void CodedAttentionStep::set_bias(int domain, const float* bias) {
  if (!bias) return;
  const ptrdiff_t queries = layout_.queries, keys = layout_.keys, row = in_blocks(queries);
  AlignedBuffer& room = bias_.at(domain);
  room.grow(layout_.spec.heads * keys * row);
  for (ptrdiff_t head = 0; head < layout_.spec.heads; head++)
    for (ptrdiff_t query = 0; query < queries; query++)
      for (ptrdiff_t key = 0; key < keys; key++)
        room.data()[(head * keys + key) * row + query] = bias[(head * queries + query) * keys + key];
}

void CodedAttentionStep::settle(Program& program) {
  gathers_ = !layout_.windows.empty();
  for (int part = 0; part < 3; part++) {
    const Lattice& lattice = program.lattice(inputs[part]);
    gathers_ = gathers_ || (lattice.height > 1 && lattice.side > 0);
  }
  if (!gathers_) return;
  for (int part = 0; part < 3; part++) {
    const Lattice& lattice = program.lattice(inputs[part]);
    positions_.emplace_back();
    program.count_kept(layout_.num_windows() * pixels(part));
    for (ptrdiff_t p = 0; p < layout_.num_windows() * pixels(part); p++) {
      const ptrdiff_t pixel = layout_.windows.empty() ? p : layout_.windows[p];
      positions_.back().push_back(pixel / lattice.width * lattice.stride() + pixel % lattice.width);
    }
  }
  whole_.assign(in_blocks(layout_.queries), 255);
}

void CodedAttentionStep::run(const Run& run) const {
  const ptrdiff_t windows = layout_.num_windows(), heads = layout_.spec.heads;
  run.context.workers.for_each(run.images * windows * heads, [&](ptrdiff_t item, int worker) {
    attend(run, item / heads / windows, item / heads % windows, static_cast<int>(item % heads), worker);
  });
  if (gathers_)
    run.for_each_channel(run.program.shape(output).channels,
                         [&](ptrdiff_t image, ptrdiff_t c) { run.fill_padding(output, image, c); });
}

CodedAttentionStep::Planes CodedAttentionStep::planes(const Run& run, ptrdiff_t image, ptrdiff_t window, int head,
                                                      int part, uint8_t* room) const {
  const ptrdiff_t plane = run.program.lattice(inputs[part]).plane();
  const ptrdiff_t first = layout_.spec.first[part] + static_cast<ptrdiff_t>(head) * layout_.spec.step[part];
  const uint8_t* codes = run.codes(inputs[part], image) + first * plane;
  if (!gathers_) return {codes, plane};
  const ptrdiff_t row = in_blocks(pixels(part));
  const ptrdiff_t* positions = positions_[part].data() + window * pixels(part);
  for (ptrdiff_t c = 0; c < channels(part); c++)
    for (ptrdiff_t p = 0; p < pixels(part); p++) room[c * row + p] = codes[c * plane + positions[p]];
  return {room, row};
}

void CodedAttentionStep::attend(const Run& run, ptrdiff_t image, ptrdiff_t window, int head, int worker) const {
  const AttentionSpec& spec = layout_.spec;
  const Domain& d = domains_[run.domain];
  const IntegerKernels& kernels = run.program.integers();
  const ptrdiff_t row = in_blocks(layout_.queries);
  const ptrdiff_t numbers = attention_room(layout_.keys, spec.dim, spec.width, kernels.group);
  const ptrdiff_t gathered =
      gathers_ ? spec.dim * (row + in_blocks(layout_.keys)) + spec.width * (row + in_blocks(layout_.keys)) + 4 * kBlock
               : 0;
  AlignedBuffer& room = run.context.scratch[worker].kept;
  room.grow(numbers + gathered / static_cast<ptrdiff_t>(sizeof(float)));
  uint8_t* next = reinterpret_cast<uint8_t*>(room.data() + numbers);
  Planes sources[3];
  for (int part = 0; part < 3; part++) {
    sources[part] = planes(run, image, window, head, part, next);
    if (gathers_) next += channels(part) * sources[part].plane;
  }
  const Lattice& lattice = run.program.lattice(output);
  uint8_t* result = run.codes(output, image) + static_cast<ptrdiff_t>(head) * spec.width * lattice.plane();
  IntegerAttention j{};
  j.q = sources[0].codes;
  j.k = sources[1].codes;
  j.v = sources[2].codes;
  j.q_plane = sources[0].plane;
  j.k_plane = sources[1].plane;
  j.v_plane = sources[2].plane;
  j.queries = layout_.queries;
  j.keys = layout_.keys;
  j.dim = spec.dim;
  j.width = spec.width;
  j.q_zero = d.q_zero;
  j.v_zero = d.v_zero;
  j.multiplier = d.multiplier;
  j.factor = d.factor;
  j.bias = bias_[run.domain].data();
  if (j.bias) j.bias += head * layout_.keys * row;
  j.borders = pattern_[window] < 0 ? nullptr : borders_[pattern_[window]].data();
  j.row = row;
  j.pixels = gathers_ ? whole_.data() : lattice.pixels.data();
  j.zero = run.program.zero(output, run.domain);
  j.output = gathers_ ? next : result;
  j.output_plane = gathers_ ? row : lattice.plane();
  j.scratch = room.data();
  kernels.attention(j);
  if (!gathers_) return run.fill_ring(output, {image, 0, lattice.blocks(), head * spec.width, (head + 1) * spec.width});
  const ptrdiff_t* positions = positions_[0].data() + window * layout_.queries;
  for (ptrdiff_t c = 0; c < spec.width; c++)
    for (ptrdiff_t p = 0; p < layout_.queries; p++) result[c * lattice.plane() + positions[p]] = next[c * row + p];
}

}  // namespace prunus
