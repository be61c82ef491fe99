#include "traces/metrics/bubble_causes.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <tuple>
#include <vector>

#include "base/units.h"
#include "traces/metrics/classes.h"

namespace foretrain {
namespace {

constexpr std::array<double BubbleCauses::*, 7> kParts{
    &BubbleCauses::warm_up_s,   &BubbleCauses::steady_s,    &BubbleCauses::cool_down_s,
    &BubbleCauses::imbalance_s, &BubbleCauses::transfers_s, &BubbleCauses::variation_s,
    &BubbleCauses::rest_s};

bool IsBackward(Pass pass) { return pass == Pass::kBackward || pass == Pass::kBackwardInput; }

// The same spans count as work as in bubble.cc: passes with the collectives inside their blocks.
bool IsWork(const Span& span, const InstructionKey& key) {
  const bool in_block = IsCompute(span.op_class) || span.op_class == OpClass::kTpComm ||
                        span.op_class == OpClass::kCpComm || span.op_class == OpClass::kEpComm;
  return key.kind == InstructionKind::kBlock && in_block && key.pass != Pass::kNone &&
         key.pass != Pass::kUpdate;
}

// One pass of one block for one micro-batch on one stage.
struct Play {
  std::int64_t start_ns = 0;
  double length_ns = 0;  // exclusive time: overlapping spans count once
  std::size_t stage = 0;
  InstructionKey key{};
  std::ptrdiff_t before = -1;  // index of the pass on another stage that it depends on; -1: none
  double transfer_ns = 0;      // transfer time of that dependency
};

// A block's output: {backward, block, micro-batch}.
using Output = std::tuple<bool, int, int>;

// A transfer between two stages. It moves bytes from the later start of its two sides on.
struct Transfer {
  std::int64_t later_start_ns = 0;
  std::int64_t end_ns = 0;
  double LengthNs() const {
    return static_cast<double>(std::max<std::int64_t>(0, end_ns - later_start_ns));
  }
};

// The passes of one pipeline and step as a dependency graph: each pass follows the one before it on
// its stage, and the pass of the neighbouring block on another stage. Replay computes the period
// for any lengths in O(n).
class Plays {
 public:
  Plays(const Timeline& timeline, const std::vector<int>& ranks, std::int32_t step)
      : stages_(ranks.size()) {
    for (std::size_t stage = 0; stage < ranks.size(); ++stage) {
      AddStage(SpansOfRank(timeline, ranks[stage]), step, stage);
    }
    std::stable_sort(plays_.begin(), plays_.end(),
                     [](const Play& a, const Play& b) { return a.start_ns < b.start_ns; });
    Connect();
  }

  // True if every stage has spans.
  bool AllWork() const {
    std::vector<bool> works(stages_, false);
    for (const Play& play : plays_) works[play.stage] = true;
    return std::find(works.begin(), works.end(), false) == works.end();
  }

  // Mean over the stages, since the bubble is a mean over them too.
  double WorkNs() const {
    double work = 0;
    for (const Play& play : plays_) work += play.length_ns;
    return work / static_cast<double>(stages_);
  }

  std::vector<double> Lengths() const {
    std::vector<double> lengths;
    for (const Play& play : plays_) lengths.push_back(play.length_ns);
    return lengths;
  }

  // For each pass, the mean length of its block and pass over the micro-batches.
  std::vector<double> MeanLengths() const {
    std::map<std::tuple<std::size_t, Pass, int>, std::pair<double, int>> sums;
    const auto of = [](const Play& play) {
      return std::tuple(play.stage, play.key.pass, play.key.block);
    };
    for (const Play& play : plays_) {
      auto& [sum, count] = sums[of(play)];
      sum += play.length_ns;
      ++count;
    }
    std::vector<double> lengths;
    for (const Play& play : plays_) {
      const auto& [sum, count] = sums[of(play)];
      lengths.push_back(sum / count);
    }
    return lengths;
  }

  // Scales `lengths` so that, in each kind of pass, all stages that have it compute equally long.
  std::vector<double> EvenLengths(std::vector<double> lengths) const {
    std::array<std::vector<double>, kPassCount> work;
    for (auto& of : work) of.resize(stages_, 0.0);
    for (std::size_t i = 0; i < plays_.size(); ++i) {
      work[PassOf(plays_[i])][plays_[i].stage] += lengths[i];
    }
    for (std::size_t i = 0; i < plays_.size(); ++i) {
      const std::vector<double>& of = work[PassOf(plays_[i])];
      double sum = 0;
      int stages = 0;
      for (const double stage : of) sum += stage, stages += stage > 0 ? 1 : 0;
      const double own = of[plays_[i].stage];
      if (own > 0) lengths[i] *= sum / stages / own;
    }
    return lengths;
  }

