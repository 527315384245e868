#include "integer_pointwise.hpp"

#include <algorithm>
#include <numeric>

namespace prunus {

namespace {

constexpr ptrdiff_t kLargePlane = 64;        // blocks: threads divide larger planes in any case
constexpr ptrdiff_t kFewWords = 8;           // shorter lists are not worth their overhead
constexpr int kPartsPerThread = 8;           // of outputs: threads that finish early take over some of the others'
constexpr ptrdiff_t kFewInterleaved = 2048;  // words times blocks: less is interleaved by every thread for itself

void copy_every_nth(const uint8_t* from, ptrdiff_t step, ptrdiff_t count, uint8_t* to) {
  if (step == 2) {  // a constant, so that the loop is vectorized
    for (ptrdiff_t i = 0; i < count; i++) to[i] = from[2 * i];
  } else {
    for (ptrdiff_t i = 0; i < count; i++) to[i] = from[step * i];
  }
}

}  // namespace

void IntegerPointwiseConvolution::announce(Program& program) {
  expect_domains();
  InputWords::Layer layer{layer_.inputs, layer_.outputs, layer_.groups, kernels_.group, layer_.kept, {}};
  for (const Domain& domain : domains_) layer.used.push_back(domain.used);
  words_.emplace(layer);
  for (int domain = 0; domain < program.domains(); domain++) {
    const ptrdiff_t numbers = num_words(domain) * 3 / 2 + layer_.outputs;
    has_room_.push_back(program.reserve_copies(numbers, Program::kMostCopied));
    makes_lists_ = makes_lists_ || !has_room_.back();
  }
}

void IntegerPointwiseConvolution::prepare_runs(Program& program) {
  for (ptrdiff_t word = 0; word < words_->count(); word++)
    for (ptrdiff_t g = 0; g < kMaxGroup; g++) {  // a missing input repeats another and has a weight of 0
      const ptrdiff_t input = words_->first[word] + g;
      offsets_.push_back((input < words_->first[word + 1] ? input : words_->first[word]) *
                         program.lattice(inputs[0]).plane());
    }
  const Lattice& lattice = program.lattice(output);
  // an odd number of blocks, to spread words over the cache; rows of strides are written a block past their end
  row_ = ((lattice.blocks() + is_strided()) | 1) * (kBlock * ptrdiff_t{sizeof(int32_t)});
  if (is_strided()) program.need_scratch(kMaxGroup * lattice.blocks() * kBlock);
  const Division division = this->division(program);
  if (!division.by_tile) {
    std::vector<ptrdiff_t> recipe{1, inputs[0], layer_.window.stride[0], layer_.window.stride[1], row_};
    recipe.insert(recipe.end(), words_->first.begin(), words_->first.end());
    copy_ = program.add_copy(recipe, words_->count() * row_);
  }
  lists_.resize(domains_.size());
  for (int domain = 0; domain < program.domains(); domain++)
    if (has_room_[domain]) lists_[domain] = make_lists(domain, division.unit);
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
IntegerPointwiseConvolution::Lists IntegerPointwiseConvolution::make_lists(int domain, int unit) const {
  const ptrdiff_t group_words = words_->group_words[1], count = num_words(domain);
  const ptrdiff_t near = kNearBytes / (kernels_.point_tile * kBlock * ptrdiff_t{sizeof(int32_t)});
  const ptrdiff_t fitting = (group_words + near - 1) / near, worthwhile = count / layer_.outputs / kFewWords;
  const ptrdiff_t blocks = std::max<ptrdiff_t>(1, std::min(fitting, worthwhile)), outputs = layer_.outputs;
  const auto list_of = [&](ptrdiff_t output, int word) {
    const ptrdiff_t group = output / layer_.group_outputs(), first = words_->group_words[group];
    return (word - first) * blocks / (words_->group_words[group + 1] - first) * outputs + output;
  };
  std::vector<uint32_t> lengths(blocks * outputs);  // of lists
  for_each_word(domain, [&](ptrdiff_t o, int word, const int8_t*) { lengths[list_of(o, word)]++; });
  Lists lists;
  lists.blocks = static_cast<int>(blocks);
  lists.order.resize(blocks * outputs);
  std::vector<uint32_t> next(blocks * outputs);  // where the next word of a list is written
  uint32_t end = 0;
  for (ptrdiff_t block = 0; block < blocks; block++) {
    uint16_t* order = lists.order.data() + block * outputs;
    std::iota(order, order + outputs, uint16_t{0});
    for (ptrdiff_t o = 0; o < outputs; o += unit)
      std::stable_sort(order + o, order + std::min(o + unit, outputs),
                       [of = lengths.data() + block * outputs](int a, int b) { return of[a] < of[b]; });
    for (ptrdiff_t o = 0; o < outputs; o++) {
      const ptrdiff_t list = block * outputs + order[o];
      lists.start.push_back(end);
      next[list] = end;
      end += lengths[list];
    }
    lists.start.push_back(end);
  }
  lists.inputs.resize(count);
  lists.weights.resize(count);
  const int in_order[kMaxGroup] = {0, 1, 2, 3};
  for_each_word(domain, [&](ptrdiff_t o, int word, const int8_t* weights) {
    const uint32_t k = next[list_of(o, word)]++;
    lists.inputs[k] = static_cast<uint16_t>(word);
    lists.weights[k] = packed(weights, in_order);
  });
  return lists;
}

// Inputs are interleaved tile by tile, just before they are used, if threads divide the planes, or if there are so few
// that every thread can do it for its outputs. Otherwise threads share inputs that are interleaved before.
IntegerPointwiseConvolution::Division IntegerPointwiseConvolution::division(const Program& program) const {
  const int threads = program.threads();
  const ptrdiff_t blocks = program.lattice(output).blocks();
  // otherwise every thread reads all of the input, or all of the weights
  const bool is_large = blocks > kLargePlane || layer_.inputs * blocks * kBlock > num_kept_;
  const bool by_plane =
      threads == 1 || (program.lattice(output).is_divided() && is_large) || program.is_chained(output);
  const bool by_tile = !is_strided() && (by_plane || words_->count() * blocks < kFewInterleaved);
  const int parts = by_plane ? 1 : by_tile ? threads : threads * kPartsPerThread;
  return {by_plane, by_tile, (layer_.outputs + parts - 1) / parts};
}

int IntegerPointwiseConvolution::channels_apart(const Program& program) const {
  const Division division = this->division(program);
  return division.by_tile && !division.by_plane && !makes_lists_ ? division.unit : 0;
}

void IntegerPointwiseConvolution::run(const Run& run) const {
  const Division division = this->division(run.program);
  if (!division.by_tile) interleave(run);
  const Lists& kept = lists_[run.domain];
  const Lists made = kept.blocks ? Lists{} : make_lists(run.domain, division.unit);
  const Lists& lists = kept.blocks ? kept : made;
  const auto work = [&](const Piece& piece, int worker) { compute(run, piece, lists, division.by_tile, worker); };
  run.for_each_piece(run.program.lattice(output).blocks(), layer_.outputs, work, division.unit,
                     {kernels_.point_tile, division.by_plane ? 0 : run.program.lattice(output).blocks()});
}

void IntegerPointwiseConvolution::run_blocks(const Run& run, const Piece& piece, int worker) const {
  compute(run, piece, lists_[run.domain], true, worker);
}

void IntegerPointwiseConvolution::compute(const Run& run, const Piece& piece, const Lists& lists, bool by_tile,
                                          int worker) const {
  IntegerPointwise j = job(run, piece, lists, worker);
  if (by_tile) interleave_tiles(run, piece.image, worker, j);
  kernels_.pointwise(j, piece.first_block, piece.last_block);
  run.fill_ring(output, piece);
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
  const ptrdiff_t* planes_of = offsets_.data() + word * kMaxGroup;
  const uint8_t* planes = run.codes(inputs[0], image);
  if (!is_strided()) return kernels_.interleave(planes, planes_of, 1, lattice.blocks(), to);
  const ptrdiff_t down = layer_.window.stride[0] * from.stride(), across = layer_.window.stride[1];
  if (across == 2 && kernels_.spread) {  // words are in order: what a row writes past its end, the next overwrites
    for (ptrdiff_t row = 0; row < lattice.height; row++)
      kernels_.interleave(planes + row * down, planes_of, 2, (lattice.width + kBlock - 1) / kBlock,
                          to + 4 * row * lattice.stride());
    return;
  }
  const ptrdiff_t plane = lattice.blocks() * kBlock;
  scratch.grow(kMaxGroup * plane / static_cast<ptrdiff_t>(sizeof(float)));
  uint8_t* strided = reinterpret_cast<uint8_t*>(scratch.data());
  ptrdiff_t offsets[kMaxGroup];
  for (ptrdiff_t g = 0; g < kMaxGroup; g++) {
    offsets[g] = g * plane;
    for (ptrdiff_t row = 0; row < lattice.height; row++)
      copy_every_nth(planes + planes_of[g] + row * down, across, lattice.width,
                     strided + offsets[g] + row * lattice.stride());
  }
  kernels_.interleave(strided, offsets, 1, lattice.blocks(), to);
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
  j.order = lists.order.data();
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
