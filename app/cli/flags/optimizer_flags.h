// The options of a training's optimizer that are no part of the plan, which names the optimizer.
#pragma once

#include <optional>
#include <string>

#include "app/cli/arguments.h"
#include "runtime/ops/kernel_call.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

// --weight-decay, --beta1, --beta2 and --epsilon. A value that is not given is the optimizer's own:
// beta1 0.9, beta2 0.95 for AdamW and 0.99 for Lion (Chen et al. 2023, s. 4), epsilon 1e-8, weight
// decay 0.1.
class OptimizerFlags {
 public:
  void Declare(Arguments& arguments);
  OptimizerSettings SettingsOf(OptimizerKind optimizer) const;

 private:
  std::optional<double> weight_decay_, beta1_, beta2_, epsilon_;
};

// For example "decay 0.1, beta 0.9 0.95, epsilon 1e-08".
std::string Describe(const OptimizerSettings& settings);

}  // namespace foretrain
