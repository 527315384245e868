// The error for an unknown name.
#pragma once
#include <stdexcept>
#include <string>
#include <vector>

namespace prunus {

inline std::invalid_argument unknown_name(const std::string& kind, const std::string& name,
                                          const std::vector<std::string>& known) {
  std::string message = "unknown " + kind + " '" + name + "'; known: ";
  for (size_t i = 0; i < known.size(); i++) message += (i ? ", " : "") + known[i];
  return std::invalid_argument(message);
}

}  // namespace prunus
