#include "runtime/executor/completion.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <tuple>
#include <utility>

#include "base/units.h"

namespace foretrain {
namespace {

// Sleep of the thread if it finds nothing: starts at the shortest and doubles up to the longest.
constexpr std::int64_t kShortestSleepNs = 5'000;
constexpr std::int64_t kLongestSleepNs = 100'000;
constexpr auto kPatience = std::chrono::milliseconds(10);  // poll interval for a device that hangs

}  // namespace

Completion::Completion(RankRun& rank, std::vector<DeviceLane*> lanes, RunClock& clock,
                       RunControl& control)
    : rank_(rank), lanes_(std::move(lanes)), gate_(clock, control) {}

// Lanes are timed if spans or memory are recorded; without timing the device's clock is not read.
Result<std::unique_ptr<Completion>> Completion::Make(RankRun& rank,
                                                     std::vector<DeviceLane*> lanes) {
  RunShared& shared = rank.shared_;
  std::unique_ptr<Completion> made(
      new Completion(rank, std::move(lanes), shared.clock, shared.control));
  FT_ASSIGN(made->clock_, DeviceClock::Make(shared.api, rank.device_));
  made->spans_ = &rank.recorder_.AddLane();
  for (const DeviceLane* lane : made->lanes_) made->timed_ = made->timed_ || lane->timed();
  return made;
}

// After an error the thread stays until the device is idle: work already given to it may still
// write the rank's memory and read its peers'.
Result<void> Completion::Run() {
  const Result<void> end = Watch();
  if (end.has_value()) return end;
  rank_.Report(end.error());
  WaitForDevice();
  return end;
}

// Polls the lanes' events. Polling costs less than a blocking wait for each op, and sees all queues
// from one thread. It sleeps at its gate while no op is in flight; Wake() ends that.
Result<void> Completion::Watch() {
  RunShared& shared = rank_.shared_;
  if (timed_) {
    if (const auto aligned = clock_.Align(shared.clock); !aligned.has_value()) {
      return tl::unexpected<Error>(Failed(aligned.error().code, aligned.error().message));
    }
  }
  // Longer than the timeout inside a rank: if a peer is late, its message comes first.
  const std::int64_t limit_ns = shared.options.timeout_ns + shared.options.timeout_ns / 4;
  std::int64_t sleep_ns = kShortestSleepNs;
  for (;;) {
    for (DeviceLane* lane : lanes_) {
      const auto looked = Look(*lane);
      if (looked.has_value()) continue;
      Tell();
      return tl::unexpected<Error>(Failed(looked.error().code, looked.error().message));
    }
    const bool any = !seen_.empty();
    Tell();
    if (std::all_of(lanes_.begin(), lanes_.end(), [](auto* lane) { return lane->IsOver(); })) {
      return {};
    }
    if (shared.control.Aborted()) return tl::unexpected<Error>(shared.control.AbortedError());
    const std::int64_t now_ns = shared.clock.Now();
    if (timed_) {
      if (const auto advanced = clock_.Advance(now_ns); !advanced.has_value()) {
        return tl::unexpected<Error>(Failed(advanced.error().code, advanced.error().message));
      }
    }
    sleep_ns = any ? kShortestSleepNs : std::min(2 * sleep_ns, kLongestSleepNs);
    if (IsIdle()) {
      static_cast<void>(gate_.Wait([&] { return !IsIdle(); }, now_ns + limit_ns));
    } else if (now_ns - rank_.activity_ns_.load(std::memory_order_relaxed) > limit_ns) {
      return tl::unexpected<Error>(
          Failed(ErrorCode::kTimeout,
                 "has not ended on the device after " + FormatSeconds(SecondsFromNs(limit_ns))));
    } else {
      static_cast<void>(gate_.Sleep(sleep_ns));
    }
  }
}

// Called after an error: waits for each recorded event, however long the device takes.
void Completion::WaitForDevice() {
  for (DeviceLane* lane : lanes_) {
    for (std::int64_t at = lane->popped(); at < lane->pushed(); ++at) {
      const LaneEntry& entry = lane->At(at);
      for (bool waits = entry.has_end; waits;) {
        const auto done = entry.end.HasEnded();
        waits = done.has_value() && !*done;
        if (waits) std::this_thread::sleep_for(kPatience);
      }
    }
  }
}

// True if no op is in flight and more may come: then the thread sleeps until Wake. False once all
// lanes are over, as the thread must then end.
bool Completion::IsIdle() const {
  bool over = true;
  for (const DeviceLane* lane : lanes_) {
    if (lane->popped() != lane->pushed()) return false;
    over = over && lane->IsOver();
  }
  return !over;
}

// Ops end in order within a lane, so only its front is examined. An op without an event of its own
// ends with the next one that has one.
Result<void> Completion::Look(DeviceLane& lane) {
  const std::int64_t pushed = lane.pushed();
  std::int64_t ended = lane.popped();  // ops before this one have ended
  for (std::int64_t at = ended; at < pushed; ++at) {
    const LaneEntry& entry = lane.At(at);
    if (entry.left_out) {
      if (at == ended) ++ended;
      continue;
    }
    if (!entry.has_end) continue;
    FT_ASSIGN(const bool done, entry.end.HasEnded());
    if (!done) break;
    ended = at + 1;
  }
  const std::int64_t now_ns = rank_.shared_.clock.Now();
  while (lane.popped() < ended) {
    const LaneEntry& entry = lane.At(lane.popped());
    if (lane.timed() && !entry.born && !entry.left_out && entry.before == 0) FT_TRY(See(entry));
    FT_ASSIGN(const Seen seen, Take(lane, lane.popped(), now_ns));
    seen_.push_back(seen);
    lane.Pop();
  }
  if (lane.popped() == pushed || !lane.timed()) return {};
  LaneEntry& first = lane.At(lane.popped());
  if (first.born || first.left_out) return {};
  FT_ASSIGN(const bool started, first.start.HasEnded());
  if (!started) return {};
  first.born = true;
  return See(first);
}

// Notes the start of an op, at which its buffers become live.
Result<void> Completion::See(const LaneEntry& entry) {
  Seen seen;
  FT_ASSIGN(seen.time_ns, clock_.TimeOf(entry.start));
  seen.op = entry.op;
  seen_.push_back(seen);
  return {};
}

// Without timed events the end is the time at which it was noticed. Ops of a graph share one start
// and one end: the first has the whole time, the others have none.
Result<Completion::Seen> Completion::Take(DeviceLane& lane, std::int64_t sequence,
                                          std::int64_t now_ns) const {
  const LaneEntry& entry = lane.At(sequence);
  Seen seen;
  seen.ended = true;
  seen.inside = entry.before > 0;
  seen.op = entry.op;
  seen.round = entry.round;
  seen.left_out = entry.left_out;
  seen.time_ns = now_ns;
  if (entry.left_out || !lane.timed()) return seen;
  seen.span = entry.span;
  FT_ASSIGN(seen.span.end_ns, clock_.TimeOf(lane.At(sequence + entry.behind).end));
  seen.span.start_ns = seen.span.end_ns;
  if (!seen.inside) {
    FT_ASSIGN(seen.span.start_ns, clock_.TimeOf(entry.start));
  }
  seen.span.ready_ns = seen.span.start_ns;
  if (entry.waits) {
    FT_ASSIGN(seen.span.ready_ns, clock_.TimeOf(entry.arrived));
  }
  seen.time_ns = seen.span.end_ns;
  return seen;
}

// Reports what was seen in order of time, over all lanes, so that memory samples and waits are
// consistent.
void Completion::Tell() {
  if (seen_.empty()) return;
  const ExecutorOptions& options = rank_.shared_.options;
  // At equal times, ends come before starts: the memory of the one may be the other's.
  std::stable_sort(seen_.begin(), seen_.end(), [](const Seen& a, const Seen& b) {
    return std::tuple(a.time_ns, !a.ended) < std::tuple(b.time_ns, !b.ended);
  });
  spans_->Record([&] {
    for (const Seen& seen : seen_) {
      const PlannedOp& op = rank_.plan_.ops[static_cast<std::size_t>(seen.op)];
      if (options.record_memory && !seen.left_out) {
        if (!seen.ended || seen.inside) rank_.Bear(op, seen.time_ns, changed_);
        if (seen.ended) rank_.Bury(op, seen.time_ns, changed_);
      }
      if (!seen.ended) continue;
      if (options.record_spans && !seen.left_out && rank_.Records(seen.span.step)) {
        Span span = seen.span;
        if (op.work != Work::kCommunication) {
          span.ready_ns = std::min(rank_.ReadyAt(op, seen.op), span.start_ns);
        }
        spans_->Add(span);
      }
      rank_.End(seen.op, seen.round, seen.left_out ? RankRun::kLeftOut : seen.time_ns);
    }
  });
  rank_.activity_ns_.store(rank_.shared_.clock.Now(), std::memory_order_relaxed);
  seen_.clear();
}

// Only the front of each lane can be the op that the device is at, because a lane is in order.
Error Completion::Failed(ErrorCode code, const std::string& what) {
  const LaneEntry* at = nullptr;
  bool at_runs = false;
  for (DeviceLane* lane : lanes_) {
    for (std::int64_t i = lane->popped(); i < lane->pushed(); ++i) {
      const LaneEntry& entry = lane->At(i);
      if (entry.left_out) continue;
      // If an event cannot be queried any more, the op given first counts.
      const auto started = lane->timed() ? entry.start.HasEnded() : Result<bool>(false);
      const bool runs = started.has_value() && *started;
      if (at == nullptr ||
          std::tuple(!runs, entry.span.start_ns) < std::tuple(!at_runs, at->span.start_ns)) {
        at = &entry;
        at_runs = runs;
      }
      break;
    }
  }
  const std::string rank = "rank " + std::to_string(rank_.rank());
  if (at == nullptr) return {code, rank + ": " + what};
  return {code, rank + ", step " + std::to_string(at->span.step) + ", " +
                    rank_.TextOf(at->span.op) + ": " + what};
}

}  // namespace foretrain
