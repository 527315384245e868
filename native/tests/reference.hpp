// The reference: what a network computes, in double precision and as simply as possible.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "network.hpp"

namespace prunus::test {

const double pi = std::acos(-1.0);  // M_PI is not part of C++, and Windows lacks it

using Values = std::vector<double>;  // of one image, channel by channel

inline double activate(double x, Activation activation, double slope) {
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  switch (activation) {
    case Activation::none: return x;
    case Activation::relu: return std::max(x, 0.0);
    case Activation::relu6: return std::min(std::max(x, 0.0), 6.0);
    case Activation::leaky_relu: return x < 0 ? slope * x : x;
    case Activation::elu: return x < 0 ? slope * std::expm1(x) : x;
    case Activation::silu: return x * sigmoid(x);
    case Activation::gelu: return x * 0.5 * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::gelu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / pi) * (x + 0.044715 * x * x * x)));
    case Activation::mish: return x * std::tanh(std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))));
    case Activation::hard_swish: return x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case Activation::hard_sigmoid: return std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case Activation::sigmoid: return sigmoid(x);
    case Activation::tanh: return std::tanh(x);
  }
  return x;
}

inline double or_else(const std::vector<float>& numbers, ptrdiff_t index, double otherwise) {
  return numbers.empty() ? otherwise : numbers[index];
}

// Call visit(tap, pixel or -1, counts) for all taps of the window of an output pixel. Pixels in the padding count,
// pixels after it do not.
template <class Visit>
void each_tap(const Operation& o, int row, int column, Visit visit) {
  const WindowSpec& w = o.window;
  for (int y = 0; y < w.kernel[0]; y++)
    for (int x = 0; x < w.kernel[1]; x++) {
      const ptrdiff_t r =
          static_cast<ptrdiff_t>(row) * w.stride[0] - w.pads[0] + static_cast<ptrdiff_t>(y) * w.dilation[0];
      const ptrdiff_t c =
          static_cast<ptrdiff_t>(column) * w.stride[1] - w.pads[1] + static_cast<ptrdiff_t>(x) * w.dilation[1];
      const bool inside = r >= 0 && r < o.in.height && c >= 0 && c < o.in.width;
      const bool counts = r < o.in.height + w.pads[2] && c < o.in.width + w.pads[3];
      visit(y * w.kernel[1] + x, inside ? r * o.in.width + c : -1, counts);
    }
}

// Return the index of each used kernel among the kept kernels: [output][input of its group], -1 if the domain does not
// use it.
inline std::vector<ptrdiff_t> used_kernels(const Operation& o, const Tensors& tensors) {
  const ptrdiff_t in_group = o.in.channels / o.groups, out_group = o.out.channels / o.groups,
                  group = in_group * out_group;
  std::vector<ptrdiff_t> result(o.kept.size(), -1);
  for (ptrdiff_t stored = 0, kernel = 0; stored < static_cast<ptrdiff_t>(o.kept.size()); stored++) {
    if (!o.kept[stored]) continue;
    const ptrdiff_t within = stored % group,
                    first = stored / group * out_group;  // kernels larger than 1x1 are stored input by input
    const bool by_input = taps_of(o.window) > 1;
    const ptrdiff_t output = first + (by_input ? within % out_group : within / in_group);
    const ptrdiff_t input = by_input ? within / out_group : within % in_group;
    if (tensors.used[kernel]) result[output * in_group + input] = kernel;
    kernel++;
  }
  return result;
}

inline Values convolved(const Operation& o, const Tensors& tensors, const Values& input, const Values* residual) {
  const ptrdiff_t taps = taps_of(o.window), out_group = o.out.channels / o.groups, in_group = o.in.channels / o.groups;
  const std::vector<ptrdiff_t> used = used_kernels(o, tensors);
  Values result;
  for (int channel = 0; channel < o.out.channels; channel++) {
    const ptrdiff_t* kernels = used.data() + channel * in_group;
    const ptrdiff_t first = channel / out_group * in_group;
    for (ptrdiff_t p = 0; p < o.out.pixels(); p++) {
      double sum = 0;
      each_tap(o, static_cast<int>(p / o.out.width), static_cast<int>(p % o.out.width),
               [&](int tap, ptrdiff_t pixel, bool) {
                 if (pixel < 0) return;
                 sum += or_else(tensors.ones, channel * taps + tap, 0);
                 for (ptrdiff_t i = 0; i < in_group; i++)
                   if (kernels[i] >= 0)
                     sum += o.kernels.wide[kernels[i] * taps + tap] * input[(first + i) * o.in.pixels() + pixel];
               });
      const double value = sum * or_else(tensors.scale, channel, 1) + or_else(tensors.bias, channel, 0);
      result.push_back(activate(value + (residual ? (*residual)[result.size()] : 0), o.activation, o.slope));
    }
  }
  return result;
}

