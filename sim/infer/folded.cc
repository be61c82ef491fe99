#include "sim/infer/folded.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "sim/program/schedules/schedule.h"

namespace foretrain {
namespace {

constexpr double kMaxDistance = 1;  // forwards: a pair of both passes may start with either
constexpr double kClearlyNearer = 0.5;

// Forward passes of chunks before each backward, in the order of backwards.
using Lead = std::vector<double>;

Lead LeadOf(ScheduleKind schedule, int stages, int micro_batches, int stage) {
  Lead lead;
  double forwards = 0;
  for (const Slot& slot : MakeSlots(schedule, {.p = stages, .m = micro_batches}, stage)) {
    if (slot.pass == Pass::kForward) ++forwards;
    if (slot.pass == Pass::kBackward || slot.pass == Pass::kBackwardInput) {
      lead.push_back(forwards);
    }
  }
  return lead;
}

// As traced, counted by attention, of which each pass of a chunk has equally much. Empty without.
Lead LeadOf(const TracedRankStep& rank, std::size_t passes) {
  std::vector<std::size_t> forwards_before;  // each op of attention's backward
  std::size_t forwards = 0;
  for (const TracedCompute& op : rank.compute) {
    if (op.op_class != OpClass::kAttention) continue;
    if (op.pass == Pass::kForward) ++forwards;
    if (op.pass == Pass::kBackward || op.pass == Pass::kBackwardInput) {
      forwards_before.push_back(forwards);
    }
  }
  if (forwards == 0 || forwards_before.size() < passes) return {};
  Lead lead;
  for (std::size_t pass = 0; pass < passes; ++pass) {
    const std::size_t before = forwards_before[pass * forwards_before.size() / passes];
    lead.push_back(static_cast<double>(before * passes) / static_cast<double>(forwards));
  }
  return lead;
}

// Mean difference of two leads, in forwards.
double Distance(const Lead& a, const Lead& b) {
  const std::size_t count = std::min(a.size(), b.size());
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += std::abs(a[i] - b[i]);
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

}  // namespace

InferredFact FoldedScheduleOf(const TracedStep& step,
                              const std::vector<std::vector<int>>& pipelines,
                              std::int64_t micro_batches) {
  constexpr std::int64_t kMaxPlayed = 1 << 16;
  const auto stages = static_cast<int>(pipelines.front().size());
  // DualPipeV fills both ends first.
  if (micro_batches < 2 * std::int64_t{stages} || micro_batches > kMaxPlayed) {
    return {"", "several schedules run the second chunk back to the first rank"};
  }
  const auto m = static_cast<int>(micro_batches);
  double zb_v = 0, dualpipe_v = 0, ranks = 0;
  for (const TracedRankStep& rank : step.ranks) {
    for (const std::vector<int>& pipeline : pipelines) {
      const auto at = std::find(pipeline.begin(), pipeline.end(), rank.rank);
      if (at == pipeline.end()) continue;
      const auto stage = static_cast<int>(at - pipeline.begin());
      const Lead traced = LeadOf(rank, static_cast<std::size_t>(2 * m));
      if (traced.empty()) continue;
      zb_v += Distance(traced, LeadOf(ScheduleKind::kZbV, stages, m, stage));
      dualpipe_v += Distance(traced, LeadOf(ScheduleKind::kDualPipeV, stages, m, stage));
      ++ranks;
    }
  }
  if (ranks == 0) return {"", "the trace does not tell the forwards before each backward"};
  zb_v /= ranks;
  dualpipe_v /= ranks;
  const std::string what = fmt::format(
      "the second chunk runs back, and the forwards before each backward differ by {:.1f} from "
      "ZB-V's and by {:.1f} from DualPipeV's",
      zb_v, dualpipe_v);
  const double nearest = std::min(zb_v, dualpipe_v), other = std::max(zb_v, dualpipe_v);
  if (nearest > kMaxDistance || nearest > kClearlyNearer * other) return {"", what};
  return {zb_v < dualpipe_v ? "zb-v" : "dualpipe-v", what};
}

}  // namespace foretrain
