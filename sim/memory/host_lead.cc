#include "sim/memory/host_lead.h"

#include "sim/cost/cost_model.h"
#include "sim/cost/network/plan_place.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/program/blocks/blocks.h"

namespace foretrain {

bool HostRunsAhead(const ModelSpec& model, const Plan& plan, const ClusterSpec& cluster,
                   const SystemOptions& system) {
  const auto costs = CostModel::Make(cluster, DeriveProfile(cluster, system));
  if (!costs.has_value()) return true;
  double host_s = 0, device_s = 0;
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    const BlockRequest request{
        .pass = pass, .accumulate = pass == Pass::kBackward, .recompute = plan.recompute};
    for (const Op& op : BuildBlock({model, plan}, request).ops) {
      GroupPlace place;
      if (IsCommunication(op.kind)) {
        place = PlaceOfGroup(cluster, plan, {}, op.group, GroupMembers(plan, {}, op.group));
      }
      const OpCost cost = costs->CostOf(op, place);
      host_s += cost.launch_s;
      device_s += cost.seconds.front();
    }
  }
  return host_s < device_s;
}

}  // namespace foretrain
