// Compares every instruction set that this processor has with sums in double precision, over drawn shapes, strides,
// paddings, groups and densities. Needs nothing but a compiler, so that it also runs with sanitizers and under emulation:
//     kernels_test [cases] [first seed]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "../convolution.hpp"
#include "../steps.hpp"

using namespace prunus;

namespace {

struct Draw {
  std::mt19937 engine;
  explicit Draw(unsigned seed) : engine(seed) {}
  int upto(int least, int most) { return std::uniform_int_distribution<int>(least, most)(engine); }
  bool chance(double p) { return std::uniform_real_distribution<double>(0, 1)(engine) < p; }
  float number() { return std::normal_distribution<float>(0, 1)(engine); }
  std::vector<float> numbers(size_t count) {
    std::vector<float> found(count);
    for (float& each : found) each = number();
    return found;
  }
};

double activate(double x, Activation activation, double slope) {
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  switch (activation) {
    case Activation::none: return x;
    case Activation::relu: return std::max(x, 0.0);
    case Activation::relu6: return std::min(std::max(x, 0.0), 6.0);
    case Activation::leaky_relu: return x < 0 ? slope * x : x;
    case Activation::elu: return x < 0 ? slope * std::expm1(x) : x;
    case Activation::silu: return x * sigmoid(x);
    case Activation::gelu: return x * 0.5 * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::gelu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::mish: return x * std::tanh(std::log1p(std::exp(x)));
    case Activation::hard_swish: return x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case Activation::hard_sigmoid: return std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case Activation::sigmoid: return sigmoid(x);
    case Activation::tanh: return std::tanh(x);
  }
  return x;
}

struct Case {
  Shape in, out;
  ConvolutionSpec spec;
  bool residual, largest, count_pads, is_pool;
  std::vector<uint8_t> kept, used;
  std::vector<float> kernels, scale, bias, ones, images, weight, head_bias;
  long count;
  int threads;
};

int places(int side, int kernel, int dilation, int stride, int pads) {
  return (side + pads - ((kernel - 1) * dilation + 1)) / stride + 1;
}

bool draw_case(Draw& d, Case& c) {
  const int sides[] = {1, 1, 2, 3, 3, 3, 5, 7};
  WindowSpec& w = c.spec.window;
  for (int axis = 0; axis < 2; axis++) {
    w.kernel[axis] = sides[d.upto(0, 7)];
    w.stride[axis] = d.upto(1, 3);
    w.dilation[axis] = d.chance(0.2) ? 2 : 1;
    w.pads[axis] = d.chance(0.5) ? w.kernel[axis] / 2 : d.upto(0, w.kernel[axis]);
    w.pads[axis + 2] = d.chance(0.5) ? w.pads[axis] : d.upto(0, w.kernel[axis]);
  }
  c.is_pool = d.chance(0.2);
  if (c.is_pool)
    for (int axis = 0; axis < 2; axis++) {
      w.dilation[axis] = 1;
      w.pads[axis] = w.pads[axis + 2] = d.upto(0, w.kernel[axis] / 2);
    }
  const int groups = c.is_pool ? 1 : d.upto(1, 4), in_group = d.chance(0.3) ? 1 : d.upto(1, d.chance(0.1) ? 130 : 12);
  c.in = {groups * in_group, d.upto(1, 20), d.upto(1, 20)};
  const int outputs = c.is_pool ? c.in.channels : groups * d.upto(1, d.chance(0.1) ? 140 : 12);
  const int height = c.in.height + w.pads[0] + w.pads[2] - ((w.kernel[0] - 1) * w.dilation[0] + 1);
  const int width = c.in.width + w.pads[1] + w.pads[3] - ((w.kernel[1] - 1) * w.dilation[1] + 1);
  if (height < 0 || width < 0) return false;
  c.out = {outputs, places(c.in.height, w.kernel[0], w.dilation[0], w.stride[0], w.pads[0] + w.pads[2]),
           places(c.in.width, w.kernel[1], w.dilation[1], w.stride[1], w.pads[1] + w.pads[3])};
  c.spec.inputs = c.in.channels;
  c.spec.outputs = outputs;
  c.spec.groups = groups;
  c.spec.activation = static_cast<Activation>(d.upto(0, 12));
  c.spec.slope = 0.3f;
  c.largest = d.chance(0.5);
  c.count_pads = d.chance(0.5);
  c.residual = !c.is_pool && d.chance(0.3) && c.in.channels == outputs && c.in.height == c.out.height && c.in.width == c.out.width;
  const double densities[] = {0, 0.1, 0.5, 0.9, 1};
  const double density = densities[d.upto(0, 4)], part = densities[d.upto(0, 4)];
  const size_t taps = static_cast<size_t>(w.kernel[0]) * w.kernel[1];
  for (int k = 0; k < outputs * in_group; k++) c.kept.push_back(d.chance(density));
  for (uint8_t each : c.kept)
    if (each) c.used.push_back(d.chance(part));
  c.kernels = d.numbers(c.used.size() * taps);
  if (d.chance(0.6)) c.scale = d.numbers(outputs);
  if (d.chance(0.6)) c.bias = d.numbers(outputs);
  if (d.chance(0.3)) c.ones = d.numbers(outputs * taps);
  c.count = d.upto(1, 10);
  c.threads = d.upto(1, 3);
  c.images = d.numbers(c.count * c.in.channels * c.in.pixels());
  c.weight = d.numbers(3 * c.out.channels * c.out.pixels());
  c.head_bias = d.numbers(3);
  return true;
}

std::vector<double> expected(const Case& c) {
  const WindowSpec& w = c.spec.window;
  const int groups = c.spec.groups, in_group = c.in.channels / groups, out_group = c.out.channels / groups;
  const long taps = static_cast<long>(w.kernel[0]) * w.kernel[1];
  std::vector<long> kernel_of(c.kept.size(), -1);
  for (size_t k = 0, next = 0; k < c.kept.size(); k++)
    if (c.kept[k]) kernel_of[k] = static_cast<long>(next++);
  std::vector<double> logits(3 * c.count);
  for (long n = 0; n < c.count; n++) {
    std::vector<double> features;
    for (int o = 0; o < c.out.channels; o++)
      for (int r = 0; r < c.out.height; r++)
        for (int q = 0; q < c.out.width; q++) {
          double sum = 0, most = -INFINITY, counted = 0;
          for (int y = 0; y < w.kernel[0]; y++)
            for (int x = 0; x < w.kernel[1]; x++) {
              const int row = r * w.stride[0] - w.pads[0] + y * w.dilation[0];
              const int column = q * w.stride[1] - w.pads[1] + x * w.dilation[1];
              const bool padded = row < c.in.height + w.pads[2] && column < c.in.width + w.pads[3];
              const bool inside = row >= 0 && row < c.in.height && column >= 0 && column < c.in.width;
              if (inside || (padded && c.count_pads)) counted++;
              if (!inside) continue;
              const auto image = [&](int channel) {
                return c.images[(n * c.in.channels + channel) * c.in.pixels() + row * c.in.width + column];
              };
              if (c.is_pool) {
                sum += image(o);
                most = std::max<double>(most, image(o));
                continue;
              }
              const int group = o / out_group, tap = y * w.kernel[1] + x;
              for (int i = 0; i < in_group; i++) {
                const long within = taps > 1 ? static_cast<long>(i) * out_group + o % out_group
                                             : static_cast<long>(o % out_group) * in_group + i;
                const long kernel = kernel_of[static_cast<long>(group) * out_group * in_group + within];
                if (kernel >= 0 && c.used[kernel]) sum += static_cast<double>(c.kernels[kernel * taps + tap]) * image(group * in_group + i);
              }
              if (!c.ones.empty()) sum += c.ones[o * taps + tap];
            }
          if (c.is_pool) {
            features.push_back(c.largest ? most : counted ? sum / counted : 0);
            continue;
          }
          double value = sum * (c.scale.empty() ? 1 : c.scale[o]) + (c.bias.empty() ? 0 : c.bias[o]);
          if (c.residual) value += c.images[(n * c.in.channels + o) * c.in.pixels() + r * c.in.width + q];
          features.push_back(activate(value, c.spec.activation, c.spec.slope));
        }
    for (int k = 0; k < 3; k++) {
      double sum = c.head_bias[k];
      for (size_t f = 0; f < features.size(); f++) sum += features[f] * c.weight[k * features.size() + f];
      logits[n * 3 + k] = sum;
    }
  }
  return logits;
}

std::vector<float> computed(const Case& c, const std::string& kernels) {
  Program program({c.in, c.out}, 1, c.threads, choose_kernels(kernels));
  if (c.is_pool) {
    program.add(std::make_unique<PoolStep>(c.spec.window, program, 0, c.largest, c.count_pads), {0});
  } else {
    auto step = make_convolution(c.spec, program, 0, {c.kept.data(), c.kernels.data()});
    const auto or_null = [](const std::vector<float>& v) { return v.empty() ? nullptr : v.data(); };
    step->set_domain(0, c.used.data(), or_null(c.scale), or_null(c.bias), or_null(c.ones));
    program.add(std::move(step), c.residual ? std::vector<int>{0, 0} : std::vector<int>{0});
  }
  program.set_head(0, c.weight.data(), c.head_bias.data(), 3);
  program.finish();
  std::vector<float> logits(3 * c.count);
  if (!program.run(c.images.data(), c.count, 0, logits.data())) std::abort();
  return logits;
}

}  // namespace

