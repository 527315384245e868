#include "integer_pointwise.hpp"

#include <algorithm>

namespace prunus {

namespace {

constexpr ptrdiff_t kFewWords = 8;           // shorter lists are not worth their overhead
constexpr ptrdiff_t kFewInterleaved = 2048;  // words times blocks: less is interleaved by every thread for itself

}  // namespace

void IntegerPointwiseConvolution::prepare_runs(Program& program) {
  InputWords::Layer layer{layer_.inputs, layer_.outputs, layer_.groups, kernels_.group, layer_.kept, {}};
  for (const Domain& domain : domains_) layer.used.push_back(domain.used);
  words_.emplace(layer);
  for (ptrdiff_t word = 0; word < words_->count(); word++)
    for (ptrdiff_t g = 0; g < kMaxGroup; g++) {  // a missing input repeats another and has a weight of 0
      const ptrdiff_t input = words_->first[word] + g;
      offsets_.push_back((input < words_->first[word + 1] ? input : words_->first[word]) *
                         program.lattice(inputs[0]).plane());
    }
  const Lattice& lattice = program.lattice(output);
  row_ = (lattice.blocks() | 1) * (kBlock * ptrdiff_t{sizeof(int32_t)});  // odd, to spread words over the cache
  if (is_strided() || program.threads() > 1) {
    std::vector<ptrdiff_t> recipe{1, inputs[0], layer_.window.stride[0], layer_.window.stride[1], row_};
    recipe.insert(recipe.end(), words_->first.begin(), words_->first.end());
    copy_ = program.add_copy(recipe, words_->count() * row_);
  }
  lists_.resize(domains_.size());
  for (int domain = 0; domain < program.domains(); domain++)
    if (program.reserve_copies(num_words(domain) * 3 / 2 + layer_.outputs, Program::kMostCopied))
      lists_[domain] = make_lists(domain);
}

// Call visit(output, word, weights) for every word of inputs that the domain uses, by output.
template <class Visit>
void IntegerPointwiseConvolution::for_each_word(int domain, Visit visit) const {
  const ptrdiff_t inputs = layer_.group_inputs();
  const Bits used = domains_[domain].used;
  for (ptrdiff_t o = 0, kernel = 0; o < layer_.outputs; o++) {
    const ptrdiff_t first_input = o / layer_.group_outputs() * inputs;
    int8_t weights[kMaxGroup] = {};
    int word = -1;  // the current one; -1 if no weight of it is used
    for (ptrdiff_t i = 0; i < inputs; i++) {
      if (!layer_.kept[o * inputs + i]) continue;
      const ptrdiff_t weight = kernel++;
      if (!used[weight]) continue;
      const ptrdiff_t input = first_input + i;
      if (words_->of[input] != word) {
        if (word >= 0) visit(o, word, weights);
        word = words_->of[input];
        std::fill_n(weights, kMaxGroup, int8_t{0});
      }
      weights[input - words_->first[word]] = layer_.kernels[weight];
    }
    if (word >= 0) visit(o, word, weights);
  }
}

ptrdiff_t IntegerPointwiseConvolution::num_words(int domain) const {
  ptrdiff_t count = 0;
  for_each_word(domain, [&](ptrdiff_t, int, const int8_t*) { count++; });
  return count;
}

// Blocks of inputs keep the inputs of one tile in the L1 cache.
IntegerPointwiseConvolution::Lists IntegerPointwiseConvolution::make_lists(int domain) const {
  const ptrdiff_t group_words = words_->group_words[1], count = num_words(domain);
  const ptrdiff_t near = kNearBytes / (kernels_.point_tile * kBlock * ptrdiff_t{sizeof(int32_t)});
  const ptrdiff_t fitting = (group_words + near - 1) / near, worthwhile = count / layer_.outputs / kFewWords;
  const ptrdiff_t blocks = std::max<ptrdiff_t>(1, std::min(fitting, worthwhile)), starts = layer_.outputs + 1;
  const auto block_of = [&](ptrdiff_t output, int word) {
    const ptrdiff_t group = output / layer_.group_outputs(), first = words_->group_words[group];
    return (word - first) * blocks / (words_->group_words[group + 1] - first);
  };
  Lists lists;
  lists.blocks = static_cast<int>(blocks);
  lists.start.assign(blocks * starts, 0);
  for_each_word(domain,
                [&](ptrdiff_t o, int word, const int8_t*) { lists.start[block_of(o, word) * starts + o + 1]++; });
  for (ptrdiff_t block = 0; block < blocks; block++) {
    uint32_t* start = lists.start.data() + block * starts;
    if (block) start[0] = start[-1];
    for (ptrdiff_t o = 0; o < layer_.outputs; o++) start[o + 1] += start[o];
  }
  lists.inputs.resize(count);
  lists.weights.resize(count);
  std::vector<uint32_t> next = lists.start;
  const int in_order[kMaxGroup] = {0, 1, 2, 3};
  for_each_word(domain, [&](ptrdiff_t o, int word, const int8_t* weights) {
    const uint32_t k = next[block_of(o, word) * starts + o]++;
    lists.inputs[k] = static_cast<uint16_t>(word);
    lists.weights[k] = packed(weights, in_order);
  });
  return lists;
}

// Inputs are interleaved tile by tile, just before they are used, if threads divide the planes, or if there are so few
// that every thread can do it for its outputs. Otherwise threads share inputs that are interleaved before.
void IntegerPointwiseConvolution::run(const Run& run) const {
  const int threads = run.context.workers.threads();
  const ptrdiff_t blocks = run.program.lattice(output).blocks();
  const bool by_plane = threads == 1 || blocks > kCodes.few;
  const bool by_tile = !is_strided() && (by_plane || words_->count() * blocks < kFewInterleaved);
  const int unit = !by_tile ? 4 : by_plane ? layer_.outputs : (layer_.outputs + threads - 1) / threads;
  if (!by_tile) interleave(run);
  const Lists& kept = lists_[run.domain];
  const Lists made = kept.blocks ? Lists{} : make_lists(run.domain);
  const Lists& lists = kept.blocks ? kept : made;
  const auto work = [&](const Piece& piece, int worker) {
    IntegerPointwise j = job(run, piece, lists, worker);
    if (by_tile) interleave_tiles(run, piece.image, worker, j);
    kernels_.pointwise(j, piece.first_block, piece.last_block);
    run.fill_ring(output, piece);
  };
  run.for_each_piece(blocks, layer_.outputs, work, unit, {kernels_.point_tile, kCodes.few});
}

void IntegerPointwiseConvolution::interleave(const Run& run) const {
  CopyRoom& room = run.context.copy;
  if (room.holds == copy_) return;
  const ptrdiff_t size = words_->count() * row_;
  room.grow(run.images * size);
  run.for_each_piece(1, words_->count(), [&](const Piece& piece, int worker) {
    for (ptrdiff_t word = piece.first_channel; word < piece.last_channel; word++)
      interleave_word(run, piece.image, word, run.context.scratch[worker].widened,
                      room.data() + piece.image * size + word * row_);
  });
  room.holds = copy_;
}

void IntegerPointwiseConvolution::interleave_word(const Run& run, ptrdiff_t image, ptrdiff_t word,
                                                  AlignedBuffer& scratch, uint8_t* to) const {
  const Lattice &from = run.program.lattice(inputs[0]), &lattice = run.program.lattice(output);
  const int first = words_->first[word], count = words_->first[word + 1] - first, *stride = layer_.window.stride;
  const uint8_t* planes = run.codes(inputs[0], image);
  if (!is_strided()) return kernels_.interleave(planes, offsets_.data() + word * kMaxGroup, lattice.blocks(), to);
  const ptrdiff_t plane = lattice.blocks() * kBlock;
  scratch.grow(count * plane / static_cast<ptrdiff_t>(sizeof(float)));
  uint8_t* strided = reinterpret_cast<uint8_t*>(scratch.data());
  ptrdiff_t offsets[kMaxGroup] = {};
  for (ptrdiff_t c = 0; c < count; c++) {
    offsets[c] = c * plane;
    for (ptrdiff_t row = 0; row < lattice.height; row++)
      kernels_.every_nth(planes + (first + c) * from.plane() + row * stride[0] * from.stride(), stride[1],
                         lattice.width, strided + c * plane + row * lattice.stride());
  }
  kernels_.interleave(strided, offsets, lattice.blocks(), to);
}

void IntegerPointwiseConvolution::interleave_tiles(const Run& run, ptrdiff_t image, int worker,
                                                   IntegerPointwise& j) const {
  AlignedBuffer& scratch = run.context.scratch[worker].widened;
  scratch.grow(static_cast<ptrdiff_t>(words_->count()) * kernels_.point_tile * kBlock);
  j.input = run.codes(inputs[0], image);
  j.offsets = offsets_.data();
  j.words = words_->count();
  j.interleaved = reinterpret_cast<uint8_t*>(scratch.data());
}

IntegerPointwise IntegerPointwiseConvolution::job(const Run& run, const Piece& piece, const Lists& lists,
                                                  int worker) const {
  IntegerPointwise j{};
  j.input = run.context.copy.data() + piece.image * words_->count() * row_;
  j.row = row_;
  j.blocks = lists.blocks;
  j.first_output = piece.first_channel;
  j.outputs = piece.last_channel - piece.first_channel;
  j.all_outputs = layer_.outputs;
  j.start = lists.start.data();
  j.inputs = lists.inputs.data();
  j.weights = lists.weights.data();
  j.first_sums = first_sums(run.domain);
  j.finish = finish(run, piece.image);
  AlignedBuffer& sums = run.context.scratch[worker].sums;
  if (lists.blocks > 1) sums.grow(static_cast<ptrdiff_t>(j.outputs) * kernels_.point_tile * kBlock);
  j.sums = reinterpret_cast<int32_t*>(sums.data());
  return j;
}

}  // namespace prunus
