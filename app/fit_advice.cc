#include "app/fit_advice.h"

#include <string>
#include <vector>

#include "base/units.h"
#include "sim/memory/host_memory.h"
#include "sim/search/advice.h"

namespace foretrain {
namespace {

constexpr int kMost = 2;

}  // namespace

Error WithAdvice(Error error, const ForecastContext& context, const Plan& plan,
                 std::int64_t memory_bytes) {
  const bool of_memory =
      error.code == ErrorCode::kInfeasible || error.code == ErrorCode::kResourceExhausted;
  if (!of_memory || memory_bytes <= 0) return error;
  SearchSpace space;
  space.base = plan;
  const std::vector<Advice> advice =
      AdviseToFit(context.model, context.costs, space, plan.World(), memory_bytes,
                  HostShareOf(context.cluster, context.costs.profile().system), /*threads=*/1);
  int told = 0;
  for (const Advice& one : advice) {
    if (told == kMost) break;
    error.message += (told++ == 0 ? ". What would fit: " : ", or ") + one.change + " (" +
                     FormatBytes(one.bytes) + " a rank, step " + FormatSeconds(one.step_s) +
                     " by closed form)";
  }
  return error;
}

}  // namespace foretrain
