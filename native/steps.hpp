// Every step that is not a convolution.
#pragma once
#include <vector>

#include "windows.hpp"

namespace prunus {

// activation(scale * x + bias), by domain and channel
class AffineStep : public Step {
 public:
  AffineStep(int domains, Activation activation, float slope);
  // What is given must outlive the step; either may be null.
  void set_domain(int domain, const float* scale, const float* bias);
  void run(const Run& run) const override;

 private:
  std::vector<const float*> scale_, bias_;
  Activation activation_;
  float slope_;
};

// activation(x + y) or activation(x * y); y may have one pixel
class CombineStep : public Step {
 public:
  CombineStep(bool add, Activation activation, float slope) : add_(add), activation_(activation), slope_(slope) {}
  void run(const Run& run) const override;

 private:
  bool add_;
  Activation activation_;
  float slope_;
};

// Channels one after the other; where there are fewer than the output has, zeros follow.
class JoinStep : public Step {
 public:
  bool joins() const override { return true; }
  void run(const Run& run) const override;
};

class PoolStep : public Step {
 public:
  PoolStep(const WindowSpec& spec, Program& program, int input, bool largest, bool count_pads);
  void run(const Run& run) const override;

 private:
  Windows windows_;
  bool largest_;
  Floats factors_;
};

class MeanStep : public Step {
 public:
  void run(const Run& run) const override;
};

class LayerNormStep : public Step {
 public:
  LayerNormStep(int domains, float eps) : scale_(domains), bias_(domains), eps_(eps) {}
  void set_domain(int domain, const float* scale, const float* bias);
  void run(const Run& run) const override;

 private:
  std::vector<const float*> scale_, bias_;
  float eps_;
};

}  // namespace prunus
