// Dropout factors of a row. Every CPU kernel with dropout draws them here.
#pragma once

#include <stdint.h>

#include "base/device_api.h"

namespace foretrain {

// factors[i] = 1 / (1 - probability) if `mask` keeps column first_column + i of the row at
// `position`, else 0. `sample` and `head` count from the mask's first_sample and first_head.
// Positions and columns lie in [0, 2^31).
void KeepFactors(const FtRandomMask& mask, int64_t sample, int64_t head, int64_t position,
                 int64_t first_column, int64_t columns, float* factors);

}  // namespace foretrain