inline Values pooled(const Operation& o, const Values& input) {
  Values result;
  for (int channel = 0; channel < o.out.channels; channel++)
    for (ptrdiff_t p = 0; p < o.out.pixels(); p++) {
      double sum = 0, most = -INFINITY, counted = 0;
      each_tap(o, static_cast<int>(p / o.out.width), static_cast<int>(p % o.out.width),
               [&](int, ptrdiff_t pixel, bool counts) {
                 if (pixel >= 0 || (counts && o.count_pads)) counted++;
                 if (pixel < 0) return;
                 sum += input[channel * o.in.pixels() + pixel];
                 most = std::max(most, input[channel * o.in.pixels() + pixel]);
               });
      result.push_back(o.largest ? most : sum / counted);
    }
  return result;
}

inline Values normed(const Operation& o, const Tensors& tensors, const Values& input) {
  Values result(input.size());
  const ptrdiff_t pixels = o.in.pixels(), channels = o.in.channels;
  for (ptrdiff_t p = 0; p < pixels; p++) {
    double mean = 0, variance = 0;
    for (ptrdiff_t c = 0; c < channels; c++) mean += input[c * pixels + p] / channels;
    for (ptrdiff_t c = 0; c < channels; c++) variance += std::pow(input[c * pixels + p] - mean, 2) / channels;
    for (ptrdiff_t c = 0; c < channels; c++)
      result[c * pixels + p] =
          or_else(tensors.scale, c, 1) * (input[c * pixels + p] - mean) / std::sqrt(variance + o.eps) +
          or_else(tensors.bias, c, 0);
  }
  return result;
}

inline Values elementwise(const Operation& o, const Tensors& tensors, const Values& x, const Values* y) {
  Values result(x.size());
  for (size_t k = 0; k < x.size(); k++) {
    const size_t channel = k / o.in.pixels();
    const double other = !y ? 0 : y->size() == x.size() ? (*y)[k] : (*y)[channel];
    const double value = o.kind == Kind::affine
                             ? or_else(tensors.scale, channel, 1) * x[k] + or_else(tensors.bias, channel, 0)
                         : o.kind == Kind::add ? x[k] + other
                                               : x[k] * other;
    result[k] = activate(value, o.activation, o.slope);
  }
  return result;
}

inline Values joined(const Operation& o, const std::vector<const Values*>& inputs) {
  Values result;
  for (const Values* values : inputs) result.insert(result.end(), values->begin(), values->end());
  result.resize(o.out.channels * o.out.pixels(), 0.0);
  return result;
}

inline Values means(const Operation& o, const Values& input) {
  Values result(o.in.channels, 0.0);
  for (size_t k = 0; k < input.size(); k++) result[k / o.in.pixels()] += input[k] / static_cast<double>(o.in.pixels());
  return result;
}

inline Values compute(const Operation& o, const Tensors& tensors, const std::vector<const Values*>& inputs) {
  const Values* second = inputs.size() > 1 ? inputs[1] : nullptr;
  switch (o.kind) {
    case Kind::convolution: return convolved(o, tensors, *inputs[0], second);
    case Kind::pool: return pooled(o, *inputs[0]);
    case Kind::join: return joined(o, inputs);
    case Kind::mean: return means(o, *inputs[0]);
    case Kind::layer_norm: return normed(o, tensors, *inputs[0]);
    default: return elementwise(o, tensors, *inputs[0], second);
  }
}

// Return the logits of all images.
inline Values expected(const Network& net, int domain) {
  const Head& head = net.heads[domain];
  const ptrdiff_t size = net.shapes[0].channels * net.shapes[0].pixels();
  Values logits;
  for (ptrdiff_t n = 0; n < net.count; n++) {
    std::vector<Values> values{Values(net.images.begin() + n * size, net.images.begin() + (n + 1) * size)};
    for (const Operation& o : net.operations) {
      std::vector<const Values*> inputs;
      for (int input : o.inputs) inputs.push_back(&values[input]);
      values.push_back(compute(o, o.domains[domain], inputs));
    }
    for (int k = 0; k < head.classes; k++) {
      double sum = head.bias.wide[k];
      for (size_t f = 0; f < values.back().size(); f++)
        sum += values.back()[f] * head.weight.wide[k * values.back().size() + f];
      logits.push_back(sum);
    }
  }
  return logits;
}

}  // namespace prunus::test
