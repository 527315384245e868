// Random networks over codes: a convolution or pool with any window, then some other operations, for two domains.
// Extremes are drawn on purpose: codes of zero at both ends, weights of 127 everywhere, images that saturate.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "integer_network.hpp"
#include "random_networks.hpp"

namespace prunus::test {

struct DrawCodes : Draw {
  using Draw::Draw;

  int zero() {
    const int zeros[] = {0, 255, upto(1, 254)};
    return of(zeros);
  }
  float number(float most) { return std::uniform_real_distribution<float>(-most, most)(engine); }
  std::vector<float> numbers_within(size_t count, float least, float most) {
    std::vector<float> drawn(count);
    for (float& x : drawn) x = std::uniform_real_distribution<float>(least, most)(engine);
    return drawn;
  }
  std::vector<int8_t> weights(size_t count) {
    const bool extreme = chance(0.2), same = chance(0.5);
    const int first = chance(0.5) ? 127 : -127;
    std::vector<int8_t> drawn(count);
    for (int8_t& w : drawn) w = static_cast<int8_t>(extreme ? (same || chance(0.5) ? first : -first) : upto(-127, 127));
    return drawn;
  }
  std::vector<uint8_t> table() {
    std::vector<uint8_t> drawn(256);
    for (uint8_t& entry : drawn) entry = static_cast<uint8_t>(upto(0, 255));
    return drawn;
  }
  // Bits of neighbours that agree, as masks of blocks of inputs have them, with gaps where inputs were removed.
  std::vector<uint8_t> bits_in_runs(size_t row, size_t rows) {
    std::vector<size_t> run_of(row);
    for (size_t i = 0, run = 0, left = 0; i < row; i++) {
      if (!left) {
        run++;
        left = upto(1, 4);
      }
      run_of[i] = run;
      left--;
    }
    std::vector<uint8_t> drawn;
    for (size_t r = 0; r < rows; r++)
      for (size_t i = 0; i < row; i++)
        drawn.push_back(i && run_of[i] == run_of[i - 1] ? drawn.back() : static_cast<uint8_t>(chance(0.5)));
    return drawn;
  }
};

inline int append(DrawCodes& d, CodedNetwork& net, CodedOperation o, bool same_zeros = false) {
  net.shapes.push_back(o.out);
  std::vector<int> zeros;
  for (int domain = 0; domain < kDomains; domain++) zeros.push_back(d.zero());
  if (same_zeros) zeros = net.zeros[o.inputs[0]];
  if (o.kind == CodedKind::dequantize) zeros.clear();
  net.zeros.push_back(zeros);
  net.operations.push_back(std::move(o));
  return static_cast<int>(net.operations.size());
}

inline CodedOperation coded_from(const CodedNetwork& net, CodedKind kind, std::vector<int> inputs) {
  const Shape& shape = net.shapes[inputs[0]];
  CodedOperation o{kind, std::move(inputs), shape, shape};
  o.domains.resize(kDomains);
  return o;
}

inline void draw_limits(DrawCodes& d, CodedNumbers& numbers) {
  if (d.chance(0.5)) numbers.low = d.upto(0, 255);
  if (d.chance(0.2)) numbers.high = d.upto(numbers.low, 255);
}

inline int draw_coded_convolution(DrawCodes& d, CodedNetwork& net, CodedOperation o, int residual) {
  const size_t taps = o.window.kernel[0] * o.window.kernel[1], outputs = o.out.channels;
  const size_t inputs = o.in.channels / o.groups;
  if (residual >= 0) o.inputs.push_back(residual);
  const bool in_runs = taps == 1 && d.chance(0.5);
  o.kept = in_runs ? d.bits_in_runs(inputs, outputs) : d.bits(outputs * inputs);
  const size_t count = std::count(o.kept.begin(), o.kept.end(), 1);
  o.kernels = d.weights(count * taps);
  const float usual = 1 / (60 * std::sqrt(static_cast<float>(inputs * taps)));
  const float spread = d.chance(0.05) ? 1e9f : usual;  // then results are far too large for 32 bits
  o.domains.resize(kDomains);
  for (CodedNumbers& numbers : o.domains) {
    numbers.used = in_runs ? o.kept : d.bits(count);
    if (in_runs) numbers.used = std::vector<uint8_t>(count, 1);
    numbers.multipliers = d.numbers_within(outputs, -spread, spread);
    numbers.offsets = d.numbers_within(outputs, -50, 300);
    numbers.first = d.number(2);
    draw_limits(d, numbers);
  }
  return append(d, net, o);
}

inline int draw_coded_affine(DrawCodes& d, CodedNetwork& net, int input) {
  CodedOperation o = coded_from(net, CodedKind::affine, {input});
  for (CodedNumbers& numbers : o.domains) {
    numbers.multipliers = d.numbers_within(o.in.channels, -2, 2);
    numbers.offsets = d.numbers_within(o.in.channels, -100, 300);
    draw_limits(d, numbers);
  }
  return append(d, net, o);
}

// Return a value for a convolution to add, or -1.
inline int draw_coded_residual(DrawCodes& d, CodedNetwork& net, const CodedOperation& like) {
  if (!d.chance(0.4)) return -1;
  const bool same =
      like.in.channels == like.out.channels && like.in.height == like.out.height && like.in.width == like.out.width;
  if (!same) return draw_coded_convolution(d, net, like, -1);
  return d.chance(0.5) ? like.inputs[0] : draw_coded_affine(d, net, like.inputs[0]);
}

inline void draw_coded_join(DrawCodes& d, CodedNetwork& net, CodedOperation o) {
  const bool copies = d.chance(0.4);
  o.out.channels = d.upto(0, 3);
  for (int value : o.inputs) o.out.channels += net.shapes[value].channels;
  for (CodedNumbers& numbers : o.domains)
    for (size_t i = 0; i < o.inputs.size(); i++)
      numbers.tables.push_back(copies || d.chance(0.5) ? std::vector<uint8_t>() : d.table());
  append(d, net, o);
}

// Attention over the pixels of a value, all of them or those of windows, with queries of the same or of another value.
inline void draw_coded_attention(DrawCodes& d, CodedNetwork& net, int value) {
  const Shape& shape = net.shapes[value];
  const int pixels = static_cast<int>(shape.pixels());
  CodedOperation o = coded_from(net, CodedKind::attention, {value, value, value});
  AttentionLayout& layout = o.attention;
  AttentionSpec& spec = layout.spec;
  const int query = d.upto(1, static_cast<int>(net.shapes.size()) - 1);
  const bool has_other = d.chance(0.3) && !net.zeros[query].empty() && net.shapes[query].pixels() <= 400;
  if (has_other) o.inputs[0] = query;
  const Shape& asking = net.shapes[o.inputs[0]];
  const int least = std::min(shape.channels, asking.channels);
  spec.dim = d.upto(1, least);
  spec.width = d.upto(1, shape.channels);
  spec.heads = d.upto(1, std::max(1, std::min({least / spec.dim, shape.channels / spec.width, 3})));
  for (int part = 0; part < 3; part++) {
    const int channels = part == 0 ? asking.channels : shape.channels, size = part == 2 ? spec.width : spec.dim;
    spec.first[part] = d.upto(0, channels - spec.heads * size);
    spec.step[part] = spec.heads > 1 ? d.upto(0, (channels - size - spec.first[part]) / (spec.heads - 1)) : 0;
  }
  layout.queries = static_cast<int>(asking.pixels());
  layout.keys = pixels;
  int windows = d.upto(1, 6);
  while (pixels % windows) windows--;
  if (!has_other && d.chance(0.5)) {
    layout.queries = layout.keys = pixels / windows;
    for (int p = 0; p < pixels; p++) layout.windows.push_back(p);
    std::shuffle(layout.windows.begin(), layout.windows.end(), d.engine);
    spec.apart = d.chance(0.5) ? d.number(20) : 0;
    for (int p = 0; p < pixels && spec.apart != 0; p++)
      layout.regions.push_back(static_cast<uint8_t>(d.chance(0.8) ? 0 : d.upto(1, 3)));
  }
  o.out = {spec.heads * spec.width, asking.height, asking.width};
  const bool has_bias = d.chance(0.4);
  for (CodedNumbers& numbers : o.domains) {
    numbers.first = d.number(d.chance(0.1) ? 1e6f : 20 / (16000 * std::sqrt(static_cast<float>(spec.dim))));
    numbers.second = d.number(3);
    if (has_bias) numbers.bias = d.numbers_within(spec.heads * layout.queries * layout.keys, -8, 8);
  }
  append(d, net, o);
}

inline void draw_other_codes(DrawCodes& d, CodedNetwork& net) {
  const int last = static_cast<int>(net.shapes.size()) - 1;
  const Shape shape = net.shapes[last];
  const auto earlier = [&](bool any_channels) {
    const int value = d.upto(1, last);
    const Shape& s = net.shapes[value];
    const bool fits = s.height == shape.height && s.width == shape.width && !net.zeros[value].empty();
    return fits && (any_channels || s.channels == shape.channels) ? value : last;
  };
  const CodedKind kinds[] = {CodedKind::affine,      CodedKind::table,     CodedKind::sum,      CodedKind::product,
                             CodedKind::product,     CodedKind::join,      CodedKind::mean,     CodedKind::dequantize,
                             CodedKind::convolution, CodedKind::attention, CodedKind::attention};
  const CodedKind kind = d.of(kinds);
  if (kind == CodedKind::attention && shape.pixels() <= 400) return draw_coded_attention(d, net, last);
  if (kind == CodedKind::attention) return;
  CodedOperation o = coded_from(net, kind, {last});
  if (kind == CodedKind::affine) {
    draw_coded_affine(d, net, last);
    return;
  }
  if (kind == CodedKind::convolution) {  // in place, so that it reads the padding of what was made before
    o.window = {{3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}};
    o.out.channels = d.upto(1, 5);
    draw_coded_convolution(d, net, o, -1);
    return;
  }
  if (kind == CodedKind::mean) o.out = {shape.channels, 1, 1};
  if (kind == CodedKind::sum) o.inputs.push_back(earlier(false));
  if (kind == CodedKind::product) {
    CodedOperation mean = coded_from(net, CodedKind::mean, {last});
    mean.out = {shape.channels, 1, 1};
    for (CodedNumbers& numbers : mean.domains) {
      numbers.first = d.number(3) / static_cast<float>(shape.pixels());
      numbers.offset = d.number(200);
    }
    o.inputs.push_back(d.chance(0.5) ? append(d, net, mean) : earlier(false));
  }
  if (kind == CodedKind::join) {
    for (int more = d.upto(0, 2); more > 0; more--) o.inputs.push_back(earlier(true));
    return draw_coded_join(d, net, o);
  }
  for (CodedNumbers& numbers : o.domains) {
    numbers.first = kind == CodedKind::mean      ? d.number(3) / static_cast<float>(shape.pixels())
                    : kind == CodedKind::product ? d.number(0.01f)
                                                 : d.number(2);
    numbers.second = d.number(2);
    numbers.offset = d.number(200);
    if (kind == CodedKind::sum || kind == CodedKind::product) draw_limits(d, numbers);
    if (kind == CodedKind::table) numbers.tables.push_back(d.table());
  }
  const int value = append(d, net, o);
  if (kind != CodedKind::dequantize) return;
  CodedOperation back = coded_from(net, CodedKind::quantize, {value});
  for (CodedNumbers& numbers : back.domains) numbers.first = d.number(2);
  append(d, net, back);
}

// A convolution, mostly by channel, whose windows go down by two, as the first layer too: each thread copies rows.
inline int draw_strided(DrawCodes& d, CodedNetwork& net, int input) {
  CodedOperation o = coded_from(net, CodedKind::convolution, {input});
  const int side = d.upto(1, 5), pad = d.upto(0, side / 2);
  o.window = {{side, side}, {2, d.upto(1, 2)}, {pad, pad, pad, pad}, {1, 1}};
  o.groups = d.chance(0.7) ? o.in.channels : 1;
  o.out.channels = o.groups > 1 ? o.groups * (d.chance(0.3) ? 2 : 1) : d.upto(1, 12);
  for (int axis = 0; axis < 2; axis++)
    (axis ? o.out.width : o.out.height) = num_windows(o.window, axis, axis ? o.in.width : o.in.height, false);
  return o.out.height && o.out.width ? draw_coded_convolution(d, net, o, -1) : input;
}

// A 1x1 convolution, or one by channel with a window that keeps the size.
inline int draw_link(DrawCodes& d, CodedNetwork& net, int input, bool by_channel, int residual = -1) {
  CodedOperation o = coded_from(net, CodedKind::convolution, {input});
  if (by_channel) {
    const int reach = d.upto(0, 3), across = d.upto(0, 3);
    o.window = {{2 * reach + 1, 2 * across + 1}, {1, 1}, {reach, across, reach, across}, {1, 1}};
    o.groups = o.in.channels;
  } else {
    o.window = {{1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}};
    o.out.channels = residual >= 0 ? net.shapes[residual].channels : d.upto(1, 40);
  }
  return draw_coded_convolution(d, net, o, residual);
}

// Steps that threads run in bands: 1x1 layers around layers by channel, with residuals, and sums between them.
inline void draw_chain(DrawCodes& d, CodedNetwork& net) {
  int value = static_cast<int>(net.shapes.size()) - 1;
  if (d.chance(0.4)) value = draw_strided(d, net, value);
  for (int blocks = d.upto(1, 3); blocks > 0; blocks--) {
    const int begin = value;
    if (d.chance(0.8)) value = draw_link(d, net, value, false);
    if (d.chance(0.2)) value = draw_coded_affine(d, net, value);
    const bool keeps_size = d.chance(0.8);
    value = keeps_size ? draw_link(d, net, value, true) : draw_strided(d, net, value);
    if (d.chance(0.2)) value = draw_coded_affine(d, net, value);
    if (d.chance(0.8)) value = draw_link(d, net, value, false, keeps_size && d.chance(0.5) ? begin : -1);
  }
}

// Draw the classifiers of the last value and some images.
inline void draw_heads_and_images(DrawCodes& d, CodedNetwork& net, bool one_image) {
  const size_t features = net.shapes.back().channels * net.shapes.back().pixels();
  for (int domain = 0; domain < kDomains; domain++) {
    const int classes = 3 + domain;
    net.heads.push_back({classes, d.weights(classes * features), d.numbers_within(classes, -0.01f, 0.01f),
                         d.numbers_within(classes, -5, 5)});
  }
  net.count = one_image ? 1 : d.upto(1, d.chance(0.1) ? 10 : 3);
  net.images = d.numbers(net.count * net.shapes[0].channels * net.shapes[0].pixels());
}

// Attention over codes of 0 and 255 only. Minus 128, they are the ends of 8 bits, and so are most weights of keys: both
// factors of a product may be -128, which no weight of a convolution is.
inline CodedNetwork draw_extreme_attention(DrawCodes& d) {
  CodedNetwork net{};
  net.shapes = {{d.upto(1, 40), d.upto(1, 7), d.upto(1, 7)}};
  net.zeros = {{}};
  CodedOperation quantize = coded_from(net, CodedKind::quantize, {0});
  for (CodedNumbers& numbers : quantize.domains) numbers.first = d.number(80);
  CodedOperation ends = coded_from(net, CodedKind::table, {append(d, net, quantize)});
  const double shares[] = {0.1, 0.5, 0.9};
  for (CodedNumbers& numbers : ends.domains) {
    const double share = d.of(shares);
    numbers.tables.emplace_back();
    for (int code = 0; code < 256; code++) numbers.tables[0].push_back(d.chance(share) ? 255 : 0);
  }
  draw_coded_attention(d, net, append(d, net, ends));
  draw_heads_and_images(d, net, false);
  return net;
}

// Draw a network; return false if its windows do not fit its images.
inline bool draw_coded_network(DrawCodes& d, CodedNetwork& net) {
  const bool pool = d.chance(0.15), far = d.chance(0.05), ceil = pool && d.chance(0.3);
  const bool wide = !pool && !far && d.chance(0.1);
  const int groups = pool ? 1 : d.upto(1, far ? 2 : 4);
  const auto channels = [&] { return far ? d.upto(1, 2) : d.chance(0.3) ? 1 : d.upto(1, d.chance(0.1) ? 300 : 12); };
  CodedOperation o{pool ? CodedKind::pool : CodedKind::convolution, {1}, {}, {}};
  o.groups = groups;
  o.window = draw_window(d, pool, far, wide);
  o.in = {groups * (wide ? d.upto(250, 800) : channels()),
          d.upto(1, far    ? 3
                    : wide ? 6
                           : 20),
          d.upto(1, wide            ? 6
                    : d.chance(0.1) ? 50
                                    : 20)};
  o.out = {pool ? o.in.channels : groups * channels(), num_windows(o.window, 0, o.in.height, ceil),
           num_windows(o.window, 1, o.in.width, ceil)};
  if (!o.out.height || !o.out.width) return false;
  const bool chained = d.chance(0.3);
  if (chained) {                        // planes that are large enough for bands, but for some
    const bool large = d.chance(0.15);  // also after a stride
    const int least = large ? 60 : d.chance(0.8) ? 8 : 2, most = large ? 90 : 30;
    o.in = {d.upto(1, 6), d.upto(least, d.chance(0.1) ? 110 : most), d.upto(least, d.chance(0.1) ? 110 : most)};
    o.groups = 1;
  }
  net.shapes = {o.in};
  net.zeros = {{}};
  CodedOperation quantize = coded_from(net, CodedKind::quantize, {0});
  const bool saturated = d.chance(0.1);
  for (CodedNumbers& numbers : quantize.domains) numbers.first = saturated ? 1e6f : d.number(80);
  append(d, net, quantize);
  o.domains.resize(kDomains);
  if (chained) {
    draw_chain(d, net);
  } else if (pool) {
    o.largest = d.chance(0.5);
    o.count_pads = d.chance(0.5);
    for (CodedNumbers& numbers : o.domains) {
      numbers.factor = d.number(2);
      numbers.offset = d.number(200);
    }
    append(d, net, o, o.largest);
  } else {
    draw_coded_convolution(d, net, o, draw_coded_residual(d, net, o));
  }
  for (int more = d.chance(0.6) ? d.upto(1, 4) : 0; more > 0; more--) draw_other_codes(d, net);
  draw_heads_and_images(d, net, far);
  return net.shapes.back().channels * net.shapes.back().pixels() < 60000;
}

}  // namespace prunus::test
