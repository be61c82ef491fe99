// How a plan with sharded parameters buckets, reorders and leaves out its gathers, so that the
// compute hides them: what a compiler decides over a traced step. Zhang et al. 2024 (SimpleFSDP);
// Tanaka et al. 2025 (DeepCompile).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

// Whether the plan gathers parameters for their uses, and says nothing about how.
bool MayTuneGathers(const Plan& plan);

// The fastest plan that differs from `plan` in gather_bytes, prefetch_depth and unsharded_bytes
// alone and fits; `plan` itself where none is faster.
//
//   plan            MayTuneGathers
//   memory_bytes    of a device; `plan` fits
//   seconds         of a step under a plan; nothing where it cannot be told
//
// Buckets of 1, 2, 4, ... layers, then gathers 2 and 4 ahead, then as many parameters left whole as
// there is memory for: at most log2(layers) + 4 calls of `seconds`.
Plan TuneGathers(const ModelSpec& model, const Plan& plan, std::int64_t memory_bytes,
                 const std::function<std::optional<double>(const Plan&)>& seconds);

}  // namespace foretrain
