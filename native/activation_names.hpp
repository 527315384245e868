// The names of activations in model files and in Python. They are not declared in kernels.hpp because the kernels must
// not include <string>: its inline functions would be compiled once per instruction set, and the linker keeps only one
// copy.
#pragma once
#include <string>
#include <vector>

#include "kernels.hpp"

namespace prunus {

std::vector<std::string> activation_names();
Activation activation_named(const std::string& name);  // throws std::invalid_argument for an unknown name

}  // namespace prunus
