// The output of `predict --explain`: where the seconds of ops come from, as text and JSON.
#pragma once

#include <string>
#include <vector>

#include "sim/cost/explain_ops.h"

namespace foretrain {

class JsonWriter;

// Each op with its sizes, its time and the terms that make it.
//   origin  where the profile comes from
std::string ExplainText(const std::vector<ExplainedOp>& ops, const std::string& origin);

// {"schema", "rates", "ops"}; docs/json.md has the fields.
std::string ExplainJson(const std::vector<ExplainedOp>& ops, const std::string& origin);

}  // namespace foretrain
