// Random networks: a convolution or pool with any window, then some other operations, for two domains.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "../activation_names.hpp"
#include "network.hpp"

namespace prunus::test {

constexpr int kDomains = 2;

struct Draw {
  std::mt19937 engine;
  explicit Draw(unsigned seed) : engine(seed) {}
  int upto(int least, int most) { return std::uniform_int_distribution<int>(least, most)(engine); }
  bool chance(double p) { return std::uniform_real_distribution<double>(0, 1)(engine) < p; }
  template <class T, size_t n>
  T of(const T (&all)[n]) {
    return all[upto(0, static_cast<int>(n) - 1)];
  }
  Activation activation() {
    const std::vector<std::string> names = activation_names();
    return activation_named(names[upto(0, static_cast<int>(names.size()) - 1)]);
  }
  std::vector<float> numbers(size_t count) {
    std::vector<float> drawn(count);
    for (float& number : drawn) number = std::normal_distribution<float>(0, 1)(engine);
    return drawn;
  }
  // Multiples of 1/16, which every precision represents exactly, and a few that are subnormal in float16.
  Stored stored(size_t count, Precision precision) {
    Stored result{precision, numbers(count), {}};
    if (precision == Precision::float32) return result;
    for (float& number : result.wide) {
      const bool is_bfloat16 = precision == Precision::bfloat16, tiny = !is_bfloat16 && chance(0.02);
      number = std::max(-15.0f, std::min(15.0f, std::round(number * 16))) / (tiny ? 0x1p24f : 16.0f);
      uint32_t bits;
      std::memcpy(&bits, &number, sizeof bits);
      const uint32_t sign = bits >> 16 & 0x8000u, whole = static_cast<uint32_t>(std::fabs(number) * 0x1p24f);
      const bool normal = std::fabs(number) >= 0x1p-14f;  // in float16
      result.narrow.push_back(static_cast<uint16_t>(
          is_bfloat16 ? bits >> 16 : sign | (normal ? (bits >> 13 & 0x3ffffu) - (112u << 10) : whole)));
    }
    return result;
  }
  Precision precision() {
    const Precision all[] = {Precision::float32, Precision::float32, Precision::float16, Precision::bfloat16};
    return of(all);
  }
  std::vector<float> maybe(double p, size_t count) { return chance(p) ? numbers(count) : std::vector<float>(); }
  std::vector<uint8_t> bits(size_t count) {
    const double densities[] = {0, 0.1, 0.5, 0.9, 1}, density = of(densities);
    std::vector<uint8_t> drawn(count);
    for (uint8_t& bit : drawn) bit = chance(density);
    return drawn;
  }
  std::vector<uint8_t> fours(size_t count) {
    std::vector<uint8_t> drawn;
    for (uint8_t bit : bits(count / 4)) drawn.insert(drawn.end(), 4, bit);
    return drawn;
  }
  // Switches of kept weights that are on or off for all of a four; where a four is not kept whole, they are off.
  std::vector<uint8_t> whole_fours(const std::vector<uint8_t>& kept) {
    const std::vector<uint8_t> drawn = bits(kept.size() / 4);
    std::vector<uint8_t> used;
    for (size_t k = 0; k < kept.size(); k++) {
      const auto first = kept.begin() + static_cast<ptrdiff_t>(k / 4 * 4);
      if (kept[k]) used.push_back(drawn[k / 4] && std::count(first, first + 4, 1) == 4);
    }
    return used;
  }
};

inline int append(Network& net, Operation o) {
  o.domains.resize(kDomains);
  net.shapes.push_back(o.out);
  net.operations.push_back(std::move(o));
  return static_cast<int>(net.operations.size());
}

inline Operation from(const Network& net, Kind kind, std::vector<int> inputs) {
  const Shape& shape = net.shapes[inputs[0]];
  return {kind, std::move(inputs), shape, shape};
}

inline WindowSpec draw_window(Draw& d, bool pool, bool far, bool wide) {
  const int sides[] = {1, 1, 2, 3, 3, 3, 5, 7}, small[] = {1, 3};
  WindowSpec w{};
  for (int axis = 0; axis < 2; axis++) {
    const int side = w.kernel[axis] = wide ? 1 : far ? d.of(small) : d.of(sides), most = pool ? side - 1 : side;
    w.stride[axis] = far && d.chance(0.8) ? d.upto(50000, 70000) : d.upto(1, 3);
    w.dilation[axis] = !pool && d.chance(0.2) ? 2 : 1;
    w.pads[axis] = d.chance(0.5) ? side / 2 : d.upto(0, most);
    w.pads[axis + 2] = d.chance(0.5) ? w.pads[axis] : d.upto(0, most);
  }
  return w;
}

// The number of windows along an axis; 0 if none fits. With `ceil` the last may end after the padding.
inline int num_windows(const WindowSpec& w, int axis, int side, bool ceil) {
  const int room = side + w.pads[axis] + w.pads[axis + 2] - ((w.kernel[axis] - 1) * w.dilation[axis] + 1);
  if (room < 0) return 0;
  const int stride = w.stride[axis], last = ceil ? (room + stride - 1) / stride : room / stride;
  return last * stride >= side + w.pads[axis] ? last : last + 1;
}

inline int draw_convolution(Draw& d, Network& net, const Operation& like, int residual) {
  Operation o = like;
  const size_t taps = taps_of(o.window), outputs = o.out.channels;
  if (residual >= 0) o.inputs.push_back(residual);
  o.activation = d.activation();
  const bool fours = taps == 1 && o.groups == 1 && o.in.channels % 4 == 0 && d.chance(0.7);
  const size_t switches = outputs * o.in.channels / o.groups;
  o.kept = fours ? d.fours(switches) : d.bits(switches);
  if (fours && d.chance(0.3))  // another domain may use single weights
    for (uint8_t& bit : o.kept) bit |= d.chance(0.1);
  const size_t count = std::count(o.kept.begin(), o.kept.end(), 1);
  o.kernels = d.stored(count * taps, d.precision());
  for (int domain = 0; domain < kDomains; domain++)
    o.domains.push_back({d.maybe(0.6, outputs), d.maybe(0.6, outputs), d.maybe(0.3, outputs * taps),
                         fours && d.chance(0.8) ? d.whole_fours(o.kept) : d.bits(count)});
  return append(net, o);
}

inline int draw_affine(Draw& d, Network& net, int input, Activation activation) {
  Operation o = from(net, Kind::affine, {input});
  o.activation = activation;
  for (int domain = 0; domain < kDomains; domain++)
    o.domains.push_back({d.maybe(0.7, o.in.channels), d.maybe(0.7, o.in.channels), {}, {}});
  return append(net, o);
}

// Return a value for a convolution to add: its input, a value of the same shape, or the result of a similar
// convolution. Return -1 for none.
inline int draw_residual(Draw& d, Network& net, const Operation& like) {
  if (!d.chance(0.4)) return -1;
  const bool same =
      like.in.channels == like.out.channels && like.in.pixels() == like.out.pixels() && like.in.width == like.out.width;
  if (!same) return draw_convolution(d, net, like, -1);
  return d.chance(0.5) ? 0 : draw_affine(d, net, 0, d.activation());
}

// Return a random earlier value if it is allowed, otherwise the last.
template <class Test>
int earlier(Draw& d, const Network& net, Test allowed) {
  const int last = static_cast<int>(net.shapes.size()) - 1, value = d.upto(0, last);
  return allowed(net.shapes[value]) ? value : last;
}

inline void draw_other(Draw& d, Network& net) {
  const int last = static_cast<int>(net.shapes.size()) - 1;
  const Shape shape = net.shapes[last];
  const auto same_size = [&](const Shape& s) { return s.height == shape.height && s.width == shape.width; };
  const auto same = [&](const Shape& s) { return same_size(s) && s.channels == shape.channels; };
  const Kind kinds[] = {Kind::affine, Kind::add, Kind::mul, Kind::mul, Kind::join, Kind::mean, Kind::layer_norm};
  const Kind kind = d.of(kinds);
  if (kind == Kind::affine) {
    draw_affine(d, net, last, d.activation());
    return;
  }
  Operation o = from(net, kind, {last});
  o.activation = d.activation();
  if (kind == Kind::mean) o.out = {shape.channels, 1, 1};
  if (kind == Kind::add) o.inputs.push_back(earlier(d, net, same));
  if (kind == Kind::mul) {
    Operation mean =
        from(net, Kind::mean, {earlier(d, net, [&](const Shape& s) { return s.channels == shape.channels; })});
    mean.out = {shape.channels, 1, 1};
    o.inputs.push_back(d.chance(0.5) ? append(net, mean) : earlier(d, net, same));
  }
  if (kind == Kind::join) {
    if (d.chance(0.5)) o.inputs.push_back(earlier(d, net, same_size));
    o.out.channels = d.chance(0.5) ? d.upto(0, 5) : 0;
    for (int value : o.inputs) o.out.channels += net.shapes[value].channels;
  }
  if (kind == Kind::layer_norm) {  // small inputs and a large epsilon, or it would magnify earlier rounding errors
    o.inputs = {draw_affine(d, net, last, Activation::tanh)};
    o.eps = 0.1f;
    for (int domain = 0; domain < kDomains; domain++)
      o.domains.push_back({d.maybe(0.7, shape.channels), d.maybe(0.7, shape.channels), {}, {}});
  }
  append(net, o);
}

inline void draw_rest(Draw& d, Network& net, bool far) {
  for (int more = d.chance(0.5) ? d.upto(1, 4) : 0; more > 0; more--) draw_other(d, net);
  const Shape& last = net.shapes.back();
  for (int domain = 0; domain < kDomains; domain++) {
    const int classes = 3 + domain;
    const Precision precision = d.precision();
    net.heads.push_back(
        {classes, d.stored(classes * last.channels * last.pixels(), precision), d.stored(classes, precision)});
  }
  net.count = far ? 1 : d.upto(1, d.chance(0.2) ? 10 : 4);
  net.threads = d.upto(1, 3);
  net.at_once = d.chance(0.3);
  net.images = d.numbers(net.count * net.shapes[0].channels * net.shapes[0].pixels());
}

// Draw a network; return false if its windows do not fit its images.
inline bool draw_network(Draw& d, Network& net) {
  const bool pool = d.chance(0.2), far = d.chance(0.06),
             ceil = pool && d.chance(0.3);            // far: strides larger than any image
  const bool wide = !pool && !far && d.chance(0.06);  // more inputs than one byte can index
  const int groups = pool ? 1 : d.upto(1, far ? 2 : 4);
  const auto channels = [&] { return far ? d.upto(1, 2) : d.chance(0.3) ? 1 : d.upto(1, d.chance(0.1) ? 130 : 12); };
  Operation o{pool ? Kind::pool : Kind::convolution, {0}, {}, {}};
  o.groups = groups;
  o.window = draw_window(d, pool, far, wide);
  o.in = {groups * (wide ? d.upto(250, 800) : channels()),
          d.upto(1, far    ? 3
                    : wide ? 6
                           : 20),
          d.upto(1, wide ? 6 : 20)};
  o.out = {pool ? o.in.channels : groups * channels(), num_windows(o.window, 0, o.in.height, ceil),
           num_windows(o.window, 1, o.in.width, ceil)};
  if (!o.out.height || !o.out.width) return false;
  net.shapes = {o.in};
  if (pool) {
    o.largest = d.chance(0.5);
    o.count_pads = d.chance(0.5);
    append(net, o);
  } else {
    draw_convolution(d, net, o, draw_residual(d, net, o));
  }
  draw_rest(d, net, far);
  return true;
}

}  // namespace prunus::test
