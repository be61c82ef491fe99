// From a plan and its model to another trainer's launch file. What the trainer cannot be told is
// named, because the file is read back and compared.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/config/launch/dialect.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

struct WrittenLaunch {
  std::string text;
  std::vector<LaunchItem> entries;  // of the text
  // Options of the plan and members of the model that the file does not say, with both values:
  // "--tp-tiles 4 (the file: 1)". Empty: the file gives the same plan.
  std::vector<std::string> unsaid;
};

// Writes `plan`, which must be valid for `model`.
//
//   model_name       catalogue name; empty: none
//   ranks_per_node   devices of a node, at least 1
//
// Errors: kUnsupported if the trainer has no counterpart of a degree of parallelism.
Result<WrittenLaunch> WriteLaunch(const Dialect& dialect, std::span<const Dialect> dialects,
                                  const Plan& plan, const ModelSpec& model,
                                  std::string_view model_name, std::int64_t ranks_per_node);

}  // namespace foretrain
