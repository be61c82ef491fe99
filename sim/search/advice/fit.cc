#include "sim/search/advice/fit.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/units.h"
#include "sim/memory/host_memory.h"
#include "sim/search/space/default_space.h"

namespace foretrain {
namespace {

// A reduced space that shows whether something fits and about how fast: schedules and kinds of
// communication matter less.
SearchSpace SpaceOf(const ModelSpec& model, const ClusterSpec& cluster, const Plan& base,
                    OffloadLevel level) {
  SearchSpace space = DefaultSpace(model, cluster, cluster.Devices(), base);
  space.Choose("schedule", {static_cast<std::int64_t>(ScheduleKind::k1f1b)});
  space.Choose("micro_batch", {1, 4});
  if (cluster.is_cpu) return space;
  space.Choose("vpp", {1});
  space.Choose("tp_tiles", {1});
  space.Choose("cp_kind", {static_cast<std::int64_t>(ContextParallelKind::kRing)});
  OffloadMore(level, space);
  return space;
}

// The largest part of memory is named as the limit, since it is the most promising to reduce.
std::string LargestPart(const MemoryParts& m, std::int64_t limit) {
  const std::array<std::pair<const char*, std::int64_t>, 6> parts = {
      std::pair{"parameters", m.parameters},
      std::pair{"gradients", m.gradients},
      std::pair{"optimizer state", m.optimizer},
      std::pair{"activations", m.activations},
      std::pair{"working memory of a pass", m.transient},
      std::pair{"contexts and communicators", m.outside}};
  const auto max = std::max_element(
      parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return std::string(max->first) + ": " + FormatBytes(max->second) + " of " + FormatBytes(limit);
}

}  // namespace

// Doubles the sequence until nothing fits. The level of offload never goes back, since a longer
// sequence needs at least as much memory.
Result<LongestFit> FitOf(const ModelSpec& model, const CostModel& costs,
                         const FitOptions& options) {
  const ClusterSpec& cluster = costs.cluster();
  const std::size_t max = cluster.is_cpu ? 0 : kOffloadLevels.size() - 1;
  EnumerateOptions enumerate;
  enumerate.memory_bytes = options.memory_bytes;
  enumerate.host_bytes = HostShareOf(cluster, costs.profile().system);
  enumerate.kept = 1;
  enumerate.front = false;
  enumerate.threads = options.threads;
  enumerate.cancelled = options.cancelled;
  LongestFit fit;
  std::size_t level = 0;  // index into kOffloadLevels; longer sequences need at least this level
  std::int64_t sequence = std::min(options.min_sequence, model.max_sequence);
  for (;; sequence = std::min(sequence * 2, model.max_sequence)) {
    Plan base;
    base.method = options.method;
    base.precision = DefaultPrecision(cluster);
    base.sequence = sequence;
    base.global_batch = DefaultBatch(cluster.Devices(), sequence);
    Enumeration found;
    // Raises the level of offload until something fits or no level is left.
    for (;; ++level) {
      const SearchSpace space = SpaceOf(model, cluster, base, kOffloadLevels[level]);
      FT_ASSIGN(found, EnumeratePlans(model, costs, space, cluster.Devices(), enumerate));
      if (!found.fastest.empty() || level == max) break;
    }
    if (found.fastest.empty()) {
      fit.breaks = found.smallest
                       ? LargestPart(found.smallest->estimate.memory, options.memory_bytes)
                   : found.rejected.list().empty() ? "no split of the devices"
                                                   : found.rejected.list().front().reason;
      return fit;
    }
    fit.sequence = sequence;
    fit.best = std::move(found.fastest.front());
    fit.tokens_per_s =
        static_cast<double>(base.global_batch * sequence) / fit.best->estimate.step_s;
    if (sequence == model.max_sequence) {
      fit.breaks = "the model's " + std::to_string(sequence) + " tokens";
      return fit;
    }
  }
}

}  // namespace foretrain
