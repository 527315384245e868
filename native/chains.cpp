// Chains of steps that threads run on bands of planes, or on channels, of their own.
//
// With two threads, most small layers take less time than it takes to wait for the other thread and to read what it has
// written. A chain waits once for several layers, and reads only its input from other threads. For this, threads
// compute some blocks at the borders of their bands twice. A strided layer by channel can begin a chain. If planes are
// too small for bands, a layer that threads divide by channels and those that work by channel are a chain.
#include <algorithm>

#include "program.hpp"

namespace prunus {

namespace {

constexpr ptrdiff_t kLeastBand = 6;  // blocks; with fewer, threads rather divide the channels
// a plane has at least so many times the blocks that the first step computes twice
constexpr ptrdiff_t kMostRepeated = 4;
constexpr ptrdiff_t kMostBetween = ptrdiff_t{1} << 23;  // floats of the largest value between steps, for all workers

}  // namespace

// Whether a step can follow the one before it in a chain.
bool Program::continues(size_t step, const std::vector<int>& readers) const {
  if (step == 0 || step >= steps_.size()) return false;
  const Step &before = *steps_[step - 1], &after = *steps_[step];
  if (!before.begins_by_blocks(*this) || !after.works_by_blocks()) return false;
  return after.inputs[0] == before.output && readers[before.output] == 1 &&
         lattice_of_[before.output] == lattice_of_[after.output];
}

// A chain has one step at most that reads more than its own blocks.
Chain Program::chain_from(size_t first, const std::vector<int>& readers) const {
  const auto reads_more = [&](size_t step) { return steps_[step]->reach(*this) > 0; };
  size_t last = first;
  bool has_reach = steps_[first]->works_by_blocks() && reads_more(first);
  while (continues(last + 1, readers)) {
    const size_t next = last + 1;
    if (has_reach && (reads_more(next) || (continues(next + 1, readers) && reads_more(next + 1)))) break;
    has_reach = has_reach || reads_more(next);
    last = next;
  }
  Chain chain{first, last, std::vector<ptrdiff_t>(last - first + 1)};
  for (size_t step = last; step > first; step--)
    chain.wider[step - 1 - first] = chain.wider[step - first] + steps_[step]->reach(*this);
  return chain;
}

// A chain whose first step divides the channels, if it does.
Chain Program::chain_of_channels(size_t first) const {
  Chain chain{first, first, {0}, steps_[first]->channels_apart(*this)};
  if (chain.channels == 0) return chain;
  for (size_t next = first + 1; next < steps_.size(); next++) {
    const Step& step = *steps_[next];
    const bool follows = step.works_by_channels() && step.inputs[0] == steps_[next - 1]->output;
    if (!follows || shapes_[step.output].channels != shapes_[step.inputs[0]].channels) break;
    chain.last = next;
  }
  return chain;
}

void Program::find_chains() {
  std::vector<int> readers(shapes_.size());
  readers.back() = 1;  // the classifier
  for (const std::unique_ptr<Step>& step : steps_)
    for (int value : step->inputs) readers[value]++;
  chained_.assign(shapes_.size(), false);
  for (size_t step = 0; step < steps_.size(); step = chains_.back().last + 1) {
    Chain chain{step, step, {0}};
    if (threads_ > 1 && steps_[step]->begins_by_blocks(*this)) {
      const ptrdiff_t blocks = lattice(steps_[step]->output).blocks();
      Chain longer = chain_from(step, readers);
      const ptrdiff_t repeated = 2 * (threads_ - 1) * longer.wider[0];
      ptrdiff_t largest = 0;
      for (size_t s = longer.first; s < longer.last; s++)
        largest = std::max(largest, shapes_[steps_[s]->output].channels * plane(steps_[s]->output));
      if (blocks >= kLeastBand * threads_ && blocks >= kMostRepeated * repeated && largest <= kMostBetween / threads_)
        chain = std::move(longer);
    }
    for (size_t s = chain.first; chain.last > chain.first && s <= chain.last; s++) chained_[steps_[s]->output] = true;
    if (threads_ > 1 && chain.first == chain.last) chain = chain_of_channels(step);
    chains_.push_back(std::move(chain));
  }
}

void Program::run_chain(const Run& run, const Chain& chain) const {
  if (chain.first == chain.last) return steps_[chain.first]->run(run);
  if (chain.channels) {
    run_channels(run, chain);
  } else {
    run_bands(run, chain);
  }
}

void Program::run_channels(const Run& run, const Chain& chain) const {
  const int channels = shapes_[steps_[chain.first]->output].channels;
  const ptrdiff_t parts = (channels + chain.channels - 1) / chain.channels;
  run.context.workers.for_each(run.images * parts, [&](ptrdiff_t item, int worker) {
    const int first = static_cast<int>(item % parts) * chain.channels,
              last = std::min(channels, first + chain.channels);
    for (size_t s = chain.first; s <= chain.last; s++)
      steps_[s]->run_blocks(run, {item / parts, 0, lattice(steps_[s]->output).blocks(), first, last}, worker);
  });
}

void Program::run_bands(const Run& run, const Chain& chain) const {
  const ptrdiff_t blocks = lattice(steps_[chain.last]->output).blocks();
  const ptrdiff_t bands = run.images % threads_ ? threads_ : 1;
  run.context.workers.for_each(run.images * bands, [&](ptrdiff_t item, int worker) {
    Run own = run;
    own.between = run.context.scratch[worker].between_slots.data();
    const ptrdiff_t band = item % bands, first = blocks * band / bands, last = blocks * (band + 1) / bands;
    for (size_t s = chain.first; s <= chain.last; s++) {
      const ptrdiff_t wider = chain.wider[s - chain.first];
      const Piece piece{item / bands, std::max<ptrdiff_t>(0, first - wider), std::min(blocks, last + wider), 0,
                        shapes_[steps_[s]->output].channels};
      steps_[s]->run_blocks(own, piece, worker);
    }
  });
}

}  // namespace prunus
