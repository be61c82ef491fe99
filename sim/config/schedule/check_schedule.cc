// Longer than 400 lines, because all stages of the check share one table of passes.
#include "sim/config/schedule/check_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "base/enum_names.h"
#include "sim/config/schedule/placement.h"

namespace foretrain {
namespace {

constexpr std::array<std::string_view, 5> kFaults = {"stages", "missing", "doubled", "order",
                                                     "deadlock"};
constexpr int kNone = -1;

std::size_t At(int index) { return static_cast<std::size_t>(index); }

double LengthOf(Pass pass) { return pass == Pass::kBackward ? 2 : 1; }

class Checker {
 public:
  explicit Checker(const ScheduleDraft& draft) : draft_(draft) {}

  ScheduleReport Take() {
    FindPlacement();
    if (report_.Works()) FindPasses();
    if (report_.Works()) {
      CountLive();
      CheckOrder();
    }
    if (report_.Works()) Play();
    return std::move(report_);
  }

 private:
  int Ranks() const { return static_cast<int>(draft_.ranks.size()); }
  const ScheduleAction& ActionAt(const ActionPlace& place) const {
    return draft_.ranks[At(place.rank)][At(place.action)];
  }
  // "rank 1, cell 5 (0B2)"
  std::string Where(const ActionPlace& place) const {
    const ScheduleAction& action = ActionAt(place);
    return fmt::format("rank {}, cell {} ({})", place.rank,
                       action.cell > 0 ? action.cell : place.action + 1, NameOf(action));
  }
  void Find(ScheduleFault fault, std::vector<ActionPlace> places, std::string text) {
    ++report_.finding_count;
    if (report_.findings.size() == kMaxScheduleFindings) return;
    report_.findings.push_back({fault, std::move(places), std::move(text)});
  }

  // ---- stages

  // The shape whose ranks hold exactly the stages that the draft's do. At most one has the same
  // sets, but for one rank, where rounds and V mean the same.
  void FindPlacement() {
    std::vector<std::vector<int>> stages;
    for (const auto& rank : draft_.ranks) {
      std::vector<int>& here = stages.emplace_back();
      for (const ScheduleAction& action : rank) {
        here.push_back(action.stage);
        report_.micro_batches = std::max(report_.micro_batches, action.micro_batch + 1);
      }
      std::sort(here.begin(), here.end());
      here.erase(std::unique(here.begin(), here.end()), here.end());
    }
    if (stages.empty() || report_.micro_batches == 0) {
      return Find(ScheduleFault::kStages, {}, "the schedule has no action");
    }
    for (int r = 0; r < Ranks(); ++r) {
      if (!stages[At(r)].empty() && stages[At(r)].size() == stages[0].size()) continue;
      return Find(ScheduleFault::kStages, {},
                  fmt::format("rank 0 runs {} stages and rank {} runs {}; all ranks must run "
                              "equally many",
                              stages[0].size(), r, stages[At(r)].size()));
    }
    const auto chunks = static_cast<int>(stages[0].size());
    std::vector<StageShape> shapes = {chunks == 1 ? StageShape::kLine : StageShape::kRounds};
    if (chunks == 2) shapes.push_back(StageShape::kV);
    if (chunks == 2 && Ranks() % 2 == 0) shapes.push_back(StageShape::kBothWays);
    for (const StageShape shape : shapes) {
      const Placement placement(shape, Ranks(), chunks);
      if (StrangerIn(placement, stages)) continue;
      report_.shape = shape;
      report_.stages = placement.stages();
      report_.chunks = chunks;
      break;
    }
    if (report_.stages == 0) return RefuseStages(stages, shapes.front(), chunks);
    if (report_.shape == StageShape::kBothWays && report_.micro_batches % 2 != 0) {
      Find(ScheduleFault::kStages, {},
           fmt::format("{} micro-batches on ranks that hold stages r and p - 1 - r; half of them "
                       "go either way, so their number must be even",
                       report_.micro_batches));
    }
  }

