#include "sim/search/plan_seconds.h"

#include "sim/cost/plan_place.h"
#include "sim/program/groups.h"

namespace foretrain {

const GroupPlace& PlanSeconds::PlaceOf(GroupKind group) {
  std::optional<GroupPlace>& place = places_[static_cast<std::size_t>(group)];
  if (!place.has_value()) {
    place = group == GroupKind::kNone
                ? GroupPlace{}
                : PlaceOfGroup(costs_.cluster(), plan_, {}, group, GroupMembers(plan_, {}, group));
  }
  return *place;
}

double PlanSeconds::Seconds(const Op& op) {
  const GroupPlace& place = PlaceOf(op.group);
  const double seconds = costs_.CostOf(op, place).Alone();
  if (op.op_class == OpClass::kTpComm) return (1 - system_.tp_overlap) * seconds;
  if (op.op_class == OpClass::kDpComm && place.nodes > 1) return seconds / system_.network_share;
  return seconds;
}

double PlanSeconds::operator()(const Op& op) {
  const OpKey key{op.kind,   op.queue,      op.op_class, op.from,    op.to,
                  op.state,  op.accumulate, op.trans_a,  op.trans_b, op.rms,
                  op.format, op.formats,    op.shape,    op.group};
  const auto [found, is_new] = seconds_.try_emplace(key, 0.0);
  if (is_new) found->second = Seconds(op);
  return found->second;
}

}  // namespace foretrain
