// All steps over codes except convolutions. Their numbers are given per domain.
#pragma once
#include <utility>
#include <vector>

#include "windows.hpp"

namespace prunus {

struct Limits {
  float low, high;  // whole numbers from 0 to 255
};

// A step that reads codes and makes codes.
class CodedStep : public Step {
 public:
  bool reads_codes() const override { return true; }
  bool makes_codes() const override { return true; }
};

// Makes codes of floats.
class QuantizeStep : public Step {
 public:
  explicit QuantizeStep(std::vector<float> inverse_scales) : inverse_scales_(std::move(inverse_scales)) {}
  bool takes_images() const override { return true; }
  bool makes_codes() const override { return true; }
  void run(const Run& run) const override;

 private:
  std::vector<float> inverse_scales_;
};

// Makes floats of codes.
class DequantizeStep : public Step {
 public:
  explicit DequantizeStep(std::vector<float> scales) : scales_(std::move(scales)) {}
  bool reads_codes() const override { return true; }
  void run(const Run& run) const override;

 private:
  std::vector<float> scales_;
};

// A step that makes a code from those at the same position.
class CodedElementwiseStep : public CodedStep {
 public:
  void run(const Run& run) const override;
  bool works_by_blocks() const override { return true; }
  bool works_by_channels() const override { return true; }
  void run_blocks(const Run& run, const Piece& piece, int worker) const override;

 private:
  // Set what differs between steps; the first input, the output and its padding are set already.
  virtual void complete(CodedElementwise& j, const Run& run, ptrdiff_t image, ptrdiff_t channel) const = 0;
};

// code * multiplier + offset, per channel. The arrays must outlive the step.
class CodedAffineStep : public CodedElementwiseStep {
 public:
  struct Domain {
    const float *multipliers, *offsets;
    Limits limits;
  };
  explicit CodedAffineStep(std::vector<Domain> domains) : domains_(std::move(domains)) {}

 private:
  void complete(CodedElementwise& j, const Run& run, ptrdiff_t image, ptrdiff_t channel) const override;

  std::vector<Domain> domains_;
};

// Replaces each code by that of a table with 256 entries, which must outlive the step.
class TableStep : public CodedStep {
 public:
  explicit TableStep(std::vector<const uint8_t*> tables) : tables_(std::move(tables)) {}
  void run(const Run& run) const override;

 private:
  std::vector<const uint8_t*> tables_;
};

// a * first + b * second + offset, or (a - zero) * (b - zero) * first + offset; b of a product may have a single pixel
class CodedCombineStep : public CodedElementwiseStep {
 public:
  struct Domain {
    float first_zero, second_zero, first_factor, second_factor, offset;
    Limits limits;
  };
  CodedCombineStep(bool add, std::vector<Domain> domains) : add_(add), domains_(std::move(domains)) {}

 private:
  void complete(CodedElementwise& j, const Run& run, ptrdiff_t image, ptrdiff_t channel) const override;

  bool add_;
  std::vector<Domain> domains_;
};

// Concatenates channels, each input through a table unless that is null, then appends channels of zero.
class CodedJoinStep : public CodedStep {
 public:
  using Tables = std::vector<const uint8_t*>;  // per input
  explicit CodedJoinStep(std::vector<Tables> tables) : tables_(std::move(tables)) {}
  bool joins(size_t input) const override;
  void run(const Run& run) const override;

 private:
  std::vector<Tables> tables_;  // per domain
};

class CodedPoolStep : public CodedStep {
 public:
  struct Domain {
    double factor;  // divided by the number of pixels of a window; unused by max pooling
    float offset;
  };
  CodedPoolStep(const WindowSpec& spec, Program& program, int input, bool largest, bool count_pads,
                const std::vector<Domain>& domains);
  void run(const Run& run) const override;

 private:
  WindowSpec spec_;
  bool largest_;
  ptrdiff_t length_;                         // columns that windows read, with padding
  std::vector<int32_t> columns_;             // per output column: how many columns of the window are inside the image
  std::vector<std::vector<float>> factors_;  // per domain and output pixel
  std::vector<float> offsets_;
};

class CodedMeanStep : public CodedStep {
 public:
  struct Domain {
    float factor, offset;
  };
  explicit CodedMeanStep(std::vector<Domain> domains) : domains_(std::move(domains)) {}
  void settle(Program& program) override;
  void run(const Run& run) const override;

 private:
  std::vector<Domain> domains_;
};

}  // namespace prunus
