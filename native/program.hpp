// A network as a list of steps over values, for all domains. Domains share the weights and have their own kernel lists.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "aligned_buffer.hpp"
#include "kernels.hpp"
#include "partition.hpp"
#include "workers.hpp"

namespace prunus {

struct Shape {
  int channels, height, width;
  ptrdiff_t pixels() const { return static_cast<ptrdiff_t>(height) * width; }
  ptrdiff_t blocks() const { return (pixels() + kBlock - 1) / kBlock; }
  ptrdiff_t plane() const { return plane_of(pixels()); }
  static ptrdiff_t plane_of(ptrdiff_t pixels) { return ((pixels + kBlock - 1) / kBlock | 1) * kBlock; }
};

struct Scratch {
  AlignedBuffer sums, widened;  // widened: the kernels of one input as float32
  AlignedBuffer kept;           // the used weights of a 1x1 layer
  std::vector<uint32_t> offsets, start;
};

// A value as strided windows read it: each channel split into planes of every n-th row and column.
struct SplitValue {
  int value, height, width, down, across;  // down and across are the strides
  std::vector<ptrdiff_t> phases;
  bool operator==(const SplitValue& other) const {
    return value == other.value && height == other.height && width == other.width && down == other.down &&
           across == other.across && phases == other.phases;
  }
};

struct SplitRoom {
  AlignedBuffer planes;
  int holds = -1;  // the number of the split value in `planes`
};

// The memory and the threads of one run.
struct Context {
  explicit Context(int threads) : owned(new Workers(threads)), workers(*owned) {}
  std::unique_ptr<Workers, ReleaseWorkers> owned;
  Workers& workers;
  AlignedBuffer arena;        // holds all values
  std::vector<float*> slots;  // pointers into the arena
  SplitRoom split;
  AlignedBuffer cropped, gathered, widened;
  std::vector<Scratch> scratch;  // one per worker
};

class Program;

struct Run {
  const Program& program;
  Context& context;
  ptrdiff_t images;
  int domain;
  float* value(int number, ptrdiff_t image) const;

  // Call work(piece, worker) for all pieces of planes with `blocks` blocks.
  template <class Work>
  void for_each_piece(ptrdiff_t blocks, int channels, Work&& work, int unit = 1, ptrdiff_t tile = 3) const {
    const Partition pieces(images, blocks, channels, context.workers.threads(), unit, tile);
    context.workers.for_each(pieces.count(), [&](ptrdiff_t item, int worker) { work(pieces[item], worker); });
  }

  // Call work(image, channel) for every channel. For steps that are limited by memory bandwidth.
  template <class Work>
  void for_each_channel(int channels, Work&& work) const {
    for_each_piece(1, channels, [&](const Piece& piece, int) {
      for (int c = piece.first_channel; c < piece.last_channel; c++) work(piece.image, c);
    });
  }
};

class Step {
 public:
  virtual ~Step() = default;
  virtual void run(const Run& run) const = 0;
  virtual bool joins() const { return false; }  // its output is the concatenation of its inputs
  std::vector<int> inputs;
  int output = 0;
};

class Program {
 public:
  Program(std::vector<Shape> shapes, int domains, int threads, const Kernels& kernels);

  void add(std::unique_ptr<Step> step, std::vector<int> inputs);
  // Weight and bias must outlive the program.
  void set_head(int domain, StoredFloats weight, StoredFloats bias, int classes);
  // Require `floats` readable floats before and after every slot.
  void need_slack(ptrdiff_t floats) { slack_ = floats > slack_ ? floats : slack_; }
  // Return the number of a split value that takes `floats` floats per image; equal ones share a number.
  int add_split(const SplitValue& split, ptrdiff_t floats);
  // Count numbers that are kept in addition to the model file's. Throws if there are more than any real network needs.
  void count_kept(ptrdiff_t numbers);
  // Reserve room for copies that only make runs faster; returns false if there is none left.
  bool reserve_copies(ptrdiff_t numbers);
  void finish();

  // Classify prepared images; returns false if one of their values is not finite.
  bool run(const float* images, ptrdiff_t count, int domain, float* logits) const;

  int classes(int domain) const { return heads_[domain].classes; }
  const Shape& shape(int value) const { return shapes_[value]; }
  const Kernels& kernels() const { return kernels_; }
  int domains() const { return static_cast<int>(heads_.size()); }
  int threads() const { return threads_; }
  // Floats that the activations of one image take, including split planes.
  ptrdiff_t image_floats() const { return image_floats_; }
  int next_value() const { return static_cast<int>(steps_.size()) + 1; }
  ptrdiff_t slack() const { return slack_; }
  bool lies_within(int value, int other, ptrdiff_t first_channel) const {
    return homes_[value].within == other && homes_[value].first_channel == first_channel;
  }

 private:
  struct Head {
    StoredFloats weight, bias;
    int classes = 0;
  };

  // Where a value is stored: in its own slot, or inside the value that it is joined into.
  struct Home {
    int within = -1;              // the value that it is joined into
    ptrdiff_t first_channel = 0;  // within that value
    int slot = -1;
    ptrdiff_t offset = 0, image = 0;  // floats from the start of the slot, and from one image to the next
  };
  friend struct Run;

  void join_values();
  void place_values();
  int take_slot(std::vector<int>& free, ptrdiff_t size);
  std::unique_ptr<Context> take_context() const;
  void prepare(Context& context, ptrdiff_t images) const;
  const float* head_rows(Context& context, const Head& head) const;
  bool take_images(const Run& run, const float* images) const;
  void classify(const Run& run, float* logits) const;
  bool run_chunk(Context& context, const float* images, ptrdiff_t count, int domain, float* logits) const;

  std::vector<Shape> shapes_;
  int threads_;
  const Kernels& kernels_;
  std::vector<Head> heads_;
  std::vector<std::unique_ptr<Step>> steps_;
  ptrdiff_t slack_ = 64;
  std::vector<Home> homes_;            // one per value
  std::vector<ptrdiff_t> slot_sizes_;  // floats per image
  std::vector<SplitValue> splits_;
  ptrdiff_t most_split_ = 0;  // floats of the largest split value
  ptrdiff_t kept_ = 0;        // numbers in addition to the model file's
  ptrdiff_t copied_ = 0;      // numbers of copies that only make runs faster
  ptrdiff_t image_floats_ = 0;
  ptrdiff_t chunk_ = 1;  // images that go through the network together
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Context>> idle_;
};

const Kernels& choose_kernels(const std::string& name);  // "auto" selects the best that this processor supports
std::vector<std::string> available_kernels();

}  // namespace prunus
