// All steps except convolutions.
#pragma once
#include <vector>

#include "windows.hpp"

namespace prunus {

// A step with a scale and a bias per channel and domain.
class ScaledStep : public Step {
 public:
  explicit ScaledStep(int domains) : scale_(domains), bias_(domains) {}
  // Scale and bias must outlive the step; either may be null.
  void set_domain(int domain, const float* scale, const float* bias) {
    scale_.at(domain) = scale;
    bias_.at(domain) = bias;
  }

 protected:
  std::vector<const float*> scale_, bias_;
};

// activation(scale * x + bias)
class AffineStep : public ScaledStep {
 public:
  AffineStep(int domains, Activation activation, float slope)
      : ScaledStep(domains), activation_(activation), slope_(slope) {}
  void run(const Run& run) const override;

 private:
  Activation activation_;
  float slope_;
};

// activation(x + y) or activation(x * y); y may have a single pixel
class CombineStep : public Step {
 public:
  CombineStep(bool add, Activation activation, float slope) : add_(add), activation_(activation), slope_(slope) {}
  void run(const Run& run) const override;

 private:
  bool add_;
  Activation activation_;
  float slope_;
};

// Concatenates channels, then appends zeros up to the number of output channels.
class JoinStep : public Step {
 public:
  bool joins(size_t) const override { return true; }
  void run(const Run& run) const override;
};

class PoolStep : public Step {
 public:
  PoolStep(const WindowSpec& spec, Program& program, int input, bool largest, bool count_pads);
  void run(const Run& run) const override;

 private:
  Windows windows_;
  bool largest_;
  AlignedBuffer factors_;
};

class MeanStep : public Step {
 public:
  void run(const Run& run) const override;
};

class LayerNormStep : public ScaledStep {
 public:
  LayerNormStep(int domains, float eps) : ScaledStep(domains), eps_(eps) {}
  void run(const Run& run) const override;

 private:
  float eps_;
};

}  // namespace prunus