int main(int argc, char** argv) {
  const int cases = argc > 1 ? std::atoi(argv[1]) : 300, first = argc > 2 ? std::atoi(argv[2]) : 0;
  int wrong = 0, done = 0;
  double worst = 0;
  for (int seed = first; done < cases; seed++) {
    Draw draw(static_cast<unsigned>(seed));
    Case c{};
    if (!draw_case(draw, c)) continue;
    done++;
    const std::vector<double> wanted = expected(c);
    double largest = 1e-3;
    for (double each : wanted) largest = std::max(largest, std::isfinite(each) ? std::fabs(each) : 0.0);
    for (const std::string& name : available_kernels()) {
      const std::vector<float> found = computed(c, name);
      double error = 0;
      for (size_t i = 0; i < wanted.size(); i++)
        if (std::isfinite(wanted[i])) error = std::max(error, std::fabs(found[i] - wanted[i]) / largest);
      worst = std::max(worst, error);
      if (!(error <= 2e-5)) {
        std::printf("seed %d, %s: off by %.2e of the largest\n", seed, name.c_str(), error);
        wrong++;
      }
    }
  }
  std::string names;
  for (const std::string& name : available_kernels()) names += " " + name;
  std::printf("%d cases,%s: %d wrong, at most %.2e of the largest away\n", done, names.c_str(), wrong, worst);
  return wrong ? 1 : 0;
}
