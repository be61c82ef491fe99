// Models that several tests compute with by hand.
#pragma once

#include "sim/config/model/model_spec.h"

namespace foretrain {

// GPT-2 with 12 layers, 12 heads, ffn 3072, 1,024 positions.
ModelSpec Gpt2();

// 4 layers of 16 in 4 heads of 4, ffn 64, 32 tokens, 8 positions.
ModelSpec SmallGpt();

}  // namespace foretrain