  // The first rank whose stages are not those of the placement; `nullopt` if there is none.
  std::optional<int> StrangerIn(const Placement& placement,
                                const std::vector<std::vector<int>>& stages) const {
    std::vector<int> here;
    for (int r = 0; r < Ranks(); ++r) {
      here.clear();
      for (int c = 0; c < placement.chunks(); ++c) here.push_back(placement.StageOf(r, c));
      std::sort(here.begin(), here.end());
      if (here != stages[At(r)]) return r;
    }
    return std::nullopt;
  }

  void RefuseStages(const std::vector<std::vector<int>>& stages, StageShape nearest, int chunks) {
    const int r = *StrangerIn(Placement(nearest, Ranks(), chunks), stages);
    std::vector<int> few = stages[At(r)];
    if (few.size() > 8) few.resize(8);
    Find(ScheduleFault::kStages, {},
         fmt::format("rank {} of {} runs stages {}{}; rank r of p may run r; r, r + p, r + 2p...; "
                     "r and 2p - 1 - r; or, with even p, r and p - 1 - r",
                     r, Ranks(), fmt::join(few, ", "), few.size() < At(chunks) ? "..." : ""));
  }

  // ---- passes

  // Which pass of which (stage, micro-batch) lies where. A step has at least two passes of each, so
  // the table is never larger than the draft.
  void FindPasses() {
    const int stages = report_.stages, m = report_.micro_batches;
    const std::size_t cells = At(stages) * At(m);
    if (cells > draft_.ActionCount()) {
      return Find(ScheduleFault::kMissing, {},
                  fmt::format("{} stages and micro-batches up to {} need at least {} passes; the "
                              "schedule has {}",
                              stages, m - 1, 2 * cells, draft_.ActionCount()));
    }
    for (auto& table : where_) table.assign(cells, {kNone, kNone});
    const Placement placement(report_.shape, Ranks(), report_.chunks);
    for (int r = 0; r < Ranks(); ++r) {
      for (int i = 0; i < static_cast<int>(draft_.ranks[At(r)].size()); ++i) {
        AddPass(placement, {r, i});
      }
    }
    for (int stage = 0; stage < stages; ++stage) {
      for (int k = 0; k < m; ++k) CheckWhole(stage, k);
    }
  }

  ActionPlace& PlaceOf(Pass pass, int stage, int micro_batch) {
    return where_[static_cast<std::size_t>(pass)]
                 [At(stage) * At(report_.micro_batches) + At(micro_batch)];
  }
  bool Has(Pass pass, int stage, int micro_batch) {
    return PlaceOf(pass, stage, micro_batch).rank != kNone;
  }

  void AddPass(const Placement& placement, const ActionPlace& place) {
    const ScheduleAction& action = ActionAt(place);
    const int direction =
        placement.directions() == 2 && action.micro_batch >= report_.micro_batches / 2 ? 1 : 0;
    const int home = placement.PlaceOf(action.stage, direction).rank;
    if (home != place.rank) {
      return Find(ScheduleFault::kStages, {place},
                  fmt::format("{}: micro-batch {} of {} goes {}, so rank {} runs it on stage {}",
                              Where(place), action.micro_batch, report_.micro_batches,
                              direction == 0 ? "down" : "up", home, action.stage));
    }
    ActionPlace& known = PlaceOf(action.pass, action.stage, action.micro_batch);
    if (known.rank != kNone) {
      return Find(ScheduleFault::kDoubled, {known, place},
                  fmt::format("{} is there twice, first in {}", Where(place), Where(known)));
    }
    known = place;
  }

