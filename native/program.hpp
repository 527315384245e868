// A network as a list of steps over values, for all domains. Domains share the weights and have their own kernel lists.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "aligned_buffer.hpp"
#include "integer_kernels.hpp"
#include "kernels.hpp"
#include "lattice.hpp"
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
  AlignedBuffer fours;              // sums of fours: zeros between uses
  AlignedBuffer sums, widened;      // widened: what a step makes of its input or kernels, just before it uses them
  AlignedBuffer kept;               // the used weights of a 1x1 layer
  const void* copied_by = nullptr;  // whose copy of an image `widened` holds
  uint64_t copied_in = 0;           // in which run
  ptrdiff_t copied_image = 0, copied_first = 0, copied_end = 0;  // of which image, and its rows
  std::vector<AlignedBuffer> between;                            // values between the steps of a chain
  std::vector<float*> between_slots;
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

// A copy of a coded value as some steps read it; equal recipes make equal copies.
struct CopyRoom {
  static constexpr ptrdiff_t kMargin = 256;  // bytes that may be read before and after a copy

  AlignedBuffer room;
  int holds = -1;  // the number of the copy in `room`

  uint8_t* data() { return reinterpret_cast<uint8_t*>(room.data()) + kMargin; }
  uint8_t* grow(ptrdiff_t bytes) {
    room.grow((bytes + 2 * kMargin) / static_cast<ptrdiff_t>(sizeof(float)) + 1);
    return data();
  }
};

// The memory and the threads of one run.
struct Context {
  explicit Context(int threads) : owned(new Workers(threads)), workers(*owned) {}
  std::unique_ptr<Workers, ReleaseWorkers> owned;
  Workers& workers;
  AlignedBuffer arena;        // holds all values
  std::vector<float*> slots;  // pointers into the arena
  SplitRoom split;
  CopyRoom copy;
  AlignedBuffer cropped, gathered, widened;
  std::vector<Scratch> scratch;    // one per worker
  uint64_t runs = 0;               // so far
  std::atomic<bool> finite{true};  // the images of the run, as far as they were read
};

class Program;

struct Run {
  const Program& program;
  Context& context;
  ptrdiff_t images;
  int domain;
  uint64_t serial;                  // differs between the runs of a context
  const float* in_place = nullptr;  // the images, if the first step reads them where they are
  float* const* between = nullptr;  // in a chain: the worker's own values
  float* value(int number, ptrdiff_t image) const;
  uint8_t* codes(int number, ptrdiff_t image) const;  // position 0 of the first channel of a coded value
  // Fill the padding above and below the channels of a piece of a coded value.
  void fill_ring(int number, const Piece& piece) const;
  // Give the padding of one plane the code of zero after its pixels were written: all of it, or that of some rows.
  void fill_padding(int number, ptrdiff_t image, ptrdiff_t channel) const;
  void fill_padding(int number, ptrdiff_t image, ptrdiff_t channel, ptrdiff_t first_row, ptrdiff_t last_row) const;

  // Fill the padding above or below some channels of an image; the blocks of the piece do not count.
  void fill_ends(int number, const Piece& channels, bool above, bool below) const;

