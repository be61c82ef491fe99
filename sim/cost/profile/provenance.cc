#include "sim/cost/profile/provenance.h"

#include <array>

namespace foretrain {
namespace {

constexpr std::array<std::string_view, kProvenanceCount> kNames{"measured", "interpolated",
                                                                "extrapolated", "default"};

}  // namespace

std::string_view Name(Provenance provenance) {
  return kNames[static_cast<std::size_t>(provenance)];
}

std::optional<Provenance> ParseProvenance(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Provenance>(i);
  }
  return std::nullopt;
}

}  // namespace foretrain
