#include "sim/cost/checkpoint_cost.h"

#include "base/checked.h"
#include "sim/program/blocks/parameters.h"
#include "sim/program/ir/precision.h"
#include "sim/program/lower/layout/factored_moments.h"
#include "sim/program/lower/layout/layout_sizes.h"
#include "sim/program/lower/transfers/transfer_blocks.h"

namespace foretrain {

CheckpointCost CheckpointCostOf(const ModelSpec& model, const Plan& plan,
                                const DeviceProfile& profile, bool is_cpu) {
  const std::int64_t trained = CountParameters(model, plan).trained;
  const int moments = MomentsOf(plan.optimizer);
  CheckpointCost cost;
  cost.bytes = BytesIn(HasMasters(plan) ? NumberFormat::kFp32 : WeightFormat(plan), trained) +
               moments * BytesIn(MomentFormatOf(plan), trained) -
               BytesIn(MomentFormatOf(plan), OrthogonalParameters(model, plan));
  if (plan.optimizer == OptimizerKind::kAdafactor) {
    cost.bytes += BytesIn(NumberFormat::kFp32, FactoredMoments(model, plan)) -
                  moments * BytesIn(MomentFormatOf(plan), trained);
  }
  if (plan.average_decay > 0) cost.bytes += BytesIn(NumberFormat::kFp32, trained);
  const double of_rank = static_cast<double>(CeilDiv(cost.bytes, std::int64_t{plan.World()}));
  const ProfileRates& rates = profile.rates;
  // On the CPU each byte is read and written.
  cost.copy_s = is_cpu ? 2 * static_cast<double>(cost.bytes) / rates.memory_bytes_per_s.value
                       : of_rank / rates.copy_bytes_per_s.value;
  cost.write_s = of_rank / rates.nvme_write_bytes_per_s.value;
  return cost;
}

}  // namespace foretrain