  // Call work(piece, worker) for all pieces of planes with `blocks` blocks.
  template <class Work>
  void for_each_piece(ptrdiff_t blocks, int channels, Work&& work, int unit = 1, const Grain& grain = kFloats) const {
    const Partition pieces(images, blocks, channels, context.workers.threads(), unit, grain);
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

struct Floats {
  const float* data = nullptr;
  ptrdiff_t count = 0;
};

class Step {
 public:
  virtual ~Step() = default;
  virtual void run(const Run& run) const = 0;
  // Whether the number-th input may be written where it lies within the output.
  virtual bool joins(size_t) const { return false; }
  virtual bool reads_codes() const { return false; }
  virtual bool makes_codes() const { return false; }
  // Called when all steps are known: first to tell what padding coded values need, then to prepare runs.
  virtual void announce(Program&) {}
  virtual void settle(Program&) {}
  // Whether the step, if it is the first, reads images where they are and tells the context if they are not finite.
  virtual bool takes_images() const { return false; }
  // Whether some blocks of the output, in all channels, can be computed from nearby blocks of the first input, which
  // then has the size of the output. Such a step uses only its inputs and the scratch memory of its worker: it may be
  // in a chain, where nothing is prepared for all threads.
  virtual bool works_by_blocks() const { return false; }
  // As above, but the first input, which is complete, may have another size: such a step may begin a chain.
  virtual bool begins_by_blocks(const Program&) const { return works_by_blocks(); }
  // How many blocks before and after them are read, once the padding of all values is known.
  virtual ptrdiff_t reach(const Program&) const { return 0; }
  virtual void run_blocks(const Run&, const Piece&, int) const {}
  // How many channels of the output a thread computes with run_blocks, from all of the first input, if threads divide
  // the channels evenly; 0 if they do not.
  virtual int channels_apart(const Program&) const { return 0; }
  // Whether run_blocks can compute some channels of the output from the same channels of the inputs, without anything
  // that is prepared for all threads.
  virtual bool works_by_channels() const { return false; }
  // The weights of a domain that a run reads first, if it is worth fetching them ahead.
  virtual Floats first_weights(int) const { return {}; }
  std::vector<int> inputs;
  int output = 0;
  const Step* next = nullptr;  // in the order of computation
};

// Consecutive steps that threads run without waiting for each other. Either each of them computes a band of the last
// output, and before it what the band needs of the values between the steps, which belong to a worker. Or each of them
// computes some channels of all the outputs.
struct Chain {
  size_t first, last;
  std::vector<ptrdiff_t> wider;  // per step: how many blocks more than the band are computed on both sides
  int channels = 0;              // of a thread; 0 if threads compute bands
};

// A classifier of codes: weight is [class][feature].
struct IntegerHead {
  const int8_t* weight = nullptr;
  const float *multipliers = nullptr, *offsets = nullptr;
  int classes = 0;
};

class Program {
 public:
  Program(std::vector<Shape> shapes, int domains, int threads, const Kernels& kernels);

  void add(std::unique_ptr<Step> step, std::vector<int> inputs);
  // Weight and bias must outlive the program.
  void set_head(int domain, StoredFloats weight, StoredFloats bias, int classes);
  // Weight, multipliers and offsets must outlive the program.
  void set_integer_head(int domain, const IntegerHead& head) { integer_heads_.at(domain) = head; }
  // Declare that a value is coded; `zeros` are its codes of 0, one per domain.
  void set_zeros(int value, std::vector<uint8_t> zeros);
  // Require padding of a coded value that windows read in place: rows above and below, and columns on both sides.
  void need_ring(int value, ptrdiff_t rows, ptrdiff_t columns);
  // Require padding columns of all coded values that have the size of a value.
  void need_side(int value, ptrdiff_t columns);
  // Return the number of a copy that takes `bytes` bytes per image; equal recipes share a number.
  int add_copy(const std::vector<ptrdiff_t>& recipe, ptrdiff_t bytes);
  // Require scratch memory for each worker.
  void need_scratch(ptrdiff_t bytes) { scratch_bytes_ = bytes > scratch_bytes_ ? bytes : scratch_bytes_; }
  // Require `floats` readable floats before and after every slot.
  void need_slack(ptrdiff_t floats) { slack_ = floats > slack_ ? floats : slack_; }
  // Return the number of a split value that takes `floats` floats per image; equal ones share a number.
  int add_split(const SplitValue& split, ptrdiff_t floats);
  // Count numbers that are kept in addition to the model file's. Throws if there are more than any real network needs.
  void count_kept(ptrdiff_t numbers);
  static constexpr ptrdiff_t kMostCopied = ptrdiff_t{1} << 24;  // numbers: 64 MiB for all domains
  static constexpr ptrdiff_t kMostListed = ptrdiff_t{1} << 25;  // lists are small, and runs without them slow

  // Reserve room for copies that only make runs faster; returns false if there is none left.
  bool reserve_copies(ptrdiff_t numbers, ptrdiff_t most);
  void finish();

  // Classify prepared images; returns false if one of their values is not finite.
  bool run(const float* images, ptrdiff_t count, int domain, float* logits) const;

  int classes(int domain) const {
    return integer_heads_[domain].weight ? integer_heads_[domain].classes : heads_[domain].classes;
  }
  const Shape& shape(int value) const { return shapes_[value]; }
  const Kernels& kernels() const { return kernels_; }
  const IntegerKernels& integers() const { return *kernels_.integers; }
  bool is_coded(int value) const { return !zeros_[value].empty(); }
  uint8_t zero(int value, int domain) const { return zeros_[value][domain]; }
  const Lattice& lattice(int value) const { return *lattice_of_[value]; }  // of a coded value
  int domains() const { return static_cast<int>(heads_.size()); }
  int threads() const { return threads_; }
  // Whether the step that makes a value runs in a chain of several that divides planes.
  bool is_chained(int value) const { return !chained_.empty() && chained_[value]; }
  // Floats that the activations of one image take, including split planes and what workers have of their own.
  ptrdiff_t image_floats() const { return image_floats_ + worker_floats_; }
  int num_values() const { return static_cast<int>(shapes_.size()); }
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
    int between = -1;                 // or: its number among the values between the steps of its chain
    ptrdiff_t offset = 0, image = 0;  // floats from the start of the slot, and from one image to the next
  };
  friend struct Run;

  void check_codes() const;
  void find_chains();
  Chain chain_from(size_t first, const std::vector<int>& readers) const;
  Chain chain_of_channels(size_t first) const;
  bool continues(size_t step, const std::vector<int>& readers) const;
  void run_chain(const Run& run, const Chain& chain) const;
  void run_bands(const Run& run, const Chain& chain) const;
  void run_channels(const Run& run, const Chain& chain) const;
  void join_values();
  void spread_rings();
  void place_values();
  void place_between();
  ptrdiff_t plane(int value) const;  // floats
  void check_size() const;
  int take_slot(std::vector<int>& free, ptrdiff_t size);
  std::unique_ptr<Context> take_context() const;
  void prepare(Context& context, ptrdiff_t images) const;
  const float* head_rows(Context& context, const Head& head) const;
  bool takes_images() const;
  void copy_images(const Run& run, const float* images) const;
  void classify(const Run& run, float* logits) const;
  void classify_codes(const Run& run, float* logits) const;
  bool run_chunk(Context& context, const float* images, ptrdiff_t count, int domain, float* logits) const;

  std::vector<Shape> shapes_;
  int threads_;
  const Kernels& kernels_;
  std::vector<Head> heads_;
  std::vector<std::unique_ptr<Step>> steps_;
  ptrdiff_t slack_ = 64;
  std::vector<Home> homes_;            // one per value
  std::vector<ptrdiff_t> slot_sizes_;  // floats per image
  std::vector<IntegerHead> integer_heads_;
  std::vector<std::vector<uint8_t>> zeros_;          // per value and domain; empty if it holds floats
  std::vector<uint8_t> ringed_;                      // per value: whether windows read its padding
  std::map<std::pair<int, int>, Lattice> lattices_;  // one per size of coded values
  std::vector<Lattice*> lattice_of_;                 // per value
  std::vector<std::vector<ptrdiff_t>> copies_;       // recipes
  ptrdiff_t most_copied_ = 0;                        // bytes of the largest copy
  std::vector<SplitValue> splits_;
  ptrdiff_t most_split_ = 0;              // floats of the largest split value
  ptrdiff_t kept_ = 0;                    // numbers in addition to the model file's
  ptrdiff_t copied_ = 0;                  // numbers of copies that only make runs faster
  std::vector<Chain> chains_;             // all steps, in order; most are alone
  std::vector<uint8_t> chained_;          // per value: whether its step is in a chain of several
  std::vector<ptrdiff_t> between_sizes_;  // floats
  ptrdiff_t scratch_bytes_ = 0;           // of a worker, as far as steps ask for it
  ptrdiff_t image_floats_ = 0;
  ptrdiff_t worker_floats_ = 0;  // of all workers, for any number of images
  ptrdiff_t chunk_ = 1;          // images that go through the network together
  bool copies_images_ = true;    // before the first step
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Context>> idle_;
};

// Steps over small planes call these for every channel.
inline float* Run::value(int number, ptrdiff_t image) const {
  const Program::Home& home = program.homes_[number];
  float* slot = home.between < 0 ? context.slots[home.slot] : between[home.between];
  return slot + home.offset + image * home.image;
}

inline uint8_t* Run::codes(int number, ptrdiff_t image) const {
  return reinterpret_cast<uint8_t*>(value(number, image)) + program.lattice(number).margin();
}

}  // namespace prunus
