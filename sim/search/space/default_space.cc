#include "sim/search/space/default_space.h"

#include <algorithm>
#include <vector>

namespace foretrain {
namespace {

constexpr std::int64_t kDefaultTokens = std::int64_t{1} << 22;
constexpr std::int64_t kFilling = 32;  // samples per rank: four micro-batches of four, two stages

template <class Kind>
std::vector<std::int64_t> Values(std::initializer_list<Kind> kinds) {
  std::vector<std::int64_t> values;
  for (const Kind kind : kinds) values.push_back(static_cast<std::int64_t>(kind));
  return values;
}

std::vector<std::int64_t> DivisorsOf(std::int64_t number, std::int64_t max) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d <= std::min(number, max); ++d) {
    if (number % d == 0) divisors.push_back(d);
  }
  return divisors;
}

// Numbers of chunks a stage that deal the layers evenly to the stages of some pipeline. Up to two
// chunks may lack a layer: embedding and head take their place.
std::vector<std::int64_t> ChunksOf(std::int64_t layers,
                                   const std::vector<std::int64_t>& pipelines) {
  constexpr std::int64_t kMaxShort = 2;
  std::vector<std::int64_t> chunks;
  for (const std::int64_t vpp : {2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24}) {
    const bool deals =
        std::any_of(pipelines.begin(), pipelines.end(), [layers, vpp](std::int64_t pp) {
          const std::int64_t stages = pp * vpp;
          return pp > 1 && stages <= layers && (stages - layers % stages) % stages <= kMaxShort;
        });
    if (deals || vpp == 2) chunks.push_back(vpp);
  }
  return chunks;
}

// Adds the choices that pay off on accelerators. Choose replaces the values that DefaultSpace has
// set before.
void ChooseForAccelerators(const ModelSpec& model, int ranks, SearchSpace& out) {
  constexpr std::int64_t kMaxContext = 16;
  out.Choose("cp", DivisorsOf(ranks, kMaxContext));
  std::vector<ScheduleKind> schedules = {ScheduleKind::k1f1b, ScheduleKind::kInterleaved,
                                         ScheduleKind::kZbH1, ScheduleKind::kZbV,
                                         ScheduleKind::kGpipe};
  if (model.experts > 0) schedules.push_back(ScheduleKind::kDualPipeV);
  std::vector<std::int64_t> numbers;
  for (const ScheduleKind schedule : schedules) {
    numbers.push_back(static_cast<std::int64_t>(schedule));
  }
  out.Choose("schedule", numbers);
  out.Choose("vpp", ChunksOf(model.AllLayers(), DivisorsOf(ranks, ranks)));
  out.Choose("zero_stage", {0, 1, 2, 3});
  out.Choose("recompute",
             Values({RecomputeKind::kNone, RecomputeKind::kSelective, RecomputeKind::kFull}));
  out.Choose("sequence_parallel", {0, 1});
  out.Choose("vocab_parallel", {0, 1});
  out.Choose("tp_tiles", {1, 4});
  out.Choose("cp_kind", Values({ContextParallelKind::kRing, ContextParallelKind::kAllGather,
                                ContextParallelKind::kAllToAll}));
  out.Choose("offload_optimizer", Values({OffloadTarget::kNone, OffloadTarget::kHost}));
  out.Choose("offload_activations", Values({OffloadTarget::kNone, OffloadTarget::kHost}));
  out.orders_ranks = true;
  if (model.experts == 0) return;
  out.Choose("ep", DivisorsOf(model.experts, ranks));
  out.Choose("expert_tp", {0, 1});
}

}  // namespace

// Starts from the choices that make sense on a CPU and extends them for accelerators.
SearchSpace DefaultSpace(const ModelSpec& model, const ClusterSpec& cluster, int ranks,
                         const Plan& base) {
  SearchSpace out;
  out.base = base;
  const std::vector<std::int64_t> divisors = DivisorsOf(ranks, ranks);
  out.Choose("dp", divisors);
  out.Choose("tp", divisors);
  out.Choose("pp", divisors);
  out.Choose("micro_batch", MicroBatchesOf(base.global_batch));
  out.Choose("schedule", Values({ScheduleKind::k1f1b, ScheduleKind::kZbH1, ScheduleKind::kGpipe}));
  out.Choose("zero_stage", {0, 1, 3});
  out.Choose("recompute", Values({RecomputeKind::kNone, RecomputeKind::kFull}));
  if (!cluster.is_cpu) ChooseForAccelerators(model, ranks, out);
  return out;
}

std::vector<std::int64_t> MicroBatchesOf(std::int64_t global_batch) {
  std::vector<std::int64_t> sizes = {1, 2, 4, 8, 16, 32};
  if (global_batch > 0 && global_batch % 3 == 0) sizes.insert(sizes.end(), {3, 6, 12, 24});
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

void OffloadMore(OffloadLevel level, SearchSpace& space) {
  if (level == OffloadLevel::kNoMore) return;
  const auto host = static_cast<std::int64_t>(OffloadTarget::kHost);
  space.Choose("offload_optimizer", {host});
  space.Choose("offload_gradients", {host});
  if (level == OffloadLevel::kGradients) return;
  space.Choose("offload_parameters", {host});
  space.base.weights = WeightStorage::kFp32;  // offloaded fp32 parameters are their own masters
}

Precision DefaultPrecision(const ClusterSpec& cluster) {
  const DeviceSpec& device = cluster.device;
  if (cluster.is_cpu) return Precision::kFp32;
  if (device.bf16_flop_per_s > device.fp32_flop_per_s) return Precision::kBf16;
  return device.fp16_flop_per_s > device.fp32_flop_per_s ? Precision::kFp16 : Precision::kFp32;
}

std::int64_t DefaultSequence(const ModelSpec& model) {
  return std::min(model.max_sequence, kDefaultSequenceCap);
}

// Doubles from one sample per rank, so that the batch divides by the ranks and by many micro-batch
// sizes.
std::int64_t DefaultBatch(int ranks, std::int64_t sequence) {
  const std::int64_t filling = kFilling * ranks;
  std::int64_t batch = ranks;
  while (batch < filling && batch * sequence < kDefaultTokens) batch *= 2;
  return batch;
}

}  // namespace foretrain
