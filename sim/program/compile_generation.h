// The program that generates tokens: one forward pass over a window of tokens, whose logits the
// host reads. Choosing tokens: runtime/generation/.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "sim/program/ir/program.h"

namespace foretrain {

// Compiles the forward pass of one sample for one rank in fp32, followed by a copy of all logits to
// host memory. The loss is computed too, and means nothing. State is parameters alone.
//
//   window  tokens of the sample, in [1, model.max_sequence]
//
// Errors: those of Compile; kUnsupported, an encoder, whose tokens see the rest of the window.
Result<Program> CompileGeneration(const ModelSpec& model, std::int64_t window);

// Buffer of a generation's logits in pinned memory: [window, vocab] f32.
std::int32_t HostLogitsOf(const RankProgram& rank);

}  // namespace foretrain
