#include "sim/validate/memory_figure.h"

#include <algorithm>

#include "base/units.h"

namespace foretrain {
namespace {

// Of a process that uses CUDA and cuBLAS: tests/data/validation/README.md, on V100.
constexpr double kContextBytes = 1.1 * static_cast<double>(kGiB);
// NCCL: two directions of 4 MiB buffers a channel and peer, 16 to 32 channels.
constexpr double kCommunicatorBytes = 0.25 * static_cast<double>(kGiB);
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
    const auto turned = static_cast<double>((model.heads + model.kv_heads) * model.head_dim);
    sum += kHalfBytes * (static_cast<double>(model.ffn_hidden) + turned) * Tokens(plan) / plan.tp;
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

std::int64_t ShownBytes(const Plan& plan, const SystemOptions& system, std::int64_t bytes) {
  const int groups = (plan.tp > 1 ? 1 : 0) + (plan.pp > 1 ? 2 : 0) +
                     (plan.DataParallel() > 1 ? 1 : 0) + 1;  // the world's
  return static_cast<std::int64_t>((1 + system.allocator_slack) * static_cast<double>(bytes) +
                                   kContextBytes + groups * kCommunicatorBytes);
}

std::int64_t MemoryFigureOf(const ModelSpec& model, const Plan& plan, const SystemOptions& system,
                            std::int64_t bytes) {
  const std::int64_t used = bytes + KeptByKernels(model, plan, system);
  return system.memory_figure == MemoryFigure::kNvidiaSmi ? ShownBytes(plan, system, used) : used;
}

}  // namespace foretrain
