// The instruction sets of this processor, by name.
#pragma once
#include <string>
#include <vector>

#include "kernels.hpp"

namespace prunus {

std::vector<std::string> available_kernels();            // the best first
std::vector<std::string> lacking_kernels();              // compiled, but this processor cannot run them
const Kernels& choose_kernels(const std::string& name);  // "auto" selects the best

}  // namespace prunus
