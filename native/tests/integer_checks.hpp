// Runs random networks over codes with every instruction set and 1 to 3 threads: all give exactly the reference's
// logits.
#pragma once
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "../instruction_sets.hpp"
#include "../integer_attention.hpp"
#include "../integer_convolution.hpp"
#include "../integer_steps.hpp"
#include "integer_reference.hpp"
#include "network.hpp"
#include "random_integer_networks.hpp"

namespace prunus::test {

inline Limits limits_of(const CodedNumbers& numbers) {
  return {static_cast<float>(numbers.low), static_cast<float>(numbers.high)};
}

// Collect one number or object per domain.
template <class Make>
auto per_domain(const CodedOperation& o, Make make) {
  std::vector<decltype(make(o.domains[0]))> result;
  for (const CodedNumbers& numbers : o.domains) result.push_back(make(numbers));
  return result;
}

inline const uint8_t* table_or_null(const std::vector<uint8_t>& table) {
  return table.empty() ? nullptr : table.data();
}

// `masks` receives the bits that convolutions read as long as the program exists.
inline std::unique_ptr<Step> make_coded_convolution(const CodedNetwork& net, const CodedOperation& o, Program& program,
                                                    std::deque<std::vector<uint8_t>>& masks) {
  masks.push_back(packed(o.kept));
  const IntegerLayer layer{o.in.channels, o.out.channels, o.groups, o.window, {masks.back().data()}, o.kernels.data()};
  auto step = make_integer_convolution(layer, program, o.inputs[0]);
  for (int domain = 0; domain < kDomains; domain++) {
    const CodedNumbers& numbers = o.domains[domain];
    masks.push_back(packed(numbers.used));
    const auto [low, high] = limits_of(numbers);
    const uint8_t zero = static_cast<uint8_t>(net.zeros[o.inputs[0]][domain]);
    step->set_domain(
        domain,
        {{masks.back().data()}, zero, numbers.multipliers.data(), numbers.offsets.data(), numbers.first, low, high});
  }
  return step;
}

inline std::unique_ptr<Step> make_combination(const CodedNetwork& net, const CodedOperation& o) {
  std::vector<CodedCombineStep::Domain> domains;
  for (int domain = 0; domain < kDomains; domain++) {
    const CodedNumbers& numbers = o.domains[domain];
    domains.push_back({static_cast<float>(net.zeros[o.inputs[0]][domain]),
                       static_cast<float>(net.zeros[o.inputs[1]][domain]), numbers.first, numbers.second,
                       numbers.offset, limits_of(numbers)});
  }
  return std::make_unique<CodedCombineStep>(o.kind == CodedKind::sum, std::move(domains));
}

inline std::unique_ptr<Step> make_join(const CodedOperation& o) {
  return std::make_unique<CodedJoinStep>(per_domain(o, [](const CodedNumbers& numbers) {
    CodedJoinStep::Tables tables;
    for (const std::vector<uint8_t>& table : numbers.tables) tables.push_back(table_or_null(table));
    return tables;
  }));
}

inline std::unique_ptr<Step> make_coded_attention(const CodedNetwork& net, const CodedOperation& o) {
  std::vector<CodedAttentionStep::Domain> domains;
  for (int domain = 0; domain < kDomains; domain++) {
    const CodedNumbers& numbers = o.domains[domain];
    domains.push_back({net.zeros[o.inputs[0]][domain], net.zeros[o.inputs[2]][domain], numbers.first, numbers.second});
  }
  auto step = std::make_unique<CodedAttentionStep>(o.attention, std::move(domains));
  for (int domain = 0; domain < kDomains; domain++)
    step->set_bias(domain, o.domains[domain].bias.empty() ? nullptr : o.domains[domain].bias.data());
  return step;
}

inline std::unique_ptr<Step> make_coded_step(const CodedNetwork& net, const CodedOperation& o, Program& program,
                                             std::deque<std::vector<uint8_t>>& masks) {
  const auto first = [](const CodedNumbers& numbers) { return numbers.first; };
  switch (o.kind) {
    case CodedKind::quantize: return std::make_unique<QuantizeStep>(per_domain(o, first));
    case CodedKind::dequantize: return std::make_unique<DequantizeStep>(per_domain(o, first));
    case CodedKind::convolution: return make_coded_convolution(net, o, program, masks);
    case CodedKind::affine:
      return std::make_unique<CodedAffineStep>(per_domain(o, [](const CodedNumbers& numbers) {
        return CodedAffineStep::Domain{numbers.multipliers.data(), numbers.offsets.data(), limits_of(numbers)};
      }));
    case CodedKind::table:
      return std::make_unique<TableStep>(
          per_domain(o, [](const CodedNumbers& numbers) { return table_or_null(numbers.tables[0]); }));
    case CodedKind::pool:
      return std::make_unique<CodedPoolStep>(o.window, program, o.inputs[0], o.largest, o.count_pads,
                                             per_domain(o, [](const CodedNumbers& numbers) {
                                               return CodedPoolStep::Domain{numbers.factor, numbers.offset};
                                             }));
    case CodedKind::mean:
      return std::make_unique<CodedMeanStep>(per_domain(
          o, [](const CodedNumbers& numbers) { return CodedMeanStep::Domain{numbers.first, numbers.offset}; }));
    case CodedKind::join: return make_join(o);
    case CodedKind::attention: return make_coded_attention(net, o);
    default: return make_combination(net, o);
  }
}

// Return the logits of every domain.
inline std::vector<std::vector<float>> coded_logits(const CodedNetwork& net, const std::string& kernels, int threads) {
  Program program(net.shapes, kDomains, threads, choose_kernels(kernels));
  std::deque<std::vector<uint8_t>> masks;
  for (const CodedOperation& o : net.operations) program.add(make_coded_step(net, o, program, masks), o.inputs);
  for (size_t value = 0; value < net.zeros.size(); value++)
    if (!net.zeros[value].empty())
      program.set_zeros(static_cast<int>(value),
                        std::vector<uint8_t>(net.zeros[value].begin(), net.zeros[value].end()));
  for (int domain = 0; domain < kDomains; domain++) {
    const CodedHead& head = net.heads[domain];
    program.set_integer_head(domain, {head.weight.data(), head.multipliers.data(), head.offsets.data(), head.classes});
  }
  program.finish();
  std::vector<std::vector<float>> logits;
  for (int domain = 0; domain < kDomains; domain++) {
    logits.emplace_back(net.count * net.heads[domain].classes, NAN);
    if (!program.run(net.images.data(), net.count, domain, logits.back().data())) std::abort();
  }
  return logits;
}

// Compare all domains, instruction sets and numbers of threads; return the number of wrong results.
inline int check_codes(const CodedNetwork& net, int seed) {
  int wrong = 0;
  std::vector<Numbers> expected;
  for (int domain = 0; domain < kDomains; domain++) expected.push_back(expected_logits(net, domain));
  for (const std::string& name : available_kernels())
    for (int threads = 1; threads <= 3; threads++) {
      const std::vector<std::vector<float>> logits = coded_logits(net, name, threads);
      for (int domain = 0; domain < kDomains; domain++) {
        if (!std::memcmp(logits[domain].data(), expected[domain].data(), expected[domain].size() * sizeof(float)))
          continue;
        std::printf("seed %d, domain %d, %s, %d threads: codes differ\n", seed, domain, name.c_str(), threads);
        wrong++;
      }
    }
  return wrong;
}

// Return the number of wrong results of random networks over codes, and of as many of attention over extreme codes.
inline int check_random_codes(int cases, int first) {
  int wrong = 0;
  for (int seed = first, done = 0; done < cases; seed++) {
    DrawCodes draw(static_cast<unsigned>(seed));
    CodedNetwork net{};
    if (!draw_coded_network(draw, net)) continue;
    done++;
    DrawCodes extremes(static_cast<unsigned>(seed));
    wrong += check_codes(net, seed) + check_codes(draw_extreme_attention(extremes), seed);
  }
  return wrong;
}

}  // namespace prunus::test
