// Provenance of a predicted value.
#pragma once

#include <cstdint>
#include <string_view>

namespace foretrain {

// From best to worst; a sum is as good as its worst part.
enum class Provenance : std::uint8_t {
  kMeasured,      // this op, with this shape, on this device
  kInterpolated,  // between measured shapes
  kExtrapolated,  // outside of them
  kDefault,       // from published peaks and assumed efficiencies, unproven
};
inline constexpr int kProvenanceCount = 4;

std::string_view Name(Provenance provenance);  // "measured", ...

constexpr Provenance Worse(Provenance a, Provenance b) { return a < b ? b : a; }

}  // namespace foretrain
