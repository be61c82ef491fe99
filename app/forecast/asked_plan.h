// From the options of a command, and perhaps another trainer's launch file, to one plan on a
// machine with the software that runs it.
#pragma once

#include <optional>
#include <string>

#include "app/cli/flags/dialect_flags.h"
#include "app/forecast/forecasting.h"

namespace foretrain {

struct AskedMachine {
  std::optional<Preset> preset;   // of --preset
  std::optional<Preset> trainer;  // of the launch file or --for (DialectFlags::Software)
  ForecastContext context;
};

// `dialect` was read. Errors: those of MakeContext, and an unknown preset.
Result<AskedMachine> AskMachine(const ModelFlags& model, const ClusterFlags& cluster,
                                const PlanFlags& plan, const DialectFlags& dialect);

struct AskedPlan {
  Plan stated;           // what options and file say
  Plan plan;             // with what the software adds
  std::string defaults;  // values that nothing gave (DefaultsText)
};

// Errors: those of PlanOf, for a plan that cannot exist.
Result<AskedPlan> AskPlan(const AskedMachine& machine, const PlanFlags& flags,
                          const DialectFlags& dialect);

}  // namespace foretrain
