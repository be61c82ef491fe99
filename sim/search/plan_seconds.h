// Seconds of the ops of one plan on one machine, each made once. Leaves out the order of the ops.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <tuple>

#include "sim/cost/cost_model.h"
#include "sim/cost/group_place.h"
#include "sim/program/op.h"
#include "sim/spec/plan.h"
#include "sim/spec/system_options.h"

namespace foretrain {

// Borrows both for its life. Not thread-safe.
class PlanSeconds {
 public:
  PlanSeconds(const CostModel& costs, const Plan& plan, const SystemOptions& system)
      : costs_(costs), plan_(plan), system_(system) {}

  // Of the op alone on its device, its group placed as that of the plan's first rank; of its
  // collectives what the system neither hides nor speeds up (tp_overlap, network_share).
  double operator()(const Op& op);

 private:
  // All that an op's cost depends on.
  using OpKey = std::tuple<OpKind, Queue, OpClass, Space, Space, bool, bool, bool, bool, bool,
                           NumberFormat, OperandFormats, OpShape, GroupKind>;

  const GroupPlace& PlaceOf(GroupKind group);
  double Seconds(const Op& op);

  const CostModel& costs_;
  const Plan& plan_;
  SystemOptions system_;
  std::array<std::optional<GroupPlace>, kGroupKindCount> places_;
  std::map<OpKey, double> seconds_;
};

}  // namespace foretrain
