#include "program.hpp"

#include <algorithm>
#include <atomic>
#include <stdexcept>

namespace prunus {

namespace {

constexpr ptrdiff_t kMostImages = 8;                      // that go through the network together
constexpr ptrdiff_t kMostFloats = ptrdiff_t{1} << 26;     // of images that go together: 256 MiB
constexpr ptrdiff_t kMostOfAnImage = ptrdiff_t{1} << 28;  // floats: 1 GiB, far above any real network
constexpr ptrdiff_t kMostKept = ptrdiff_t{1} << 26;       // numbers; far above any real network
constexpr size_t kIdle = 4;                               // contexts that are kept for later runs

}  // namespace

Program::Program(std::vector<Shape> shapes, int domains, int threads, const Kernels& kernels)
    : shapes_(std::move(shapes)),
      threads_(threads),
      kernels_(kernels),
      heads_(domains),
      integer_heads_(domains),
      zeros_(shapes_.size()),
      ringed_(shapes_.size()),
      lattice_of_(shapes_.size()) {}

void Program::add(std::unique_ptr<Step> step, std::vector<int> inputs) {
  step->output = next_value();
  step->inputs = std::move(inputs);
  if (!steps_.empty()) steps_.back()->next = step.get();
  steps_.push_back(std::move(step));
}

void Program::set_head(int domain, StoredFloats weight, StoredFloats bias, int classes) {
  heads_.at(domain) = {weight, bias, classes};
}

void Program::count_kept(ptrdiff_t numbers) {
  kept_ += numbers;
  if (kept_ > kMostKept) throw std::length_error("the kernel lists for so many channels and domains are too long");
}

bool Program::reserve_copies(ptrdiff_t numbers, ptrdiff_t most) {
  if (copied_ + numbers > most) return false;
  copied_ += numbers;
  return true;
}

int Program::add_split(const SplitValue& split, ptrdiff_t floats) {
  most_split_ = std::max(most_split_, floats);
  const auto known = std::find(splits_.begin(), splits_.end(), split);
  const ptrdiff_t number = known - splits_.begin();
  if (known == splits_.end()) splits_.push_back(split);
  return static_cast<int>(number);
}

int Program::add_copy(const std::vector<ptrdiff_t>& recipe, ptrdiff_t bytes) {
  most_copied_ = std::max(most_copied_, bytes);
  const auto known = std::find(copies_.begin(), copies_.end(), recipe);
  const ptrdiff_t number = known - copies_.begin();
  if (known == copies_.end()) copies_.push_back(recipe);
  return static_cast<int>(number);
}

void Program::finish() {
  if (steps_.size() + 1 != shapes_.size()) throw std::logic_error("a step is missing");
  check_codes();
  for (const std::unique_ptr<Step>& step : steps_) step->announce(*this);
  for (auto& [size, lattice] : lattices_) lattice.settle();
  slack_ = (slack_ + kBlock - 1) / kBlock * kBlock;
  find_chains();
  copies_images_ = !takes_images();
  homes_.assign(shapes_.size(), {});
  join_values();
  spread_rings();
  place_values();
  image_floats_ = most_split_ + slack_;
  for (ptrdiff_t size : slot_sizes_) image_floats_ += size + slack_;
  for (ptrdiff_t size : between_sizes_) worker_floats_ += threads_ * (size + 2 * slack_);
  check_size();
  for (auto& [size, lattice] : lattices_) lattice.mark_pixels();
  for (const std::unique_ptr<Step>& step : steps_) step->settle(*this);
  image_floats_ += most_copied_ / static_cast<ptrdiff_t>(sizeof(float));
  worker_floats_ += threads_ * (scratch_bytes_ / static_cast<ptrdiff_t>(sizeof(float)));
  check_size();
  chunk_ = std::max<ptrdiff_t>(1, std::min(kMostImages, (kMostFloats - worker_floats_) / image_floats_));
}

// Whether the first step is the only one that reads the images, and does not need a copy.
bool Program::takes_images() const {
  ptrdiff_t readers = steps_.empty();  // a program without steps classifies the images
  for (const std::unique_ptr<Step>& step : steps_) readers += std::count(step->inputs.begin(), step->inputs.end(), 0);
  return readers == 1 && !steps_.empty() && steps_[0]->inputs[0] == 0 && steps_[0]->takes_images();
}

void Program::check_size() const {
  if (image_floats() > kMostOfAnImage) throw std::length_error("one image would take more than a gigabyte");
}

std::unique_ptr<Context> Program::take_context() const {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Context> context = std::move(idle_.back());
      idle_.pop_back();
      return context;
    }
  }
  return std::make_unique<Context>(threads_);  // starts threads, so it happens outside the lock
}

void Program::prepare(Context& context, ptrdiff_t images) const {
  ptrdiff_t total = slack_;
  for (ptrdiff_t size : slot_sizes_) total += images * size + slack_;
  context.arena.grow(total);
  context.slots.clear();
  float* slot = context.arena.data() + slack_;
  for (ptrdiff_t size : slot_sizes_) {
    context.slots.push_back(slot);
    slot += images * size + slack_;
  }
  context.split.holds = -1;
  context.copy.holds = -1;
  context.scratch.resize(threads_);
  for (Scratch& scratch : context.scratch) {
    scratch.sums.grow(kOutputBlock * 3 * kBlock);
    scratch.widened.grow(kOutputBlock * kMaxTaps + kBlock);
    scratch.between.resize(between_sizes_.size());
    scratch.between_slots.clear();
    for (size_t i = 0; i < between_sizes_.size(); i++) {
      scratch.between[i].grow(between_sizes_[i] + 2 * slack_);
      scratch.between_slots.push_back(scratch.between[i].data() + slack_);
    }
  }
}

bool Program::run(const float* images, ptrdiff_t count, int domain, float* logits) const {
  std::unique_ptr<Context> context = take_context();
  context->workers.wake();
  const ptrdiff_t image = shapes_[0].channels * shapes_[0].pixels();
  bool finite = true;
  for (ptrdiff_t first = 0; finite && first < count; first += chunk_) {
    const ptrdiff_t some = std::min(chunk_, count - first);
    finite = run_chunk(*context, images + first * image, some, domain, logits + first * classes(domain));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (idle_.size() < kIdle) idle_.push_back(std::move(context));
  return finite;
}

bool Program::run_chunk(Context& context, const float* images, ptrdiff_t count, int domain, float* logits) const {
  prepare(context, count);
  const Run run{*this, context, count, domain, ++context.runs, copies_images_ ? nullptr : images};
  context.finite = true;
  if (copies_images_) copy_images(run, images);
  for (const Chain& chain : chains_) {
    if (!context.finite) return false;
    run_chain(run, chain);
  }
  if (!context.finite) return false;
  if (integer_heads_[domain].weight) {
    classify_codes(run, logits);
  } else {
    classify(run, logits);
  }
  return true;
}

void Program::copy_images(const Run& run, const float* images) const {
  const Shape& in = shapes_[0];
  run.for_each_piece(in.blocks(), in.channels, [&](const Piece& piece, int) {
    const ptrdiff_t first = piece.first_block * kBlock,
                    count = std::min(piece.last_block * kBlock, in.pixels()) - first;
    for (int c = piece.first_channel; c < piece.last_channel; c++)
      if (!kernels_.copy_finite(images + (piece.image * in.channels + c) * in.pixels() + first,
                                run.value(0, piece.image) + c * in.plane() + first, count))
        run.context.finite = false;
  });
}

}  // namespace prunus