  void CheckWhole(int stage, int k) {
    const bool both = Has(Pass::kBackward, stage, k), input = Has(Pass::kBackwardInput, stage, k),
               weight = Has(Pass::kBackwardWeight, stage, k);
    const auto miss = [&](std::string_view what, const std::string& names) {
      Find(ScheduleFault::kMissing, {},
           fmt::format("stage {} has no {} of micro-batch {} ({})", stage, what, k, names));
    };
    if (!Has(Pass::kForward, stage, k)) miss("forward", fmt::format("{}F{}", stage, k));
    if (both && (input || weight)) {
      const ActionPlace half =
          PlaceOf(input ? Pass::kBackwardInput : Pass::kBackwardWeight, stage, k);
      Find(ScheduleFault::kDoubled, {PlaceOf(Pass::kBackward, stage, k), half},
           fmt::format("{} repeats a half of the whole backward in {}", Where(half),
                       Where(PlaceOf(Pass::kBackward, stage, k))));
    } else if (!both && !input && !weight) {
      miss("backward", fmt::format("{}B{}, or {}I{} and {}W{}", stage, k, stage, k, stage, k));
    } else if (!both && !input) {
      miss("input half of the backward", fmt::format("{}I{}", stage, k));
    } else if (!both && !weight) {
      miss("weight half of the backward", fmt::format("{}W{}", stage, k));
    }
  }

  // ---- order

  void CountLive() {
    for (const auto& rank : draft_.ranks) {
      int live = 0, peak = 0;
      for (const ScheduleAction& action : rank) {
        if (action.pass == Pass::kForward) peak = std::max(peak, ++live);
        if (action.pass == Pass::kBackward || action.pass == Pass::kBackwardWeight) --live;
      }
      report_.peak_live.push_back(peak);
    }
  }

  void CheckOrder() {
    std::vector<std::map<int, ActionPlace>> lasts(draft_.ranks.size());
    const int head = report_.stages - 1;
    for (int r = 0; r < Ranks(); ++r) {
      std::map<int, ActionPlace>& last = lasts[At(r)];  // by stage: its latest weight gradient
      const auto& actions = draft_.ranks[At(r)];
      for (int i = 0; i < static_cast<int>(actions.size()); ++i) {
        const ActionPlace place{r, i};
        CheckPair(place);
        const ScheduleAction& action = actions[At(i)];
        if (action.pass == Pass::kForward) continue;
        const bool weight = action.pass == Pass::kBackwardWeight;
        CheckAfter(PlaceOf(weight ? Pass::kBackwardInput : Pass::kForward, action.stage,
                           action.micro_batch),
                   place);
        if (action.pass == Pass::kBackwardInput) continue;
        const bool starts = action.stage == 0 && head != 0 && !last.contains(0);
        if (starts && report_.chunks > 1 && HoldsBoth(r, head)) CheckTable(place, last, head);
        CheckSums(place, last);
      }
    }
    if (report_.shape == StageShape::kBothWays) CheckHolders(lasts);
  }

  bool HoldsBoth(int r, int head) const {
    const auto& actions = draft_.ranks[At(r)];
    return std::any_of(actions.begin(), actions.end(),
                       [&](const ScheduleAction& action) { return action.stage == head; });
  }

  // Where the first and the last stage share a tied table, the embedding adds to the gradient that
  // the head has written.
  void CheckTable(const ActionPlace& place, const std::map<int, ActionPlace>& last, int head) {
    if (last.contains(head)) return;
    Find(ScheduleFault::kOrder, {place},
         fmt::format("{} comes before any weight gradient of stage {}, which this rank holds too; "
                     "embedding and head may share a table, whose gradient the head starts",
                     Where(place), head));
  }

