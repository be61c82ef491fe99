#include "traces/import/host_context.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <tuple>

namespace foretrain::trace_import {
namespace {

// Caches the meaning of each name: a trace repeats a few thousand names millions of times.
class Meanings {
 public:
  Meanings(const NameTable& names, const OpTable& table)
      : names_(names), table_(table), passes_(names.size()), ranges_(names.size()) {}

  Pass PassOfOp(std::uint32_t name) {
    std::optional<Pass>& pass = passes_[name];
    if (!pass.has_value()) {
      const auto meaning = table_.Find(NamePlace::kOp, names_.Text(name));
      pass = meaning.has_value() ? meaning->pass : Pass::kNone;
    }
    return *pass;
  }
  const RangeMeaning& OfRange(std::uint32_t name) {
    std::optional<RangeMeaning>& range = ranges_[name];
    if (!range.has_value()) range = table_.FindRange(names_.Text(name));
    return *range;
  }

 private:
  const NameTable& names_;
  const OpTable& table_;
  std::vector<std::optional<Pass>> passes_;
  std::vector<std::optional<RangeMeaning>> ranges_;
};

// Host events by track, outer ones before the inner ones they contain.
std::vector<std::uint32_t> HostOrder(const RankEvents& events) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < events.events.size(); ++i) {
    if (!IsOnDevice(events.events[i].kind)) order.push_back(i);
  }
  const auto key = [&events](std::uint32_t i) {
    const RawEvent& event = events.events[i];
    // If two events span the same time, the range contains the other.
    return std::tuple(event.track, event.start_ns, -event.end_ns, event.kind != RawKind::kRange, i);
  };
  std::sort(order.begin(), order.end(),
            [&key](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
  return order;
}

// Sweeps each thread's events in time with a stack of open ones. Each event inherits the pass,
// layer and micro-batch of the event around it; annotations and backward ops then override them.
// O(n) after the sort, and the stack is as deep as the calls nest.
class Sweep {
 public:
  Sweep(const RankEvents& events, const OpTable& table, HostContext& out)
      : events_(events), meanings_(events.names, table), out_(out) {
    out_.of.resize(events.events.size());
    forwards_ = events.forwards;
    std::sort(forwards_.begin(), forwards_.end(), [](const RawPoint& a, const RawPoint& b) {
      return std::tie(a.track, a.time_ns) < std::tie(b.track, b.time_ns);
    });
  }

  void Run() {
    const RawEvent* before = nullptr;
    for (const std::uint32_t i : HostOrder(events_)) {
      const RawEvent& event = events_.events[i];
      if (before != nullptr && before->track != event.track) CloseUpTo(kForever);
      before = &event;
      CloseUpTo(event.start_ns);
      Begin(i, event);
    }
    CloseUpTo(kForever);
  }

 private:
  static constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();
  // An event that has begun and not ended.
  struct Open {
    std::uint32_t event = 0;
    std::int64_t end_ns = 0;
    std::int64_t own_ns = 0;  // start of the current stretch without an inner event
  };

  // Opens event `i` inside the innermost open event and decides its surroundings. Its end is cut to
  // that of the event around it, so that the stack stays nested.
  void Begin(std::uint32_t i, const RawEvent& event) {
    std::int64_t end = event.end_ns;
    Surroundings around;
    bool outermost = true;
    if (!open_.empty()) {
      end = std::min(end, open_.back().end_ns);
      around = out_.of[open_.back().event];
      outermost = events_.events[open_.back().event].kind == RawKind::kRange;
      AddStretch(open_.back(), event.start_ns);
    } else if (events_.tracks[event.track].autograd) {
      around.pass = Pass::kBackward;
    }
    if (event.kind == RawKind::kRange) {
      const RangeMeaning& range = meanings_.OfRange(event.name);
      if (range.pass != Pass::kNone) around.pass = range.pass;
      if (range.layer.has_value()) around.layer = *range.layer;
      if (range.micro_batch.has_value()) around.micro_batch = *range.micro_batch;
    } else if (event.kind == RawKind::kHostOp) {
      const Pass pass = meanings_.PassOfOp(event.name);
      if (pass != Pass::kNone) around.pass = pass;
      // An outermost op with a matching backward op later in the trace runs in the forward pass.
      if (around.pass == Pass::kNone && outermost && HasForward(event)) {
        around.pass = Pass::kForward;
      }
      if (event.detail > 0 && !(Flops(around.op) > 0 && Flops(i) == 0)) around.op = i;
    }
    out_.of[i] = around;
    open_.push_back({i, std::max(end, event.start_ns), event.start_ns});
  }

  double Flops(std::int64_t event) const {
    const std::uint32_t work =
        event < 0 ? 0 : events_.events[static_cast<std::size_t>(event)].detail;
    return work == 0 ? 0.0 : events_.works[work - 1].flops;
  }

  // True if an op within `event` has a backward op in the trace ("fwdbwd" flow).
  bool HasForward(const RawEvent& event) const {
    const auto at =
        std::lower_bound(forwards_.begin(), forwards_.end(), RawPoint{event.track, event.start_ns},
                         [](const RawPoint& a, const RawPoint& b) {
                           return std::tie(a.track, a.time_ns) < std::tie(b.track, b.time_ns);
                         });
    return at != forwards_.end() && at->track == event.track && at->time_ns <= event.end_ns;
  }

  // Ends the current stretch of `open` at `until_ns`; ranges have no stretches of their own.
  void AddStretch(const Open& open, std::int64_t until_ns) {
    if (events_.events[open.event].kind == RawKind::kRange || until_ns <= open.own_ns) return;
    out_.stretches.push_back({open.event, open.own_ns, until_ns});
  }

  // Closes all events that end by `time_ns`. The parent's next stretch starts where the child
  // ended.
  void CloseUpTo(std::int64_t time_ns) {
    while (!open_.empty() && open_.back().end_ns <= time_ns) {
      const Open closed = open_.back();
      open_.pop_back();
      AddStretch(closed, closed.end_ns);
      if (!open_.empty()) open_.back().own_ns = closed.end_ns;
    }
  }

  const RankEvents& events_;
  Meanings meanings_;
  HostContext& out_;
  std::vector<RawPoint> forwards_;
  std::vector<Open> open_;  // open events of one track, innermost last
};

// Collects the ranges that count steps. The table may list several kinds of such ranges; only the
// kind in the lowest row that occurs is used, because kinds often nest.
void FindSteps(const RankEvents& events, const OpTable& table, std::string_view step_name,
               HostContext& out) {
  Meanings meanings(events.names, table);
  int row = std::numeric_limits<int>::max();
  for (std::uint32_t i = 0; i < events.events.size(); ++i) {
    const RawEvent& event = events.events[i];
    if (event.kind != RawKind::kRange) continue;
    if (!step_name.empty()) {
      if (events.names.Text(event.name).starts_with(step_name)) out.steps.push_back(i);
      continue;
    }
    const RangeMeaning& range = meanings.OfRange(event.name);
    if (!range.step.has_value() || range.step_row > row) continue;
    if (range.step_row < row) out.steps.clear();
    row = range.step_row;
    out.steps.push_back(i);
  }
  std::stable_sort(out.steps.begin(), out.steps.end(), [&events](std::uint32_t a, std::uint32_t b) {
    return events.events[a].start_ns < events.events[b].start_ns;
  });
}

}  // namespace

HostContext ContextOf(const RankEvents& events, const OpTable& table, std::string_view step_name) {
  HostContext context;
  Sweep(events, table, context).Run();
  FindSteps(events, table, step_name, context);
  return context;
}

}  // namespace foretrain::trace_import