  struct Played {
    double period_ns = 0;
    double warm_up_ns = 0;  // these three: means over stages
    double steady_ns = 0;
    double cool_down_ns = 0;
  };

  // Plays the passes in the order of their recorded starts. That order is topological: a pass
  // starts after everything it waits for. Idle time before a stage's first pass is warm-up, after
  // its last cool-down.
  Played Replay(const std::vector<double>& lengths, bool transfers) const {
    std::vector<double> end(plays_.size(), 0.0), free_at(stages_, 0.0);
    std::vector<bool> began(stages_, false);
    Played played;
    for (std::size_t i = 0; i < plays_.size(); ++i) {
      const Play& play = plays_[i];
      double start = free_at[play.stage];
      if (play.before >= 0) {
        start = std::max(start, end[static_cast<std::size_t>(play.before)] +
                                    (transfers ? play.transfer_ns : 0.0));
      }
      (began[play.stage] ? played.steady_ns : played.warm_up_ns) += start - free_at[play.stage];
      began[play.stage] = true;
      end[i] = free_at[play.stage] = start + lengths[i];
      played.period_ns = std::max(played.period_ns, end[i]);
    }
    for (const double free_ns : free_at) played.cool_down_ns += played.period_ns - free_ns;
    for (double* ns : {&played.warm_up_ns, &played.steady_ns, &played.cool_down_ns}) {
      *ns /= static_cast<double>(stages_);
    }
    return played;
  }

 private:
  static std::size_t PassOf(const Play& play) { return static_cast<std::size_t>(play.key.pass); }

  void AddStage(std::span<const Span> spans, std::int32_t step, std::size_t stage) {
    std::vector<const Span*> work;
    for (const Span& span : spans) {
      if (span.step != step || !IsValidId(span.op)) continue;
      const InstructionKey key = UnpackId(span.op);
      if (IsWork(span, key)) work.push_back(&span);
      AddTransfer(span, key);
    }
    std::stable_sort(work.begin(), work.end(),
                     [](const Span* a, const Span* b) { return a->start_ns < b->start_ns; });
    // Overlapping spans: the shared time belongs to the span that started first.
    std::map<std::tuple<Pass, int, int>, std::size_t> known;
    std::int64_t until_ns = work.empty() ? 0 : work.front()->start_ns;
    for (const Span* span : work) {
      const InstructionKey key = UnpackId(span->op);
      const auto [at, is_new] =
          known.try_emplace({key.pass, key.block, key.micro_batch}, plays_.size());
      if (is_new) plays_.push_back({.start_ns = span->start_ns, .stage = stage, .key = key});
      const std::int64_t from = std::max(until_ns, span->start_ns);
      plays_[at->second].length_ns +=
          static_cast<double>(std::max<std::int64_t>(0, span->end_ns - from));
      until_ns = std::max(until_ns, span->end_ns);
    }
  }

  // Both sides record a span: the transfer begins when both have started, and ends with the later
  // one.
  void AddTransfer(const Span& span, const InstructionKey& key) {
    const bool transfer = key.kind == InstructionKind::kSend || key.kind == InstructionKind::kRecv;
    if (!transfer || span.op_class != OpClass::kPpComm) return;
    const auto [at, is_new] =
        transfers_.try_emplace({key.pass != Pass::kForward, key.block, key.micro_batch},
                               Transfer{span.start_ns, span.end_ns});
    if (is_new) return;
    at->second.later_start_ns = std::max(at->second.later_start_ns, span.start_ns);
    at->second.end_ns = std::max(at->second.end_ns, span.end_ns);
  }

  // Links each pass to the pass on another stage whose output it takes: a forward to the block
  // before it, a backward to the block after it.
  void Connect() {
    std::map<Output, std::size_t> makers;
    for (std::size_t i = 0; i < plays_.size(); ++i) {
      Play& play = plays_[i];
      const InstructionKey& key = play.key;
      const bool backward = IsBackward(key.pass);
      if (!backward && key.pass != Pass::kForward) continue;
      const int from = backward ? key.block + 1 : key.block - 1;
      const auto maker = makers.find({backward, from, key.micro_batch});
      if (maker != makers.end() && plays_[maker->second].stage != play.stage) {
        play.before = static_cast<std::ptrdiff_t>(maker->second);
        play.transfer_ns = TransferNs(backward, from, key.block, key.micro_batch);
      }
      makers[{backward, key.block, key.micro_batch}] = i;
    }
  }