  // The two ranks that hold the same two stages reduce the gradients of one after those of the
  // other, so both must complete them in the same order.
  void CheckHolders(const std::vector<std::map<int, ActionPlace>>& lasts) {
    for (int r = 0; 2 * r < Ranks(); ++r) {
      const int other = Ranks() - 1 - r;  // the rank, and its own stage
      const ActionPlace &a = lasts[At(r)].at(r), &b = lasts[At(r)].at(other);
      const ActionPlace &c = lasts[At(other)].at(r), &d = lasts[At(other)].at(other);
      if ((a.action < b.action) == (c.action < d.action)) continue;
      Find(ScheduleFault::kOrder, {a, b, c, d},
           fmt::format("{} and {}, but {} and {}: ranks {} and {} hold both stages and must end "
                       "their weight gradients in the same order",
                       Where(a.action < b.action ? a : b), Where(a.action < b.action ? b : a),
                       Where(c.action < d.action ? c : d), Where(c.action < d.action ? d : c), r,
                       other));
    }
  }

  void CheckAfter(const ActionPlace& needed, const ActionPlace& place) {
    if (needed.action < place.action) return;
    Find(ScheduleFault::kOrder, {place, needed},
         fmt::format("{} comes before {}, which it needs", Where(place), Where(needed)));
  }

  void CheckSums(const ActionPlace& place, std::map<int, ActionPlace>& last) {
    const ScheduleAction& action = ActionAt(place);
    const auto [found, is_first] = last.try_emplace(action.stage, place);
    if (is_first) return;
    if (ActionAt(found->second).micro_batch > action.micro_batch) {
      Find(ScheduleFault::kOrder, {place, found->second},
           fmt::format("{} comes after {}; a stage adds its weight gradients in ascending order of "
                       "micro-batch",
                       Where(place), Where(found->second)));
    }
    found->second = place;
  }

  void CheckPair(const ActionPlace& place) {
    const auto& actions = draft_.ranks[At(place.rank)];
    if (!actions[At(place.action)].paired) return;
    const bool next = At(place.action) + 1 < actions.size();
    if (!next || actions[At(place.action)].pass != Pass::kForward ||
        actions[At(place.action) + 1].pass != Pass::kBackward) {
      return Find(ScheduleFault::kOrder, {place},
                  fmt::format("{}: a pair is a forward and a whole backward", Where(place)));
    }
    const ScheduleAction &forward = actions[At(place.action)],
                         &backward = actions[At(place.action) + 1];
    if (forward.stage != backward.stage || forward.micro_batch != backward.micro_batch) return;
    Find(ScheduleFault::kOrder, {place},
         fmt::format("{}: a pair runs at once, so it cannot hold a forward and its own backward",
                     Where(place)));
  }

  // ---- play

  // The pass of another stage that an action waits for; `nullopt` at the ends of the model and for
  // weight halves.
  std::optional<ActionPlace> InputOf(const ScheduleAction& action) {
    const int k = action.micro_batch;
    if (action.pass == Pass::kForward) {
      if (action.stage == 0) return std::nullopt;
      return PlaceOf(Pass::kForward, action.stage - 1, k);
    }
    if (action.pass == Pass::kBackwardWeight) return std::nullopt;
    const int next = action.stage + 1;
    if (next == report_.stages) return std::nullopt;
    return PlaceOf(Has(Pass::kBackward, next, k) ? Pass::kBackward : Pass::kBackwardInput, next, k);
  }

  // Ranks take turns, each until an input is missing. A rank is visited again only if the one that
  // it waits for has moved, and at most four wait for one: O(actions).
  void Play() {
    next_.assign(draft_.ranks.size(), 0);
    std::vector<double> now(draft_.ranks.size(), 0);
    for (const auto& rank : draft_.ranks) report_.times.emplace_back(rank.size());
    std::vector<int> queue;
    for (int r = 0; r < Ranks(); ++r) queue.push_back(r);
    waiters_.assign(draft_.ranks.size(), {});
    while (!queue.empty()) {
      const int r = queue.back();
      queue.pop_back();
      bool moved = false;
      while (!IsDone(r) && Run(r, now[At(r)])) moved = true;
      if (!moved) continue;
      for (const int waiter : std::exchange(waiters_[At(r)], {})) queue.push_back(waiter);
    }
    for (int r = 0; r < Ranks(); ++r) {
      if (!IsDone(r)) return FindCycle(r);
    }
    double busy = 0;
    for (int r = 0; r < Ranks(); ++r) {
      report_.makespan = std::max(report_.makespan, now[At(r)]);
      for (const ScheduleAction& action : draft_.ranks[At(r)]) busy += LengthOf(action.pass);
    }
    report_.bubble = 1 - busy / (report_.makespan * Ranks());
  }

