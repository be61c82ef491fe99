// The plan that an import reads from its traces, as text and JSON. The store keeps it with the run.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json/json.h"
#include "base/result.h"
#include "sim/infer/infer_plan.h"
#include "traces/run.h"
#include "traces/store.h"

namespace foretrain {

inline constexpr std::string_view kInferredPlanAttachment = "inferred_plan";

// {"options": "--dp 2", "fields": [{"name", "value" (null: not told), "evidence"}]}, as a value.
void Write(JsonWriter& json, const InferredPlan& plan);

// The attachment's bytes, and the plan in them. Errors: those of ParseJson; kInvalidArgument, other
// fields than a plan's.
std::string ToJson(const InferredPlan& plan);
Result<InferredPlan> InferredPlanFromJson(std::string_view text, std::string_view source);

// The plan stored with a run; `nullopt` if there is none, or a damaged one.
std::optional<InferredPlan> InferredPlanOf(const StoreReader& reader, RunId run);

// "  plan in the trace: dp 2, pp 4 ..." in a few lines: values, options of `predict`, and what is
// not told with its reason.
std::string TextOf(const InferredPlan& plan);

}  // namespace foretrain
