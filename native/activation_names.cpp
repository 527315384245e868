#include "activation_names.hpp"

#include "names.hpp"

namespace prunus {

namespace {

struct NamedActivation {
  const char* name;
  Activation activation;
};

constexpr NamedActivation kActivations[] = {
    {"none", Activation::none},
    {"relu", Activation::relu},
    {"relu6", Activation::relu6},
    {"leaky_relu", Activation::leaky_relu},
    {"elu", Activation::elu},
    {"silu", Activation::silu},
    {"gelu", Activation::gelu},
    {"gelu_tanh", Activation::gelu_tanh},
    {"mish", Activation::mish},
    {"hard_swish", Activation::hard_swish},
    {"hard_sigmoid", Activation::hard_sigmoid},
    {"sigmoid", Activation::sigmoid},
    {"tanh", Activation::tanh},
};

}  // namespace

std::vector<std::string> activation_names() {
  std::vector<std::string> names;
  for (const NamedActivation& known : kActivations) names.push_back(known.name);
  return names;
}

Activation activation_named(const std::string& name) {
  for (const NamedActivation& known : kActivations)
    if (name == known.name) return known.activation;
  throw unknown_name("activation", name, activation_names());
}

}  // namespace prunus