  bool IsDone(int r) const { return At(next_[At(r)]) == draft_.ranks[At(r)].size(); }
  // When the output of an action that has run is there: of a pair, both at its end.
  double OutputOf(const ActionPlace& place) const {
    const bool first = ActionAt(place).paired;
    return report_.times[At(place.rank)][At(place.action) + (first ? 1 : 0)].end;
  }

  // Runs the next action of a rank, or both of a pair. False if an input is missing: the rank then
  // waits for the one that makes it.
  bool Run(int r, double& now) {
    const auto& actions = draft_.ranks[At(r)];
    const int first = next_[At(r)];
    const int count = actions[At(first)].paired ? 2 : 1;
    double start = now;
    for (int i = first; i < first + count; ++i) {
      const std::optional<ActionPlace> input = InputOf(actions[At(i)]);
      if (!input) continue;
      if (input->action >= next_[At(input->rank)]) {
        if (input->rank != r) waiters_[At(input->rank)].push_back(r);
        return false;
      }
      start = std::max(start, OutputOf(*input));
    }
    for (int i = first; i < first + count; ++i) {
      report_.times[At(r)][At(i)] = {start, start + LengthOf(actions[At(i)].pass)};
      start = report_.times[At(r)][At(i)].end;
    }
    now = start;
    next_[At(r)] += count;
    return true;
  }

  // The pass that a standing rank waits for.
  ActionPlace MissingOf(int r) {
    const int first = next_[At(r)];
    const auto& actions = draft_.ranks[At(r)];
    const int count = actions[At(first)].paired ? 2 : 1;
    for (int i = first; i < first + count; ++i) {
      const std::optional<ActionPlace> input = InputOf(actions[At(i)]);
      if (input && input->action >= next_[At(input->rank)]) return *input;
    }
    FT_CHECK(false && "a rank that stands waits for something");
    return {};
  }

  // Follows who waits for whom until a rank comes again: that is the cycle.
  void FindCycle(int r) {
    std::vector<int> way;
    while (std::find(way.begin(), way.end(), r) == way.end()) {
      way.push_back(r);
      r = MissingOf(r).rank;
    }
    way.erase(way.begin(), std::find(way.begin(), way.end(), r));
    std::vector<ActionPlace> places;
    std::vector<std::string> waits;
    for (const int rank : way) {
      const ActionPlace here{rank, next_[At(rank)]};
      const ActionPlace missing = MissingOf(rank);
      places.push_back(here);
      waits.push_back(fmt::format("{} waits for {}", Where(here), Where(missing)));
    }
    std::size_t standing = 0;
    for (int rank = 0; rank < Ranks(); ++rank) {
      standing += IsDone(rank) ? 0 : 1;
    }
    std::string text = fmt::format("{}", fmt::join(waits, "; "));
    if (standing > way.size()) {
      text += fmt::format("; waiting behind them: {} more", standing - way.size());
    }
    report_.times.clear();
    Find(ScheduleFault::kDeadlock, std::move(places), std::move(text));
  }

  const ScheduleDraft& draft_;
  ScheduleReport report_;
  std::array<std::vector<ActionPlace>, kPassCount> where_;  // by (stage, micro-batch)
  std::vector<int> next_;                                   // by rank: the next action
  std::vector<std::vector<int>> waiters_;                   // by rank: those that wait for it
};

}  // namespace

std::string_view Name(ScheduleFault fault) { return NameIn(kFaults, fault); }

ScheduleReport CheckSchedule(const ScheduleDraft& draft) { return Checker(draft).Take(); }

}  // namespace foretrain
