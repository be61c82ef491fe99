#include "sim/search/plan_seconds.h"

#include "sim/program/groups.h"

namespace foretrain {

const GroupPlace& PlanSeconds::PlaceOfGroup(GroupKind group) {
  std::optional<GroupPlace>& place = places_[static_cast<std::size_t>(group)];
  if (!place.has_value()) {
    place = group == GroupKind::kNone ? GroupPlace{}
                                      : PlaceOf(costs_.cluster(), GroupMembers(plan_, {}, group));
  }
  return *place;
}

double PlanSeconds::operator()(const Op& op) {
  const OpKey key{op.kind,    op.queue,   op.op_class, op.from,   op.to,    op.state, op.accumulate,
                  op.trans_a, op.trans_b, op.rms,      op.format, op.shape, op.group};
  const auto [found, is_new] = seconds_.try_emplace(key, 0.0);
  if (is_new) found->second = costs_.CostOf(op, PlaceOfGroup(op.group)).Alone();
  return found->second;
}

}  // namespace foretrain
