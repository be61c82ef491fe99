// What dropout keeps of a row, as factors: every kernel that drops draws them here.
#pragma once

#include <stdint.h>

#include "base/device_api.h"

namespace foretrain {

// factors[i] = 1 / (1 - probability) where `mask` keeps column first_column + i of the row at
// `position` of sample `sample` and head `head`, both counted from the mask's first ones; else 0.
// Positions and columns lie in [0, 2^31).
void KeepFactors(const FtRandomMask& mask, int64_t sample, int64_t head, int64_t position,
                 int64_t first_column, int64_t columns, float* factors);

}  // namespace foretrain
