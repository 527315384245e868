// Compares every instruction set of this processor with a reference in double precision, on random networks of two
// domains. Some networks run both domains at the same time. Networks over 8-bit codes must equal their reference bit by
// bit. Needs nothing but a compiler, so it also runs with
// sanitizers and under emulation:
//     kernels_test [cases] [first seed]
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "../aligned_buffer.hpp"
#include "../convolution.hpp"
#include "../instruction_sets.hpp"
#include "../steps.hpp"
#include "integer_checks.hpp"
#include "network.hpp"
#include "random_networks.hpp"
#include "reference.hpp"

using namespace prunus;
using namespace prunus::test;

namespace {

constexpr double kTolerance = 2e-5;  // of the largest logit

const float* or_null(const std::vector<float>& numbers) { return numbers.empty() ? nullptr : numbers.data(); }

template <class AnyStep>
std::unique_ptr<Step> with_tensors(std::unique_ptr<AnyStep> step, const Operation& o) {
  for (int domain = 0; domain < kDomains; domain++)
    step->set_domain(domain, or_null(o.domains[domain].scale), or_null(o.domains[domain].bias));
  return step;
}

// `masks` receives the bits that convolutions read as long as the program exists.
std::unique_ptr<Step> make_step(const Operation& o, Program& program, std::vector<std::vector<uint8_t>>& masks) {
  switch (o.kind) {
    case Kind::convolution: {
      const ConvolutionSpec spec{o.in.channels, o.out.channels, o.groups, o.window, o.activation, o.slope};
      masks.push_back(packed(o.kept));
      auto step = make_convolution(spec, program, o.inputs[0], {{masks.back().data()}, o.kernels.numbers()});
      for (int domain = 0; domain < kDomains; domain++) {
        const Tensors& tensors = o.domains[domain];
        masks.push_back(packed(tensors.used));
        step->set_domain(domain, {masks.back().data()}, or_null(tensors.scale), or_null(tensors.bias),
                         or_null(tensors.ones));
      }
      return step;
    }
    case Kind::pool: return std::make_unique<PoolStep>(o.window, program, o.inputs[0], o.largest, o.count_pads);
    case Kind::affine: return with_tensors(std::make_unique<AffineStep>(kDomains, o.activation, o.slope), o);
    case Kind::layer_norm: return with_tensors(std::make_unique<LayerNormStep>(kDomains, o.eps), o);
    case Kind::join: return std::make_unique<JoinStep>();
    case Kind::mean: return std::make_unique<MeanStep>();
    default: return std::make_unique<CombineStep>(o.kind == Kind::add, o.activation, o.slope);
  }
}

// Return the logits of every domain. With `at_once`, domains run in parallel threads, twice.
std::vector<std::vector<float>> computed(const Network& net, const std::string& kernels) {
  Program program(net.shapes, kDomains, net.threads, choose_kernels(kernels));
  std::vector<std::vector<uint8_t>> masks;
  for (const Operation& o : net.operations) program.add(make_step(o, program, masks), o.inputs);
  for (int domain = 0; domain < kDomains; domain++) {
    const Head& head = net.heads[domain];
    program.set_head(domain, head.weight.numbers(), head.bias.numbers(), head.classes);
  }
  program.finish();
  std::vector<std::vector<float>> logits(kDomains);
  const auto ask = [&](int domain) {
    logits[domain].assign(net.count * net.heads[domain].classes, NAN);
    if (!program.run(net.images.data(), net.count, domain, logits[domain].data())) std::abort();
  };
  for (int round = 0; round < (net.at_once ? 2 : 1); round++) {
    std::vector<std::thread> others;
    for (int domain = 1; domain < kDomains; domain++) {
      if (net.at_once) {
        others.emplace_back(ask, domain);
      } else {
        ask(domain);
      }
    }
    ask(0);
    for (std::thread& thread : others) thread.join();
  }
  return logits;
}

double distance(const std::vector<float>& logits, const std::vector<double>& reference) {
  double largest = 1e-3, apart = 0;
  for (double logit : reference) largest = std::max(largest, std::fabs(logit));
  for (size_t i = 0; i < reference.size(); i++) {
    const double gap = std::fabs(logits[i] - reference[i]);
    apart = gap <= apart ? apart : gap;  // also keeps NaN
  }
  return apart / largest;
}

// Compare all domains and instruction sets; return the number of wrong results.
int check(const Network& net, int seed, double& worst) {
  std::vector<std::vector<double>> reference;
  for (int domain = 0; domain < kDomains; domain++) reference.push_back(expected(net, domain));
  int wrong = 0;
  for (const std::string& name : available_kernels()) {
    const std::vector<std::vector<float>> logits = computed(net, name);
    for (int domain = 0; domain < kDomains; domain++) {
      const double error = distance(logits[domain], reference[domain]);
      worst = std::max(worst, error);
      if (error <= kTolerance) continue;
      std::printf("seed %d, domain %d, %s: off by %.2e of the largest\n", seed, domain, name.c_str(), error);
      wrong++;
    }
  }
  return wrong;
}

// A buffer that cannot grow is empty, and can be used again.
int check_buffer() {
  AlignedBuffer buffer(16);
  try {
    buffer.grow(PTRDIFF_MAX / 8);
    std::printf("a buffer of 2^60 floats was allocated\n");
    return 1;
  } catch (const std::bad_alloc&) {
  }
  if (buffer.size() != 0 || buffer.data() != nullptr) {
    std::printf("a buffer that could not grow claims %td floats\n", buffer.size());
    return 1;
  }
  buffer.grow(16);
  return std::all_of(buffer.data(), buffer.data() + 16, [](float x) { return x == 0; }) ? 0 : 1;
}

// Planes that threads divide in the middle: the halves lie in lines of their own, and a block may be read past the end.
int check_lattices() {
  int wrong = 0;
  for (int height = 1; height <= 40; height++)
    for (int width = 1; width <= 40; width++)
      for (int padding = 0; padding <= 3; padding++) {
        Lattice lattice;
        lattice.height = height;
        lattice.width = width;
        lattice.ring = lattice.side = padding;
        lattice.settle();
        const ptrdiff_t middle = lattice.margin() + lattice.blocks() / 2 * kBlock;
        const ptrdiff_t end = lattice.margin() + lattice.blocks() * kBlock + padding * (width + padding + 1);
        const bool is_apart = lattice.blocks() <= 8 || (middle % 64 == 0 && lattice.plane() % 64 == 0);
        const bool has_room = lattice.margin() >= padding * (width + padding + 1) && lattice.plane() >= end + kBlock;
        wrong += !is_apart || !has_room;
      }
  if (wrong) std::printf("%d lattices do not keep threads apart or lack room\n", wrong);
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  const int cases = argc > 1 ? std::atoi(argv[1]) : 300, first = argc > 2 ? std::atoi(argv[2]) : 0;
  int wrong = check_buffer() + check_lattices() + check_random_codes(cases, first), done = 0;
  double worst = 0;
  for (int seed = first; done < cases; seed++) {
    Draw draw(static_cast<unsigned>(seed));
    Network net{};
    if (!draw_network(draw, net)) continue;
    done++;
    wrong += check(net, seed, worst);
  }
  std::string names;
  for (const std::string& name : available_kernels()) names += " " + name;
  for (const std::string& name : lacking_kernels())
    std::printf("not run, because this processor lacks it: %s\n", name.c_str());
  std::printf("%d cases,%s: %d wrong, at most %.2e of the largest away\n", done, names.c_str(), wrong, worst);
  return wrong ? 1 : 0;
}