  // A transfer is recorded under the block that sends or the block that receives: both are tried.
  double TransferNs(bool backward, int from, int to, int micro_batch) const {
    for (const int block : {from, to}) {
      const auto at = transfers_.find({backward, block, micro_batch});
      if (at != transfers_.end()) return at->second.LengthNs();
    }
    return 0.0;
  }

  std::size_t stages_;
  std::vector<Play> plays_;
  std::map<Output, Transfer> transfers_;
};

constexpr std::size_t kCauses = 5;  // the schedule's three parts count as one

// Differences between consecutive periods are the parts. Clamping makes them non-negative and keeps
// their sum (see bubble_causes.h).
BubbleCauses PartsOf(const Plays::Played& schedule, std::array<double, kCauses> explained_ns) {
  // A later cause may reduce the bubble: earlier causes then explain no more than it does.
  explained_ns.back() = std::max(0.0, explained_ns.back());
  for (std::size_t i = kCauses - 1; i > 0; --i) {
    explained_ns[i - 1] = std::clamp(explained_ns[i - 1], 0.0, explained_ns[i]);
  }
  const auto part_s = [&explained_ns](std::size_t i) {
    return (explained_ns[i] - explained_ns[i - 1]) / kNsPerSecond;
  };
  BubbleCauses causes;
  const double evenly_ns = schedule.warm_up_ns + schedule.steady_ns + schedule.cool_down_ns;
  const double share = evenly_ns > 0 ? explained_ns[0] / evenly_ns : 0.0;
  causes.warm_up_s = share * schedule.warm_up_ns / kNsPerSecond;
  causes.steady_s = share * schedule.steady_ns / kNsPerSecond;
  causes.cool_down_s = share * schedule.cool_down_ns / kNsPerSecond;
  causes.imbalance_s = part_s(1);
  causes.transfers_s = part_s(2);
  causes.variation_s = part_s(3);
  causes.rest_s = part_s(4);
  return causes;
}

}  // namespace

// Each replay adds one cause: even stages, uneven stages, transfers, and the variation of micro-
// batches. The last entry is the recorded period.
std::optional<BubbleCauses> CausesOfBubble(const Timeline& timeline, const Pipeline& ranks,
                                           const PipelineBubble& bubble) {
  std::vector<int> working;
  for (const int rank : ranks) {
    if (std::find(bubble.ranks.begin(), bubble.ranks.end(), rank) != bubble.ranks.end()) {
      working.push_back(rank);
    }
  }
  if (working.size() < 2) return std::nullopt;
  const Plays plays(timeline, working, bubble.step);
  if (!plays.AllWork()) return std::nullopt;
  const std::vector<double> mean = plays.MeanLengths();
  const Plays::Played schedule = plays.Replay(plays.EvenLengths(mean), /*transfers=*/false);
  // The bubble that each cause explains together with the causes before it.
  const double work_ns = plays.WorkNs();
  std::array<double, kCauses> explained_ns{
      schedule.period_ns - work_ns, plays.Replay(mean, /*transfers=*/false).period_ns - work_ns,
      plays.Replay(mean, /*transfers=*/true).period_ns - work_ns,
      plays.Replay(plays.Lengths(), /*transfers=*/true).period_ns - work_ns,
      static_cast<double>(bubble.end_ns - bubble.start_ns) - work_ns};
  return PartsOf(schedule, explained_ns);
}

std::optional<BubbleCauses> CausesOfBubbles(const Timeline& timeline,
                                            std::span<const Pipeline> pipelines,
                                            std::span<const PipelineBubble> bubbles,
                                            std::int32_t step) {
  BubbleCauses mean;
  int count = 0;
  for (const PipelineBubble& bubble : bubbles) {
    if (bubble.step != step) continue;
    const Pipeline& ranks = pipelines[static_cast<std::size_t>(bubble.pipeline)];
    const auto causes = CausesOfBubble(timeline, ranks, bubble);
    if (!causes.has_value()) continue;
    for (const auto part : kParts) mean.*part += (*causes).*part;
    ++count;
  }
  if (count == 0) return std::nullopt;
  for (const auto part : kParts) mean.*part /= count;
  return mean;
}

}  // namespace foretrain
