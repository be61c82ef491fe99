// Training frameworks as a choice of the plan view: only plans that one can run, with its software.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/config/plan/preset.h"
#include "sim/search/space/frameworks.h"

namespace foretrain::ui {

// Every option of foretrain's own, without a framework's limits or software.
inline constexpr std::string_view kOwnTrainer = "foretrain";

struct Trainer {
  Framework framework{};
  std::optional<Preset> software{};  // `nullopt`: foretrain's own
};

// The names of `plan --for`, in the order of the built-in table.
std::vector<std::string> TrainerNames();

// Errors: kInvalidArgument with all names.
Result<Trainer> TrainerOf(const std::string& name);

// Leaves to `space` what the trainer has, except for fields that the user gives (`given`), and sets
// the number formats of its software.
//
//   layers  of the model
void ApplyTrainer(const Trainer& trainer, const std::vector<const PlanField*>& given,
                  std::int64_t layers, SearchSpace& space);

}  // namespace foretrain::ui
