// Tunes how a plan with sharded parameters buckets, prefetches and avoids its gathers, so that
// compute hides them. Compilers decide the same over a traced step: Zhang et al. 2024 (SimpleFSDP);
// Tanaka et al. 2025 (DeepCompile).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

// Whether the plan gathers parameters for their uses and sets none of the fields below itself.
bool MayTuneGathers(const Plan& plan);

// The fastest plan found that fits and differs from `plan` only in gather_bytes, prefetch_depth and
// unsharded_bytes. Returns `plan` itself if none is faster.
//
//   plan            accepted by MayTuneGathers
//   memory_bytes    of a device; `plan` fits
//   seconds         seconds of a step under a plan; `nullopt` if there is no forecast
//
// Tries buckets of 2, 4, ... layers, then prefetch depths 2 and 4, then as many whole parameters as
// memory allows: about log2(layers) + 4 calls of `seconds`.
Plan TuneGathers(const ModelSpec& model, const Plan& plan, std::int64_t memory_bytes,
                 const std::function<std::optional<double>(const Plan&)>& seconds);

}  // namespace foretrain
