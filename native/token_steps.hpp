// Steps over tokens: the pixels of a value, usually in one row.
#pragma once
#include <cstdint>
#include <vector>

#include "program.hpp"

namespace prunus {

// scale * x + bias, with numbers for every channel and pixel. They are copied, because planes have other sizes.
class AffineMapStep : public Step {
 public:
  explicit AffineMapStep(int domains) : scale_(domains), bias_(domains) {}
  // Either may be null; they hold the pixels of a shape without gaps.
  void set_domain(int domain, const Shape& shape, const float* scale, const float* bias);
  void run(const Run& run) const override;

 private:
  std::vector<AlignedBuffer> scale_, bias_;
};

// The pixels of all inputs as one row, after some that do not depend on the image.
class JoinPixelsStep : public Step {
 public:
  JoinPixelsStep(int domains, int count) : tokens_(domains), count_(count) {}
  // [channel][token], or null for zeros; must outlive the step.
  void set_domain(int domain, const float* tokens) { tokens_.at(domain) = tokens; }
  void run(const Run& run) const override;

 private:
  std::vector<const float*> tokens_;
  int count_;
};

// Copies numbers in another order.
class RearrangeStep : public Step {
 public:
  struct Axis {
    ptrdiff_t size, stride;
  };
  // Throws if a number that is not in the input would be read.
  RearrangeStep(const Shape& from, const Shape& to, const std::vector<Axis>& axes, ptrdiff_t offset);
  void run(const Run& run) const override;

 private:
  std::vector<uint32_t> source_;  // per number of the result: its float within the input
};

struct AttentionSpec {
  int heads, dim, width;  // width: channels of a head in v and in the result
  int first[3], step[3];  // of the channels of q, k and v
  float scale, apart;
};

// Which pixels see each other: all, or those of a window.
struct AttentionLayout {
  AttentionSpec spec;
  int queries, keys;             // of a window, or of the whole values
  std::vector<int> windows;      // the pixels of every window; empty without windows
  std::vector<uint8_t> regions;  // of the pixels of every window; empty if no border matters

  ptrdiff_t num_windows() const { return windows.empty() ? 1 : static_cast<ptrdiff_t>(windows.size()) / queries; }
};

class AttentionStep : public Step {
 public:
  AttentionStep(AttentionLayout layout, int domains);
  // [head][query][key], or null. It is copied with one query per lane.
  void set_domain(int domain, const float* bias);
  void run(const Run& run) const override;

 private:
  void attend(const Run& run, ptrdiff_t image, ptrdiff_t window, int head, int worker) const;
  ptrdiff_t padded() const { return (layout_.queries + kBlock - 1) / kBlock * kBlock; }

  AttentionLayout layout_;
  std::vector<AlignedBuffer> regions_;  // per window; empty if no border matters
  std::vector<AlignedBuffer> bias_;     // per domain: [head][key][query]
};

}  // namespace prunus
