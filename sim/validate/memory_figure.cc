#include "sim/validate/memory_figure.h"

#include <algorithm>

#include "sim/memory/device_overhead.h"
#include "sim/memory/reserved_peak.h"

namespace foretrain {
namespace {

constexpr double kHalfBytes = 2;
constexpr double kEagerLossBytes = 6;  // a logit

double Tokens(const Plan& plan) {
  return static_cast<double>(plan.micro_batch) * static_cast<double>(plan.LocalSequence());
}

// What eager kernels keep of one layer without recomputation.
double EagerOfLayer(const ModelSpec& model, const Plan& plan, const SystemOptions& system) {
  const double split = plan.sequence_parallel ? plan.tp : 1;
  const double rows = Tokens(plan) * static_cast<double>(model.hidden) / split;
  double sum = 0;
  if (!system.fused_elementwise && model.mlp == MlpKind::kSwiglu) {
    sum += kHalfBytes * static_cast<double>(model.ffn_hidden) * Tokens(plan) / plan.tp;
  }
  if (!system.fused_norm && model.norm == NormKind::kRmsNorm) sum += 2 * 4 * rows;
  return sum;
}

}  // namespace

std::int64_t KeptByKernels(const ModelSpec& model, const Plan& plan, const SystemOptions& system) {
  const double in_flight =
      static_cast<double>(std::min<std::int64_t>(plan.MicroBatches(), plan.pp));
  const double layers = in_flight * static_cast<double>((model.layers + plan.pp - 1) / plan.pp);
  double sum = 0;
  if (plan.recompute == RecomputeKind::kNone) sum += layers * EagerOfLayer(model, plan, system);
  if (!system.fused_loss) {
    sum += kEagerLossBytes * static_cast<double>(model.vocab) * Tokens(plan) / plan.tp;
  }
  return static_cast<std::int64_t>(sum);
}

std::int64_t ShownBytes(const ClusterSpec& cluster, const Plan& plan, const SystemOptions& system,
                        std::int64_t reserved) {
  return reserved +
         DeviceOverheadOf(cluster, plan, system.own_communicators, /*profiled=*/false).Total();
}

std::int64_t MemoryFigureOf(const ModelSpec& model, const Plan& plan, const SystemOptions& system,
                            const ClusterSpec& cluster, std::int64_t bytes, int pp) {
  if (system.memory_figure == MemoryFigure::kAllocated) {
    return bytes + KeptByKernels(model, plan, system);
  }
  const RankCoordinates at{.pp = system.memory_rank == MemoryRank::kFirst ? 0 : pp};
  const std::int64_t outside = ShownBytes(cluster, plan, system, 0);
  const std::int64_t room = std::max<std::int64_t>(1, cluster.device.memory_bytes - outside);
  const std::int64_t reserved = PredictReserved(model, plan, at, system, room).reserved;
  return system.memory_figure == MemoryFigure::kReserved ? reserved : reserved + outside;
}

}  // namespace foretrain
