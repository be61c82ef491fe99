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

}  // namespace foretrain
