#include "ui/view_model/starting_plan.h"

#include "sim/memory/host_memory.h"
#include "sim/search/enumerate.h"

namespace foretrain::ui {

Result<Scenario> StartingScenario(const PlanRequest& request, int threads,
                                  const std::function<bool()>& cancelled) {
  EnumerateOptions options;
  options.memory_bytes = request.cluster.device.memory_bytes;
  options.host_bytes = HostShareOf(request.cluster, request.costs.profile().system);
  options.kept = 1;
  options.front = false;
  options.threads = threads;
  options.cancelled = cancelled;
  FT_ASSIGN(const Enumeration found,
            EnumeratePlans(request.model, request.costs, CoarseSpace(request.space),
                           request.cluster.Devices(), options));
  Scenario out{request.model, request.machine, request.cluster, {}};
  if (!found.fastest.empty()) {
    out.plan = found.fastest.front().plan;
  } else if (found.smallest) {
    out.plan = found.smallest->plan;
  } else {
    return Fail(ErrorCode::kInfeasible,
                "no plan of this model makes " + std::to_string(request.cluster.Devices()) +
                    " ranks; choose another cluster or batch in Plan");
  }
  return out;
}

}  // namespace foretrain::ui
