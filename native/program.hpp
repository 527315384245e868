// A network as a list of steps over values, for all domains at once; weights are shared, lists of kernels are not.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels.hpp"
#include "memory.hpp"
#include "pieces.hpp"
#include "workers.hpp"

namespace prunus {

struct Shape {
  int channels, height, width;
  long pixels() const { return static_cast<long>(height) * width; }
  long blocks() const { return (pixels() + kBlock - 1) / kBlock; }
  long plane() const { return plane_of(pixels()); }
  static long plane_of(long pixels) { return ((pixels + kBlock - 1) / kBlock | 1) * kBlock; }
};

struct Scratch {
  Floats sums, widened;  // widened: kernels of one input
  Floats kept;  // weights of a 1x1 layer that the domain uses, where their inputs lie, and where the lists of outputs begin
  std::vector<uint32_t> offsets, start;
};

// A value as strided windows read it: every channel as planes of some of its rows and columns.
struct SplitValue {
  int value, height, width, down, across;  // down and across: the strides
  std::vector<long> phases;
  bool operator==(const SplitValue& other) const {
    return value == other.value && height == other.height && width == other.width && down == other.down &&
           across == other.across && phases == other.phases;
  }
};

struct SplitRoom {
  Floats planes;
  int holds = -1;  // which split value
};

// What one run needs: room for values and scratch, and its threads.
struct Context {
  explicit Context(int threads) : owned(new Workers(threads)), workers(*owned) {}
  std::unique_ptr<Workers, ReleaseWorkers> owned;
  Workers& workers;
  Floats arena;                // of all values
  std::vector<float*> slots;   // places in it
  SplitRoom split;
  Floats cropped, gathered, widened;
  std::vector<Scratch> scratch;  // by worker
};

class Program;

struct Run {
  const Program& program;
  Context& context;
  long images;
  int domain;
  float* value(int number, long image) const;

  // Call work(piece, worker) for every piece of planes of so many blocks.
  template <class Work>
  void each(long blocks, int channels, Work&& work, int unit = 1, long tile = 3) const {
    const Pieces pieces(images, blocks, channels, context.workers.threads(), unit, tile);
    context.workers.each(pieces.count(), [&](long item, int worker) { work(pieces[item], worker); });
  }

  // Call work(image, channel) for every channel: for steps that read and write everything once, as fast as memory comes.
  template <class Work>
  void each_channel(int channels, Work&& work) const {
    each(1, channels, [&](const Piece& piece, int) {
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
  void set_head(int domain, Numbers weight, Numbers bias, int classes);
  // Ask for so many readable floats before and behind every slot.
  void need_slack(long floats) { slack_ = floats > slack_ ? floats : slack_; }
  // Number a split value, of which one image has so many floats; the same one has one number.
  int add_split(const SplitValue& split, long floats);
  // Count what is kept beside the file's own numbers; more than any real network needs is refused.
  void count_kept(long numbers);
  void finish();

  // Classify prepared images; false where a number of theirs is not finite.
  // `seconds`, if given, gets the time of every step added.
  bool run(const float* images, long count, int domain, float* logits, double* seconds = nullptr) const;

  int classes(int domain) const { return heads_[domain].classes; }
  const Shape& shape(int value) const { return shapes_[value]; }
  const Kernels& kernels() const { return kernels_; }
  int domains() const { return static_cast<int>(heads_.size()); }
  int threads() const { return threads_; }
  // Floats that the activations of one image take, planes that are split included.
  long image_floats() const { return image_floats_; }
  int next_value() const { return static_cast<int>(steps_.size()) + 1; }
  long slack() const { return slack_; }
  bool lies_within(int value, int other, long first_channel) const {
    return homes_[value].within == other && homes_[value].first_channel == first_channel;
  }

 private:
  struct Head {
    Numbers weight, bias;
    int classes = 0;
  };

  // Where a value lies: in a slot of its own, or in that of a value into which it is joined.
  struct Home {
    int within = -1;        // the value into which it is joined
    long first_channel = 0;  // of that value
    int slot = -1;
    long offset = 0, image = 0;  // floats: from the slot's beginning, and from one image to the next
  };
  friend struct Run;

  void join_values();
  void place_values();
  int take_slot(std::vector<int>& free, long size);
  std::unique_ptr<Context> take_context() const;
  void prepare(Context& context, long images) const;
  const float* head_rows(Context& context, const Head& head) const;
  bool take_images(const Run& run, const float* images) const;
  void classify(const Run& run, float* logits) const;
  bool run_chunk(Context& context, const float* images, long count, int domain, float* logits, double* seconds) const;

  std::vector<Shape> shapes_;
  int threads_;
  const Kernels& kernels_;
  std::vector<Head> heads_;
  std::vector<std::unique_ptr<Step>> steps_;
  long slack_ = 64;
  std::vector<Home> homes_;       // by value
  std::vector<long> slot_sizes_;  // floats for one image
  std::vector<SplitValue> splits_;
  long most_split_ = 0;  // floats of the largest
  long kept_ = 0;        // numbers beside the file's
  long image_floats_ = 0;
  long chunk_ = 1;       // images that go through the network together
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Context>> idle_;
};

const Kernels& choose_kernels(const std::string& name);  // "auto" for the best that this processor runs
std::vector<std::string> available_kernels();

}  // namespace prunus
