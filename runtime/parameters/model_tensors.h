// The whole tensors of a model, without a plan's split over ranks.
#pragma once

#include <string>
#include <vector>

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/program/ir/program.h"

namespace foretrain {

// Every tensor once, as a place that covers all of it: embedding, layers, head. A tied table is
// listed with the embedding alone. With method lora or qlora the adapters are listed too.
// O(tensors).
std::vector<ParameterPlace> TensorsOf(const ModelSpec& model, const Plan& plan = {});

// True for a low-rank factor of an adapter: `...lora_A.weight`, `...lora_B.weight`.
bool IsAdapter(const std::string& name);

}  // namespace foretrain
