// A value and its provenance.
#pragma once

#include "sim/cost/profile/provenance.h"

namespace foretrain {

struct Figure {
  double value = 0;
  Provenance provenance = Provenance::kDefault;

  bool operator==(const Figure&) const = default;
};

}  // namespace foretrain
