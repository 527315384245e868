#include "program.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>

#include "names.hpp"

namespace prunus {

namespace {

constexpr ptrdiff_t kMostImages = 8;                      // that go through the network together
constexpr ptrdiff_t kMostFloats = ptrdiff_t{1} << 26;     // of images that go together: 256 MiB
constexpr ptrdiff_t kMostOfAnImage = ptrdiff_t{1} << 28;  // floats: 1 GiB, far above any real network
constexpr ptrdiff_t kMostKept = ptrdiff_t{1} << 26;       // numbers; far above any real network
constexpr ptrdiff_t kMostCopied = ptrdiff_t{1} << 24;     // numbers: 64 MiB for all domains
constexpr size_t kIdle = 4;                               // contexts that are kept for later runs

// Copy floats; return whether all are finite. A float that is not has all exponent bits set.
bool copy_finite(const float* from, float* to, ptrdiff_t count) {
  uint32_t any_not_finite = 0;
  for (ptrdiff_t i = 0; i < count; i++) {
    uint32_t bits;
    std::memcpy(&bits, from + i, sizeof bits);
    any_not_finite |= ((bits & 0x7f800000u) == 0x7f800000u);
    to[i] = from[i];
  }
  return !any_not_finite;
}

}  // namespace

float* Run::value(int number, ptrdiff_t image) const {
  const Program::Home& home = program.homes_[number];
  return context.slots[home.slot] + home.offset + image * home.image;
}

Program::Program(std::vector<Shape> shapes, int domains, int threads, const Kernels& kernels)
    : shapes_(std::move(shapes)), threads_(threads), kernels_(kernels), heads_(domains) {}

void Program::add(std::unique_ptr<Step> step, std::vector<int> inputs) {
  step->output = next_value();
  step->inputs = std::move(inputs);
  steps_.push_back(std::move(step));
}

void Program::set_head(int domain, StoredFloats weight, StoredFloats bias, int classes) {
  heads_.at(domain) = {weight, bias, classes};
}

void Program::count_kept(ptrdiff_t numbers) {
  kept_ += numbers;
  if (kept_ > kMostKept) throw std::length_error("the kernel lists for so many channels and domains are too long");
}

bool Program::reserve_copies(ptrdiff_t numbers) {
  if (copied_ + numbers > kMostCopied) return false;
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

void Program::finish() {
  if (steps_.size() + 1 != shapes_.size()) throw std::logic_error("a step is missing");
  slack_ = (slack_ + kBlock - 1) / kBlock * kBlock;
  homes_.assign(shapes_.size(), {});
  join_values();
  place_values();
  image_floats_ = most_split_ + slack_;
  for (ptrdiff_t size : slot_sizes_) image_floats_ += size + slack_;
  if (image_floats_ > kMostOfAnImage) throw std::length_error("one image would take more than a gigabyte");
  chunk_ = std::max<ptrdiff_t>(1, std::min(kMostImages, kMostFloats / image_floats_));
}

// Let steps write values that will be joined directly to their destination, unless they were joined before.
void Program::join_values() {
  for (const std::unique_ptr<Step>& step : steps_) {
    if (!step->joins()) continue;
    ptrdiff_t channel = 0;
    for (int value : step->inputs) {
      Home& home = homes_[value];
      if (value > 0 && home.within < 0) {
        home.within = step->output;
        home.first_channel = channel;
      }
      channel += shapes_[value].channels;
    }
  }
}

// Assign a slot to each value that is not inside another. A slot is free again after the last step that reads it.
void Program::place_values() {
  const int values = static_cast<int>(shapes_.size());
  std::vector<int> outer(values);
  std::vector<size_t> last(values, 0);  // per value: the last step that reads it
  for (int value = values - 1; value >= 0; value--)
    outer[value] = homes_[value].within < 0 ? value : outer[homes_[value].within];
  for (size_t s = 0; s < steps_.size(); s++) {
    last[outer[s + 1]] = std::max(last[outer[s + 1]], s);
    for (int value : steps_[s]->inputs) last[outer[value]] = s;
  }
  last[outer.back()] = steps_.size();
  std::vector<int> free;
  for (int value = 0; value < values; value++) {
    Home& home = homes_[outer[value]];
    if (home.slot < 0) home.slot = take_slot(free, shapes_[outer[value]].channels * shapes_[outer[value]].plane());
    for (int other = 0; other < values; other++)  // values whose last reader was the step that made this value
      if (value > 0 && outer[other] == other && homes_[other].slot >= 0 &&
          last[other] + 1 == static_cast<size_t>(value))
        free.push_back(homes_[other].slot);
  }
  for (int value = values - 1; value >= 0; value--) {
    Home& home = homes_[value];
    home.image = shapes_[outer[value]].channels * shapes_[value].plane();
    if (home.within < 0) continue;
    home.slot = homes_[home.within].slot;
    home.offset = homes_[home.within].offset + home.first_channel * shapes_[value].plane();
  }
}

int Program::take_slot(std::vector<int>& free, ptrdiff_t size) {
  auto best = free.end();
  for (auto it = free.begin(); it != free.end(); ++it) {
    const bool fits = slot_sizes_[*it] >= size;
    if (best == free.end() || (fits ? slot_sizes_[*best] < size || slot_sizes_[*it] < slot_sizes_[*best]
                                    : slot_sizes_[*best] < size && slot_sizes_[*it] > slot_sizes_[*best]))
      best = it;
  }
  if (best == free.end()) {
    slot_sizes_.push_back(size);
    return static_cast<int>(slot_sizes_.size()) - 1;
  }
  const int slot = *best;
  slot_sizes_[slot] = std::max(slot_sizes_[slot], size);
  free.erase(best);
  return slot;
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
  context.scratch.resize(threads_);
  for (Scratch& scratch : context.scratch) {
    scratch.sums.grow(kOutputBlock * 3 * kBlock);
    scratch.widened.grow(kOutputBlock * kMaxTaps + kBlock);
  }
}

bool Program::run(const float* images, ptrdiff_t count, int domain, float* logits) const {
  std::unique_ptr<Context> context = take_context();
  context->workers.wake();
  const ptrdiff_t image = shapes_[0].channels * shapes_[0].pixels();
  bool finite = true;
  for (ptrdiff_t first = 0; finite && first < count; first += chunk_) {
    const ptrdiff_t some = std::min(chunk_, count - first);
    finite = run_chunk(*context, images + first * image, some, domain, logits + first * heads_[domain].classes);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (idle_.size() < kIdle) idle_.push_back(std::move(context));
  return finite;
}

bool Program::run_chunk(Context& context, const float* images, ptrdiff_t count, int domain, float* logits) const {
  prepare(context, count);
  const Run run{*this, context, count, domain};
  if (!take_images(run, images)) return false;
  for (const std::unique_ptr<Step>& step : steps_) step->run(run);
  classify(run, logits);
  return true;
}

bool Program::take_images(const Run& run, const float* images) const {
  const Shape& in = shapes_[0];
  std::atomic<bool> finite{true};
  run.for_each_piece(in.blocks(), in.channels, [&](const Piece& piece, int) {
    const ptrdiff_t first = piece.first_block * kBlock,
                    count = std::min(piece.last_block * kBlock, in.pixels()) - first;
    for (int c = piece.first_channel; c < piece.last_channel; c++)
      if (!copy_finite(images + (piece.image * in.channels + c) * in.pixels() + first,
                       run.value(0, piece.image) + c * in.plane() + first, count))
        finite = false;
  });
  return finite;
}

void Program::classify(const Run& run, float* logits) const {
  const Shape& last = shapes_.back();
  const Head& head = heads_[run.domain];
  const ptrdiff_t features = last.channels * last.pixels(), blocks = (features + kBlock - 1) / kBlock;
  std::vector<float> bias(head.classes);
  copy_wide(kernels_, head.bias, 0, head.classes, bias.data());
  const float* rows = head_rows(run.context, head);
  run.context.gathered.grow(blocks * kBlock);
  float* flat = run.context.gathered.data();
  std::fill(flat + features, flat + blocks * kBlock, 0.0f);
  for (ptrdiff_t n = 0; n < run.images; n++) {
    const float* value = run.value(static_cast<int>(shapes_.size()) - 1, n);
    for (int c = 0; c < last.channels; c++)
      std::copy_n(value + c * last.plane(), last.pixels(), flat + c * last.pixels());
    kernels_.classify({flat, static_cast<int>(blocks), rows, bias.data(), logits + n * head.classes}, 0, head.classes);
  }
}

// Return the rows of a classifier, padded to whole blocks of float32. Most classifiers need no copy.
const float* Program::head_rows(Context& context, const Head& head) const {
  const ptrdiff_t features = shapes_.back().channels * shapes_.back().pixels(),
                  padded = (features + kBlock - 1) / kBlock * kBlock;
  if (head.weight.precision == Precision::float32 && features == padded) return head.weight.as_float32();
  context.widened.grow(head.classes * padded);
  for (ptrdiff_t c = 0; c < head.classes; c++) {
    float* row = context.widened.data() + c * padded;
    copy_wide(kernels_, head.weight, c * features, features, row);
    std::fill(row + features, row + padded, 0.0f);
  }
  return context.widened.data();
}

std::vector<std::string> available_kernels() {
  std::vector<std::string> names;
#if defined(__x86_64__) || defined(_M_X64)
  const bool vectors =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  if (vectors && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi2"))
    names.push_back("avx512");
  if (vectors) names.push_back("avx2");
#elif defined(__aarch64__)
  names.push_back("neon");
#endif
  names.push_back("portable");
  return names;
}

const Kernels& choose_kernels(const std::string& name) {
  const std::vector<std::string> known = available_kernels();
  const std::string chosen = name == "auto" ? known.front() : name;
  if (std::find(known.begin(), known.end(), chosen) == known.end()) throw unknown_name("kernels", name, known);
#if defined(__x86_64__) || defined(_M_X64)
  if (chosen == "avx512") return avx512_kernels();
  if (chosen == "avx2") return avx2_kernels();
#elif defined(__aarch64__)
  if (chosen == "neon") return neon_kernels();
#endif
  return portable_kernels();
}

}  // namespace prunus
