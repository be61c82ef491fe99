// A figure and where it comes from.
#pragma once

#include "sim/cost/provenance.h"

namespace foretrain {

struct Figure {
  double value = 0;
  Provenance provenance = Provenance::kDefault;

  bool operator==(const Figure&) const = default;
};

}  // namespace foretrain
