// A network as a list of steps over values, for all domains at once; weights are shared, lists of kernels are not.
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
  AlignedBuffer sums, widened;  // widened: kernels of one input
  AlignedBuffer kept;  // weights of a 1x1 layer that the domain uses, where their inputs lie, and where the lists of
                       // outputs begin
  std::vector<uint32_t> offsets, start;
};

// A value as strided windows read it: every channel as planes of some of its rows and columns.
struct SplitValue {
  int value, height, width, down, across;  // down and across: the strides
  std::vector<ptrdiff_t> phases;
  bool operator==(const SplitValue& other) const {
    return value == other.value && height == other.height && width == other.width && down == other.down &&
           across == other.across && phases == other.phases;
  }
};

struct SplitRoom {
  AlignedBuffer planes;
  int holds = -1;  // which split value
};

// What one run needs: room for values and scratch, and its threads.
struct Context {
  explicit Context(int threads) : owned(new Workers(threads)), workers(*owned) {}
  std::unique_ptr<Workers, ReleaseWorkers> owned;
  Workers& workers;
  AlignedBuffer arena;        // of all values
  std::vector<float*> slots;  // places in it
  SplitRoom split;
  AlignedBuffer cropped, gathered, widened;
  std::vector<Scratch> scratch;  // by worker
};

class Program;

struct Run {
  const Program& program;
  Context& context;
  ptrdiff_t images;
  int domain;
  float* value(int number, ptrdiff_t image) const;

  // Call work(piece, worker) for every piece of planes of so many blocks.
  template <class Work>
  void for_each_piece(ptrdiff_t blocks, int channels, Work&& work, int unit = 1, ptrdiff_t tile = 3) const {
    const Partition pieces(images, blocks, channels, context.workers.threads(), unit, tile);
    context.workers.for_each(pieces.count(), [&](ptrdiff_t item, int worker) { work(pieces[item], worker); });
  }

  // Call work(image, channel) for every channel: for steps that read and write everything once, as fast as memory
  // comes.
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
  virtual bool joins() const { return false; }  // its output is its inputs, one after the other
  std::vector<int> inputs;
  int output = 0;
};

class Program {
 public:
  Program(std::vector<Shape> shapes, int domains, int threads, const Kernels& kernels);

  void add(std::unique_ptr<Step> step, std::vector<int> inputs);
  // Weights and biases must outlive the program.
  void set_head(int domain, StoredFloats weight, StoredFloats bias, int classes);
  // Ask for so many readable floats before and behind every slot.
  void need_slack(ptrdiff_t floats) { slack_ = floats > slack_ ? floats : slack_; }
  // Number a split value, of which one image has so many floats; the same one has one number.
  int add_split(const SplitValue& split, ptrdiff_t floats);
  // Count what is kept beside the file's own numbers; more than any real network needs is refused.
  void count_kept(ptrdiff_t numbers);
  void finish();

  // Classify prepared images; returns false if one of their values is not finite.
  bool run(const float* images, ptrdiff_t count, int domain, float* logits) const;

  int classes(int domain) const { return heads_[domain].classes; }
  const Shape& shape(int value) const { return shapes_[value]; }
  const Kernels& kernels() const { return kernels_; }
  int domains() const { return static_cast<int>(heads_.size()); }
  int threads() const { return threads_; }
  // AlignedBuffer that the activations of one image take, planes that are split included.
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

  // Where a value lies: in a slot of its own, or in that of a value into which it is joined.
  struct Home {
    int within = -1;              // the value into which it is joined
    ptrdiff_t first_channel = 0;  // of that value
    int slot = -1;
    ptrdiff_t offset = 0, image = 0;  // floats: from the slot's beginning, and from one image to the next
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
  std::vector<Home> homes_;            // by value
  std::vector<ptrdiff_t> slot_sizes_;  // floats for one image
  std::vector<SplitValue> splits_;
  ptrdiff_t most_split_ = 0;  // floats of the largest
  ptrdiff_t kept_ = 0;        // numbers beside the file's
  ptrdiff_t image_floats_ = 0;
  ptrdiff_t chunk_ = 1;  // images that go through the network together
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Context>> idle_;
};

const Kernels& choose_kernels(const std::string& name);  // "auto" for the best that this processor runs
std::vector<std::string> available_kernels();

}  // namespace prunus
