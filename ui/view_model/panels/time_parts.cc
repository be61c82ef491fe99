#include "ui/view_model/panels/time_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/units.h"

namespace foretrain::ui {
namespace {

struct PartText {
  std::string_view name;
  std::string_view explained;
};

constexpr std::array<PartText, kTimePartCount> kTexts{{
    {"GEMM", "matrix products"},
    {"attention", "attention not overlapped with a GEMM"},
    {"memory-bound", "norms, activations, updates: limited by memory"},
    {"tp exposed", "tensor-parallel collectives not overlapped with compute"},
    {"cp exposed", "context-parallel exchange not overlapped with compute"},
    {"ep exposed", "expert exchange not overlapped with compute"},
    {"dp exposed", "gradient and parameter collectives not overlapped with compute"},
    {"pp exposed", "sends and receives between stages not overlapped with compute"},
    {"copy exposed", "copies to and from host or disk not overlapped with other work"},
    {"dependency wait", "nothing runs: the inputs of the next op are not there (bubble)"},
    {"peer wait", "nothing runs: this rank has come to an exchange, its peers have not"},
    {"host", "nothing runs: the host issues the next op late, or launches it"},
    {"drain", "nothing follows on this rank in the timeline"},
    {"uneven ranks", "the slowest rank's step beyond the mean of all"},
}};

constexpr std::array<std::string_view, kGapClassCount> kGapTexts{
    "GEMM", "attention", "memory-bound", "tp, cp, ep comm", "dp comm", "pp comm", "copy", "host"};
constexpr std::array<std::string_view, kGapClassCount> kGapExplained{
    "measured GEMM times played in the program",
    "measured attention times played in the program",
    "measured times of memory-bound ops played in the program",
    "measured wire times of tp, cp and ep exchange",
    "measured wire times of gradient and parameter collectives",
    "measured wire times of transfers between stages",
    "measured copies to and from host or disk",
    "measured launches by the host"};

std::string_view Explain(MachineCause cause) {
  switch (cause) {
    case MachineCause::kThrottled:
      return "compute that took longer because the GPU ran below its clocks";
    case MachineCause::kCoreWait:
      return "compute that took longer because threads waited for a core";
    case MachineCause::kSlowRank:
      break;
  }
  return "compute that took longer on this rank than on the typical one";
}

using StepsByRank = std::map<int, const RankStep*>;

// Rank steps are sorted by step, so those of the chosen one are consecutive.
StepsByRank RankStepsOf(const SideModel& side) {
  StepsByRank steps;
  if (!side.IsPresent()) return steps;
  const std::vector<RankStep>& all = side.metrics->rank_steps;
  auto at = std::partition_point(all.begin(), all.end(),
                                 [&](const RankStep& of) { return of.step < side.step; });
  for (; at != all.end() && at->step == side.step; ++at) steps[at->rank] = &*at;
  return steps;
}

// The first parts are op classes in the same order, which the static_assert below guarantees.
void Add(const RankStep& rank, StepParts& parts) {
  for (std::size_t c = 0; c <= static_cast<std::size_t>(OpClass::kCopy); ++c) {
    parts.rank_ns[c] += rank.exclusive_ns[c];
  }
  const auto add = [&parts](TimePart part, std::int64_t ns) {
    parts.rank_ns[static_cast<std::size_t>(part)] += ns;
  };
  add(TimePart::kInputWait, rank.idle.dependency_ns);
  add(TimePart::kPeerWait, rank.idle.peer_ns);
  add(TimePart::kHostWait, rank.idle.host_ns);
  add(TimePart::kDrain, rank.idle.drain_ns);
  parts.step_ns = std::max(parts.step_ns, rank.end_ns - rank.start_ns);
  ++parts.ranks;
}

// The parts of faster ranks are filled up to the slowest one, so that the parts sum to ranks *
// step_ns.
void AddUneven(StepParts& parts) {
  std::int64_t sum = 0;
  for (const std::int64_t ns : parts.rank_ns) sum += ns;
  parts.rank_ns[static_cast<std::size_t>(TimePart::kUneven)] = parts.ranks * parts.step_ns - sum;
}

double MeanSeconds(std::int64_t rank_ns, std::int64_t ranks) {
  // Exact if `rank_ns` is a multiple of `ranks`, as it is for the step itself.
  return static_cast<double>(rank_ns) / static_cast<double>(ranks) / kNsPerSecond;
}

}  // namespace

static_assert(static_cast<int>(TimePart::kCopy) == static_cast<int>(OpClass::kCopy),
              "parts start with the classes of what runs on a device, in their order");

std::string_view Name(TimePart part) { return kTexts[static_cast<std::size_t>(part)].name; }

std::string_view Explain(TimePart part) { return kTexts[static_cast<std::size_t>(part)].explained; }

double StepParts::Seconds(TimePart part) const {
  return ranks == 0 ? 0.0 : MeanSeconds(Of(part), ranks);
}

// A rank counts only if all present runs know its step; otherwise the two sums would cover
// different ranks.
std::array<std::optional<StepParts>, 2> PartsOf(const SidePair& sides,
                                                const std::vector<int>& ranks) {
  std::array<StepsByRank, 2> known;
  for (const Side side : kSides) known[Index(side)] = RankStepsOf(sides.Of(side));
  std::array<StepParts, 2> sums;
  for (const int rank : ranks) {
    std::array<const RankStep*, 2> of{};
    bool complete = true;
    for (const Side side : kSides) {
      if (!sides.Of(side).IsPresent()) continue;
      const auto at = known[Index(side)].find(sides.RankOn(side, rank));
      complete = complete && at != known[Index(side)].end();
      if (complete) of[Index(side)] = at->second;
    }
    if (!complete) continue;
    for (const Side side : kSides) {
      if (of[Index(side)] != nullptr) Add(*of[Index(side)], sums[Index(side)]);
    }
  }
  std::array<std::optional<StepParts>, 2> parts;
  for (const Side side : kSides) {
    StepParts& sum = sums[Index(side)];
    if (sum.ranks == 0) continue;
    AddUneven(sum);
    parts[Index(side)] = sum;
  }
  return parts;
}

Waterfall WaterfallOf(const StepParts& predicted, const StepParts& measured) {
  const std::int64_t ranks = predicted.ranks;
  Waterfall fall{SecondsFromNs(predicted.step_ns), SecondsFromNs(measured.step_ns), {}};
  // Sums are whole nanoseconds over all ranks, so rounding errors do not add up.
  std::int64_t at = predicted.step_ns * ranks;
  for (int p = 0; p < kTimePartCount; ++p) {
    const auto part = static_cast<TimePart>(p);
    if (predicted.Of(part) == 0 && measured.Of(part) == 0) continue;
    const std::int64_t next = at + measured.Of(part) - predicted.Of(part);
    fall.bars.push_back({std::string(Name(part)), std::string(Explain(part)),
                         MeanSeconds(at, ranks), MeanSeconds(next, ranks), 0.0});
    at = next;
  }
  return fall;
}

// The last bar is whatever the causes leave, so that the bars always end at the measured time.
Waterfall WaterfallOf(const Attribution& attribution) {
  Waterfall fall{attribution.predicted_s, attribution.measured_s, {}};
  double at = attribution.predicted_s;
  for (const MachineShare& share : attribution.machine) {
    fall.bars.push_back(
        {Describe(share), std::string(Explain(share.cause)), at, at + share.seconds, 0.0});
    at += share.seconds;
  }
  for (const GapShare& share : attribution.shares) {
    const auto c = static_cast<std::size_t>(share.gap_class);
    fall.bars.push_back({std::string(kGapTexts[c]), std::string(kGapExplained[c]), at,
                         at + share.seconds, share.standard_error});
    at += share.seconds;
  }
  fall.bars.push_back({"unexplained",
                       "what is left with all measured work in the program: its order, waits and "
                       "interference",
                       at, attribution.measured_s, 0.0});
  return fall;
}

}  // namespace foretrain::ui
