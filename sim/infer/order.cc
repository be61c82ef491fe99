#include "sim/infer/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include "base/text.h"
#include "sim/infer/folded.h"

namespace foretrain {
namespace {

constexpr double kShareOfHalves = 0.15;  // of the backward's ops, if it is split into two passes

const TracedRankStep* RankIn(const TracedStep& step, int rank) {
  for (const TracedRankStep& traced : step.ranks) {
    if (traced.rank == rank) return &traced;
  }
  return nullptr;
}

// Forward ops of a rank by name.
std::map<std::string, std::int64_t> ForwardsOf(const TracedRankStep& rank) {
  std::map<std::string, std::int64_t> counts;
  for (const TracedCompute& op : rank.compute) {
    if (op.pass == Pass::kForward && op.name != nullptr) ++counts[*op.name];
  }
  return counts;
}

// Every forward op runs equally often in each micro-batch, and those of the embedding and the loss
// once: the greatest common divisor of their numbers is that of micro-batches.
std::int64_t CommonCount(const TracedStep& step) {
  std::int64_t common = 0;
  for (const TracedRankStep& rank : step.ranks) {
    for (const auto& [name, count] : ForwardsOf(rank)) common = std::gcd(common, count);
  }
  return common;
}

// How often work turns from forward to backward on a rank.
std::int64_t TurnsOf(const TracedRankStep& rank) {
  std::int64_t turns = 0;
  bool forward = false;
  for (const TracedCompute& op : rank.compute) {
    if (IsBackward(op.pass) && forward) ++turns;
    if (op.pass == Pass::kForward || IsBackward(op.pass)) forward = op.pass == Pass::kForward;
  }
  return turns;
}

// Micro-batches that the trace numbers; 0 if it does not.
std::int64_t NumberedMicroBatches(const TracedStep& step) {
  std::set<int> numbers;
  std::int64_t ops = 0, numbered = 0;
  for (const TracedRankStep& rank : step.ranks) {
    for (const TracedCompute& op : rank.compute) {
      ++ops;
      if (op.micro_batch < 0) continue;
      ++numbered;
      numbers.insert(op.micro_batch);
    }
  }
  return 2 * numbered > ops ? std::ssize(numbers) : 0;
}

// Sends of a step from one rank to another; 0 if none is known.
std::int64_t Sends(const TracedStep& step, int from, int to) {
  const auto found = step.transfers.find({from, to});
  return found == step.transfers.end() ? 0 : found->second;
}

// Chunks of layers on each rank and how the model runs through them.
struct Placement {
  std::int64_t micro_batches = 0;  // 0: unknown
  int chunks = 0;                  // 0: unknown
  bool folded = false;             // the second chunk runs back from the last rank to the first
  bool both_ends = false;          // micro-batches enter at both ends
  std::string evidence{};
};

bool AreAlike(const TracedStep& step, int a, int b) {
  const TracedRankStep* const first = RankIn(step, a);
  const TracedRankStep* const second = RankIn(step, b);
  return first != nullptr && second != nullptr && ForwardsOf(*first) == ForwardsOf(*second);
}

// From the sends of the first rank to the second, with m micro-batches: m with one chunk a rank,
// m v with v. Where the second rank is the last too, gradients of the chunks after the first go the
// same way: m (2 v - 1). A folded pipeline sends 2 m, to no further rank.
Placement PlacementOf(const TracedStep& step, const std::vector<int>& pipeline,
                      std::int64_t common) {
  Placement place;
  const int first = pipeline[0], second = pipeline[1], last = pipeline.back();
  const std::int64_t sends = Sends(step, first, second);
  if (sends == 0) {
    place.evidence = "sends do not name their ends";
    return place;
  }
  place.evidence = fmt::format("rank {} sends {} times to rank {}", first, sends, second);
  if (common == 0 || sends % common != 0) {
    place.evidence += ", which is no multiple of its passes";
    return place;
  }
  const std::int64_t ratio = sends / common;
  const bool wraps = pipeline.size() > 2 && Sends(step, last, first) > 0;
  place.micro_batches = common;
  if (ratio == 1) {
    place.chunks = 1;
  } else if (ratio == 2 && !wraps) {
    place.chunks = 2;
    place.folded = true;
    place.both_ends = AreAlike(step, first, last);
    if (place.both_ends) place.micro_batches = 2 * common;
  } else if (pipeline.size() == 2 && ratio % 2 == 1) {
    place.chunks = static_cast<int>((ratio + 1) / 2);
  } else if (wraps) {
    place.chunks = static_cast<int>(ratio);
  } else {
    place.micro_batches = 0;
  }
  return place;
}

// Whether input gradients and weight gradients are separate passes.
bool SplitsBackward(const TracedStep& step) {
  std::int64_t all = 0, input = 0, weight = 0;
  for (const TracedRankStep& rank : step.ranks) {
    for (const TracedCompute& op : rank.compute) {
      all += IsBackward(op.pass) ? 1 : 0;
      input += op.pass == Pass::kBackwardInput ? 1 : 0;
      weight += op.pass == Pass::kBackwardWeight ? 1 : 0;
    }
  }
  const double least = kShareOfHalves * static_cast<double>(all);
  return all > 0 && static_cast<double>(input) >= least && static_cast<double>(weight) >= least;
}

// Forward passes of chunks before the rank's first backward, counted by its heaviest class of ops,
// which each chunk has equally often. `nullopt`: it is no whole number.
std::optional<std::int64_t> WarmUpOf(const TracedRankStep& rank, std::int64_t passes) {
  for (const OpClass heavy : {OpClass::kAttention, OpClass::kGemm}) {
    std::int64_t all = 0, before = 0;
    bool backward = false;
    for (const TracedCompute& op : rank.compute) {
      backward = backward || IsBackward(op.pass);
      if (op.pass != Pass::kForward || op.op_class != heavy) continue;
      ++all;
      before += backward ? 0 : 1;
    }
    if (all == 0) continue;
    if (before * passes % all != 0) return std::nullopt;
    return before * passes / all;
  }
  return std::nullopt;
}

// Forward passes before the first backward of each schedule; sim/program/schedules has the sources.
struct WarmUp {
  std::string_view schedule;
  bool split;
  bool chunked;
  std::int64_t (*passes)(std::int64_t m, std::int64_t v, std::int64_t p, std::int64_t stage);
};
constexpr WarmUp kWarmUps[] = {
    {"gpipe", false, false,
     [](std::int64_t m, std::int64_t, std::int64_t, std::int64_t) { return m; }},
    {"1f1b", false, false,
     [](std::int64_t m, std::int64_t, std::int64_t p, std::int64_t stage) {
       return std::min(m, p - stage);
     }},
    {"interleaved", false, true,
     [](std::int64_t m, std::int64_t v, std::int64_t p, std::int64_t stage) {
       const std::int64_t group = m / std::max<std::int64_t>(1, m / p);
       return std::min(m * v, 2 * (p - 1 - stage) + (v - 1) * group + 1);
     }},
    {"zb-h1", true, false,
     [](std::int64_t m, std::int64_t, std::int64_t p, std::int64_t stage) {
       return std::min(m, p - stage);
     }},
    {"zb-h2", true, false,
     [](std::int64_t m, std::int64_t, std::int64_t p, std::int64_t stage) {
       return std::min(m, 2 * (p - stage) - 1);
     }},
};

InferredFact ScheduleOf(const TracedStep& step, const std::vector<std::vector<int>>& pipelines,
                        const Placement& place) {
  const bool split = SplitsBackward(step);
  if (place.both_ends && split) {
    return {"dualpipe", "first and last rank do the same, and backwards are split"};
  }
  if (place.folded) return FoldedScheduleOf(step, pipelines, place.micro_batches);
  std::set<std::string_view> fitting;
  for (const WarmUp& known : kWarmUps) {
    if (known.split == split && known.chunked == (place.chunks > 1)) fitting.insert(known.schedule);
  }
  int traced = 0;
  std::string seen;
  for (const std::vector<int>& pipeline : pipelines) {
    for (std::size_t stage = 0; stage < pipeline.size(); ++stage) {
      const TracedRankStep* const rank = RankIn(step, pipeline[stage]);
      if (rank == nullptr) continue;
      const auto warm_up = WarmUpOf(*rank, place.micro_batches * place.chunks);
      if (!warm_up)
        return {"", fmt::format("rank {} begins backwards within a forward", rank->rank)};
      if (&pipeline == &pipelines.front())
        seen += fmt::format("{}{}", traced++ ? ", " : "", *warm_up);
      for (const WarmUp& known : kWarmUps) {
        const std::int64_t expected =
            known.passes(place.micro_batches, place.chunks, std::ssize(pipeline),
                         static_cast<std::int64_t>(stage));
        if (expected != *warm_up) fitting.erase(known.schedule);
      }
    }
  }
  const std::string what = fmt::format("{} forwards before the first backward, by stage{}", seen,
                                       split ? "; backwards are split" : "");
  if (traced == 0) return {"", "no rank of a pipeline was traced"};
  if (fitting.size() == 1) return {std::string(*fitting.begin()), what};
  return {"", fitting.empty() ? "no known schedule has " + what : "several schedules have " + what};
}

// Whether the kernel's name says that it is a forward's: "flash_fwd_kernel".
bool IsNamedForward(const TracedCompute& op) {
  if (op.name == nullptr) return false;
  const std::string name = ToLower(*op.name);
  return name.find("fwd") != name.npos || name.find("forward") != name.npos;
}

// For one stage: the number of turns from forward to backward must be that of common calls.
InferredFact MicroBatchesOfOneStage(const TracedStep& step, std::int64_t common) {
  std::set<std::int64_t> turns;
  for (const TracedRankStep& rank : step.ranks) turns.insert(TurnsOf(rank));
  if (turns.size() == 1 && *turns.begin() == common && common > 0) {
    return {std::to_string(common),
            fmt::format("work turns from forward to backward {} times a step", common)};
  }
  return {"", fmt::format("calls of forward kernels have the common divisor {}, but work turns to "
                          "backward {} times",
                          common, turns.empty() ? 0 : *turns.rbegin())};
}

}  // namespace

InferredOrder OrderOf(const TracedStep& step, const InferredDegrees& degrees) {
  InferredOrder order;
  const std::int64_t numbered = NumberedMicroBatches(step);
  if (numbered > 0) {
    order.micro_batches = {std::to_string(numbered), "ranges number the micro-batches"};
  }
  if (!degrees.pp.value) {
    order.schedule = order.vpp = {"", "the number of stages is not told"};
  } else if (*degrees.pp.value == 1) {
    order.schedule = order.vpp = {"", "one stage has no schedule"};
  }
  if (!step.has_passes) {
    const std::string why = "the trace does not tell forward from backward work";
    if (numbered == 0) order.micro_batches = {"", why};
    if (order.schedule.evidence.empty()) order.schedule = order.vpp = {"", why};
    return order;
  }
  const std::int64_t common = CommonCount(step);
  if (degrees.pp.value == 1 && numbered == 0) {
    order.micro_batches = MicroBatchesOfOneStage(step, common);
  }
  if (!degrees.pp.value) {
    if (numbered == 0) order.micro_batches = {"", "the number of stages is not told"};
    return order;
  }
  if (*degrees.pp.value == 1) return order;
  if (degrees.pipelines.empty()) {
    const std::string why = "no group lists the ranks of a pipeline";
    if (numbered == 0) order.micro_batches = {"", why};
    order.schedule = order.vpp = {"", why};
    return order;
  }
  const Placement place = PlacementOf(step, degrees.pipelines.front(), common);
  if (place.micro_batches == 0) {
    if (numbered == 0) order.micro_batches = {"", place.evidence};
    order.schedule = order.vpp = {"", place.evidence};
    return order;
  }
  order.micro_batches = {std::to_string(place.micro_batches), place.evidence};
  order.vpp = place.folded ? InferredFact{"", "the second chunk runs back to the first rank"}
                           : InferredFact{std::to_string(place.chunks), place.evidence};
  order.schedule = ScheduleOf(step, degrees.pipelines, place);
  return order;
}

// Full recomputation repeats the layers' products, selective recomputation what lies between them.
// Where a trace marks none, kernels that are a forward's by name show it within a backward. A
// backward has two products for each of the forward, and three with full recomputation.
InferredFact RecomputationOf(const TracedStep& step) {
  if (!step.has_passes) return {"", "the trace does not tell forward from backward work"};
  std::int64_t products = 0, back_products = 0, again = 0, marked = 0, named = 0, named_back = 0;
  for (const TracedRankStep& rank : step.ranks) {
    for (const TracedCompute& op : rank.compute) {
      const std::int64_t product = op.op_class == OpClass::kGemm ? 1 : 0;
      const std::int64_t forward = IsNamedForward(op) ? 1 : 0;
      if (op.pass == Pass::kForward) products += product, named += forward;
      if (IsBackward(op.pass)) back_products += product, named_back += forward;
      if (op.pass == Pass::kRecompute) ++marked, again += product;
    }
  }
  if (marked == 0 && named == 0) {
    return {"", "no work is marked as recomputation, and no kernel's name tells a forward"};
  }
  if (marked == 0 && named_back == 0) return {"none", "no forward kernel runs in a backward"};
  if (marked == 0) again = back_products - 2 * products;
  const double share =
      products > 0 ? static_cast<double>(again) / static_cast<double>(products) : 0;
  const std::string what =
      fmt::format("{} ops of forwards run again, with {:.0f} % of the forward's products",
                  marked > 0 ? marked : named_back, 100 * std::max(0.0, share));
  constexpr double kFull = 0.6, kSelective = 0.05;
  if (share >= kFull) return {"full", what};
  if (share <= kSelective) return {"selective", what};
  return {"", what + ": some layers, or some modules"};
}

}  // namespace foretrain
