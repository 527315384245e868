// The reference for codes: what a network computes, with plain loops, wide sums and one rounding per operation.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "integer_network.hpp"

namespace prunus::test {

using Numbers = std::vector<float>;  // of one image, channel by channel; codes are whole numbers

// Storing each result keeps the compiler from fusing operations.
inline float times(float a, float b) {
  volatile float result = a * b;
  return result;
}
inline float plus(float a, float b) {
  volatile float result = a + b;
  return result;
}
inline float rounded(float x, int low, int high) {
  return std::nearbyint(std::min(std::max(x, static_cast<float>(low)), static_cast<float>(high)));
}

// Call visit(tap, pixel or -1, counts) for all taps of the window of an output pixel.
template <class Visit>
void visit_window(const WindowSpec& w, const Shape& in, ptrdiff_t row, ptrdiff_t column, Visit visit) {
  for (ptrdiff_t y = 0; y < w.kernel[0]; y++)
    for (ptrdiff_t x = 0; x < w.kernel[1]; x++) {
      const ptrdiff_t r = row * w.stride[0] - w.pads[0] + y * w.dilation[0];
      const ptrdiff_t c = column * w.stride[1] - w.pads[1] + x * w.dilation[1];
      const bool inside = r >= 0 && r < in.height && c >= 0 && c < in.width;
      visit(y * w.kernel[1] + x, inside ? r * in.width + c : -1, r < in.height + w.pads[2] && c < in.width + w.pads[3]);
    }
}

// Return the index of the kernel of an output and an input of its group, or -1 if the domain does not use it.
inline std::vector<ptrdiff_t> kernels_in_use(const CodedOperation& o, const CodedNumbers& d) {
  const ptrdiff_t inputs = o.in.channels / o.groups, outputs = o.out.channels / o.groups;
  const bool is_point = o.window.kernel[0] * o.window.kernel[1] == 1;
  std::vector<ptrdiff_t> result(o.kept.size(), -1);
  ptrdiff_t kernel = 0, stored = 0;
  for (ptrdiff_t group = 0; group < o.groups; group++)
    for (ptrdiff_t a = 0; a < (is_point ? outputs : inputs); a++)
      for (ptrdiff_t b = 0; b < (is_point ? inputs : outputs); b++) {
        if (!o.kept[stored++]) continue;
        const ptrdiff_t output = group * outputs + (is_point ? a : b), input = is_point ? b : a;
        if (d.used[kernel]) result[output * inputs + input] = kernel;
        kernel++;
      }
  return result;
}

inline Numbers coded_convolution(const CodedOperation& o, const CodedNumbers& d, const Numbers& input,
                                 const Numbers* residual, int zero) {
  const ptrdiff_t taps = o.window.kernel[0] * o.window.kernel[1], inputs = o.in.channels / o.groups;
  const std::vector<ptrdiff_t> kernels = kernels_in_use(o, d);
  Numbers result;
  for (ptrdiff_t c = 0; c < o.out.channels; c++)
    for (ptrdiff_t p = 0; p < o.out.pixels(); p++) {
      int64_t sum = 0;
      visit_window(o.window, o.in, p / o.out.width, p % o.out.width, [&](ptrdiff_t tap, ptrdiff_t pixel, bool) {
        for (ptrdiff_t i = 0; i < inputs; i++) {
          const ptrdiff_t kernel = kernels[c * inputs + i], channel = c / (o.out.channels / o.groups) * inputs + i;
          if (kernel < 0) continue;
          const int64_t code = pixel < 0 ? zero : static_cast<int64_t>(input[channel * o.in.pixels() + pixel]);
          sum += code * o.kernels[kernel * taps + tap];
        }
      });
      float value = plus(times(static_cast<float>(sum), d.multipliers[c]), d.offsets[c]);
      if (residual) value = plus(value, times((*residual)[result.size()], d.first));
      result.push_back(rounded(value, d.low, d.high));
    }
  return result;
}

inline Numbers coded_pool(const CodedOperation& o, const CodedNumbers& d, const Numbers& input, int zero) {
  Numbers result;
  for (ptrdiff_t c = 0; c < o.out.channels; c++)
    for (ptrdiff_t p = 0; p < o.out.pixels(); p++) {
      int64_t sum = 0, most = 0, counted = 0;
      visit_window(o.window, o.in, p / o.out.width, p % o.out.width, [&](ptrdiff_t, ptrdiff_t pixel, bool counts) {
        if (pixel >= 0 || (counts && o.count_pads)) counted++;
        if (pixel < 0) return;
        const int64_t code = static_cast<int64_t>(input[c * o.in.pixels() + pixel]);
        sum += code - zero;
        most = std::max(most, code);
      });
      const float factor = static_cast<float>(d.factor / static_cast<double>(counted));
      result.push_back(o.largest ? static_cast<float>(most)
                                 : rounded(plus(times(static_cast<float>(sum), factor), d.offset), 0, 255));
    }
  return result;
}

inline Numbers coded_mean(const CodedOperation& o, const CodedNumbers& d, const Numbers& input, int zero) {
  Numbers result;
  for (ptrdiff_t c = 0; c < o.in.channels; c++) {
    int64_t sum = 0;
    for (ptrdiff_t p = 0; p < o.in.pixels(); p++) sum += static_cast<int64_t>(input[c * o.in.pixels() + p]) - zero;
    result.push_back(rounded(plus(times(static_cast<float>(sum), d.first), d.offset), 0, 255));
  }
  return result;
}

inline Numbers coded_join(const CodedOperation& o, const CodedNumbers& d, const std::vector<const Numbers*>& inputs,
                          int zero) {
  Numbers result;
  for (size_t i = 0; i < inputs.size(); i++)
    for (float code : *inputs[i]) result.push_back(d.tables[i].empty() ? code : d.tables[i][static_cast<size_t>(code)]);
  result.resize(o.out.channels * o.out.pixels(), static_cast<float>(zero));
  return result;
}

inline Numbers coded_elementwise(const CodedOperation& o, const CodedNumbers& d, const Numbers& x, const Numbers* y,
                                 const std::array<int, 2>& zeros) {
  Numbers result;
  for (size_t k = 0; k < x.size(); k++) {
    const size_t channel = k / o.in.pixels();
    const float other = !y ? 0 : y->size() == x.size() ? (*y)[k] : (*y)[channel];
    float value = 0;
    if (o.kind == CodedKind::affine) {
      value = plus(times(x[k], d.multipliers[channel]), d.offsets[channel]);
    } else if (o.kind == CodedKind::sum) {
      value = plus(plus(times(x[k], d.first), times(other, d.second)), d.offset);
    } else {
      const int product = (static_cast<int>(x[k]) - zeros[0]) * (static_cast<int>(other) - zeros[1]);
      value = plus(times(static_cast<float>(product), d.first), d.offset);
    }
    result.push_back(rounded(value, d.low, d.high));
  }
  return result;
}

// 255 * 2^x for x of at most 0, by the series of the model file's format.
inline int power_code(float x) {
  const float limited = std::max(x, -16.0f), whole = std::nearbyint(limited), rest = plus(limited, -whole);
  double term = 1;  // ln(2)^k / k!
  std::vector<float> terms;
  for (int k = 0; k < 5; k++) {
    terms.push_back(static_cast<float>(term));
    term *= std::log(2.0) / (k + 1);
  }
  float power = terms[4];
  for (int k = 3; k >= 0; k--) power = plus(times(power, rest), terms[k]);
  return static_cast<int>(std::nearbyint(times(power, std::ldexp(255.0f, static_cast<int>(whole)))));
}

// `zeros` are those of q, v and the result.
inline Numbers coded_attention(const CodedOperation& o, const CodedNumbers& d,
                               const std::vector<const Numbers*>& inputs, const std::array<ptrdiff_t, 3>& pixels,
                               const std::array<int, 3>& zeros) {
  const AttentionLayout& layout = o.attention;
  const AttentionSpec& spec = layout.spec;
  Numbers result(o.out.channels * o.out.pixels());
  for (ptrdiff_t window = 0; window < layout.num_windows(); window++)
    for (ptrdiff_t head = 0; head < spec.heads; head++) {
      const auto pixel = [&](ptrdiff_t index) {
        return layout.windows.empty() ? index : ptrdiff_t{layout.windows[window * layout.queries + index]};
      };
      const auto code = [&](int part, ptrdiff_t channel, ptrdiff_t index) {
        const ptrdiff_t first = spec.first[part] + head * spec.step[part];
        return static_cast<int64_t>((*inputs[part])[(first + channel) * pixels[part] + pixel(index)]);
      };
      for (ptrdiff_t query = 0; query < layout.queries; query++) {
        std::vector<float> scores;
        for (ptrdiff_t key = 0; key < layout.keys; key++) {
          int64_t sum = 0;
          for (ptrdiff_t c = 0; c < spec.dim; c++) sum += (code(0, c, query) - zeros[0]) * (code(1, c, key) - 128);
          float score = times(static_cast<float>(sum), d.first);
          if (!d.bias.empty()) score = plus(score, d.bias[(head * layout.queries + query) * layout.keys + key]);
          const uint8_t* regions = layout.regions.data() + window * layout.queries;
          if (!layout.regions.empty() && regions[query] != regions[key]) score = plus(score, spec.apart);
          scores.push_back(score);
        }
        const float most = *std::max_element(scores.begin(), scores.end());
        std::vector<int64_t> weights;
        int64_t total = 0;
        for (float score : scores) {
          weights.push_back(power_code(plus(score, -most)));
          total += weights.back();
        }
        volatile float factor = d.second / static_cast<float>(total);
        for (ptrdiff_t c = 0; c < spec.width; c++) {
          int64_t sum = 0;
          for (ptrdiff_t key = 0; key < layout.keys; key++) sum += weights[key] * (code(2, c, key) - zeros[1]);
          const float mean = plus(times(static_cast<float>(sum), factor), static_cast<float>(zeros[2]));
          result[(head * spec.width + c) * o.out.pixels() + pixel(query)] = rounded(mean, 0, 255);
        }
      }
    }
  return result;
}

// `zeros` are the code of zero of the first and second input and of the result; -1 for floats.
inline Numbers coded_result(const CodedOperation& o, const CodedNumbers& d, const std::vector<const Numbers*>& inputs,
                            const std::array<int, 3>& zeros) {
  const Numbers *first = inputs[0], *second = inputs.size() > 1 ? inputs[1] : nullptr;
  Numbers result;
  switch (o.kind) {
    case CodedKind::quantize:
      for (float x : *first) result.push_back(rounded(plus(times(x, d.first), static_cast<float>(zeros[2])), 0, 255));
      return result;
    case CodedKind::dequantize:
      for (float x : *first) result.push_back(times(plus(x, -static_cast<float>(zeros[0])), d.first));
      return result;
    case CodedKind::table:
      for (float x : *first) result.push_back(d.tables[0][static_cast<size_t>(x)]);
      return result;
    case CodedKind::convolution: return coded_convolution(o, d, *first, second, zeros[0]);
    case CodedKind::pool: return coded_pool(o, d, *first, zeros[0]);
    case CodedKind::mean: return coded_mean(o, d, *first, zeros[0]);
    case CodedKind::join: return coded_join(o, d, inputs, zeros[2]);
    default: return coded_elementwise(o, d, *first, second, {zeros[0], zeros[1]});
  }
}

// Return the logits of all images. The last value is coded.
inline Numbers expected_logits(const CodedNetwork& net, int domain) {
  const CodedHead& head = net.heads[domain];
  const ptrdiff_t size = net.shapes[0].channels * net.shapes[0].pixels();
  const auto zero = [&](int value) { return net.zeros[value].empty() ? -1 : net.zeros[value][domain]; };
  Numbers logits;
  for (ptrdiff_t n = 0; n < net.count; n++) {
    std::vector<Numbers> values{Numbers(net.images.begin() + n * size, net.images.begin() + (n + 1) * size)};
    for (const CodedOperation& o : net.operations) {
      std::vector<const Numbers*> inputs;
      for (int input : o.inputs) inputs.push_back(&values[input]);
      if (o.kind == CodedKind::attention) {
        std::array<ptrdiff_t, 3> pixels;
        for (int part = 0; part < 3; part++) pixels[part] = net.shapes[o.inputs[part]].pixels();
        const std::array<int, 3> zeros{zero(o.inputs[0]), zero(o.inputs[2]), zero(static_cast<int>(values.size()))};
        values.push_back(coded_attention(o, o.domains[domain], inputs, pixels, zeros));
        continue;
      }
      const int second = o.inputs.size() > 1 ? zero(o.inputs[1]) : -1;
      values.push_back(coded_result(o, o.domains[domain], inputs,
                                    {zero(o.inputs[0]), second, zero(static_cast<int>(values.size()))}));
    }
    const Numbers& features = values.back();
    for (int c = 0; c < head.classes; c++) {
      int64_t sum = 0;
      for (size_t f = 0; f < features.size(); f++)
        sum += static_cast<int64_t>(features[f]) * head.weight[c * features.size() + f];
      logits.push_back(plus(times(static_cast<float>(sum), head.multipliers[c]), head.offsets[c]));
    }
  }
  return logits;
}

}  // namespace prunus::test
