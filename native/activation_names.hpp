// The names of activations, as model files and Python write them. They are apart from the enum because the kernels'
// header must not include <string>: see stored_arrays.hpp.
#pragma once
#include <string>
#include <vector>

#include "kernels.hpp"

namespace prunus {

std::vector<std::string> activation_names();
Activation activation_named(const std::string& name);  // throws std::invalid_argument for an unknown name

}  // namespace prunus
