// Attention over codes: both products are of integers, and the weights between them are codes as well.
#pragma once
#include <cstdint>
#include <vector>

#include "integer_steps.hpp"
#include "token_steps.hpp"

namespace prunus {

class CodedAttentionStep : public CodedStep {
 public:
  struct Domain {
    int32_t q_zero = 0, v_zero = 0;
    float multiplier = 0, factor = 0;
  };
  // As an AttentionStep; `apart` of the layout counts, and `scale` does not.
  CodedAttentionStep(AttentionLayout layout, std::vector<Domain> domains);
  // [head][query][key], or null. It is copied with one query per lane.
  void set_bias(int domain, const float* bias);
  void settle(Program& program) override;
  void run(const Run& run) const override;

 private:
  // The planes of one head: in place, or gathered in a row if a window's pixels are apart.
  struct Planes {
    const uint8_t* codes;
    ptrdiff_t plane;
  };

  void attend(const Run& run, ptrdiff_t image, ptrdiff_t window, int head, int worker) const;
  Planes planes(const Run& run, ptrdiff_t image, ptrdiff_t window, int head, int part, uint8_t* room) const;
  ptrdiff_t channels(int part) const { return part == 2 ? layout_.spec.width : layout_.spec.dim; }
  ptrdiff_t pixels(int part) const { return part == 0 ? layout_.queries : layout_.keys; }
  void set_borders();

  AttentionLayout layout_;
  std::vector<Domain> domains_;
  std::vector<AlignedBuffer> bias_;                // per domain: [head][key][query]
  std::vector<AlignedBuffer> borders_;             // different patterns: [key][query]
  std::vector<int> pattern_;                       // per window: its borders, or -1
  bool gathers_ = false;                           // pixels are not in one row
  std::vector<std::vector<ptrdiff_t>> positions_;  // of q, k and v, if they are gathered: [window][pixel]
  std::vector<uint8_t> whole_;                     // what a gathered result has for `pixels`
};

}  // namespace prunus
