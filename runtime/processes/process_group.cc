#include "runtime/processes/process_group.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "runtime/processes/group_messages.h"
#include "runtime/processes/wire/packing.h"

namespace foretrain {
namespace {

using Clock = std::chrono::steady_clock;

// Waits wake at least this often to look at the deadline and for an abort of the own run, which do
// not notify.
constexpr auto kLook = std::chrono::milliseconds(20);
// Steps that others may begin beyond those that rank 0 has ended.
constexpr std::int64_t kAhead = 2;
constexpr std::int64_t kSendNs = 10'000'000'000;  // time for a peer to take a short message
// Time for last ops, which must not hold up the end of a failed run.
constexpr std::chrono::seconds kLastOpsWait{1};

}  // namespace

// Sends records to rank 0, with times on rank 0's clock.
class ProcessGroup::SenderSink final : public RunSink {
 public:
  explicit SenderSink(ProcessGroup& group) : group_(group) {}
  void OnSpans(std::span<const Span> spans) override {
    const ClockFit clock = group_.Fit();
    InParts(spans, [&](auto part) { group_.Send(First(), kSpans, PackSpans(part, clock)); });
  }
  void OnMemory(std::span<const MemorySample> samples) override {
    const ClockFit clock = group_.Fit();
    InParts(samples, [&](auto part) { group_.Send(First(), kMemory, PackMemory(part, clock)); });
  }
  void OnStepWindow(const StepWindow& window) override {
    group_.Send(First(), kWindow, PackWindow(window, group_.Fit()));
  }
  void OnScalars(const StepScalars& scalars) override {
    group_.Send(First(), kScalars, PackScalars(scalars, group_.Fit()));
  }
  void OnRouting(const RoutedCounts& counts) override {
    group_.Send(First(), kRouting, PackRouting(counts));
  }
  // Counters of a monitor may come before the clocks were compared. They are held until then,
  // because their times could not be converted.
  void OnCounters(std::span<const Counter> counters) override {
    const std::lock_guard<std::mutex> lock(held_mutex_);
    held_.insert(held_.end(), counters.begin(), counters.end());
    if (!group_.KnowsTime()) return;
    const ClockFit clock = group_.Fit();
    InParts(std::span<const Counter>(held_),
            [&](auto part) { group_.Send(First(), kCounters, PackCounters(part, clock)); });
    held_.clear();
  }
  // Held counters are sent first: no later call would send them.
  void OnCapture(int rank, const CaptureReport& report) override {
    OnCounters({});
    std::vector<ClockSample> exchanges;
    {
      const std::lock_guard<std::mutex> lock(group_.mutex_);
      exchanges.assign(group_.peer_clock_.samples().begin(), group_.peer_clock_.samples().end());
    }
    group_.Send(First(), kCapture, PackCapture(rank, report, group_.Fit(), exchanges));
  }

 private:
  // Calls `send` with parts of a message's size each; not at all if there are no records.
  template <class T, class Send>
  static void InParts(std::span<const T> all, Send send) {
    for (; !all.empty(); all = all.subspan(std::min(all.size(), kRecordsOfAMessage))) {
      send(all.first(std::min(all.size(), kRecordsOfAMessage)));
    }
  }
  Peer& First() { return *group_.peers_.at(0); }
  ProcessGroup& group_;
  std::mutex held_mutex_;
  // counters from before the clocks were compared; guarded by held_mutex_
  std::vector<Counter> held_;
};

RunSink& ProcessGroup::Sender() { return *sender_; }

ProcessGroup::ProcessGroup(LaunchedRank at, std::int64_t timeout_ns)
    : at_(std::move(at)),
      timeout_ns_(timeout_ns),
      values_(timeout_ns),
      sender_(std::make_unique<SenderSink>(*this)) {}

// Goodbye is sent before the thread ends, else the others would report a death.
ProcessGroup::~ProcessGroup() {
  if (thread_.joinable()) {
    LookAtOwnRun();
    SendAll(kGoodbye, "");
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      closing_ = true;
    }
    thread_.join();
  }
}

std::string ProcessGroup::MissingText() const {
  std::string text;
  for (int rank = 1; rank < at_.world; ++rank) {
    const auto found = peers_.find(rank);
    if (found != peers_.end() && (closing_ || found->second->summary || !thread_.joinable())) {
      continue;
    }
    text += (text.empty() ? "rank " : ", ") + std::to_string(rank);
  }
  return text;
}

// Checked at the start, so that processes with different commands fail at once and not in a
// collective.
Result<void> ProcessGroup::Agree(const std::string& what, const std::string& value) {
  if (at_.rank == 0) return Put(0, "agree " + what, value);
  FT_ASSIGN(const std::string first, Get(0, "agree " + what, nullptr));
  if (first == value) return {};
  return Fail(ErrorCode::kInvalidArgument, "rank " + std::to_string(at_.rank) + " has another " +
                                               what + " than rank 0: " + value + ", not " +
                                               Printable(first, 1000) +
                                               "; start all processes with the same command");
}

// Polls with a short wait: `ready` depends on messages, and a failure or the timeout must end the
// wait too.
template <class Ready>
Result<void> ProcessGroup::Await(Ready ready, const std::string& what) {
  const auto deadline = Clock::now() + std::chrono::nanoseconds(timeout_ns_);
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ready()) {
    if (failure_) return tl::unexpected<Error>(*failure_);
    if (Clock::now() > deadline) {
      const std::string whom = at_.rank == 0 ? MissingText() : "rank 0";
      return Fail(ErrorCode::kTimeout, "rank " + std::to_string(at_.rank) + ": waited " +
                                           FormatSeconds(SecondsFromNs(timeout_ns_)) + " for " +
                                           whom + " " + what);
    }
    changed_.wait_for(lock, kLook);
  }
  return {};
}

// Questions for the time may have come before this process had a clock: they are answered now.
Result<void> ProcessGroup::Enter(const RunClock& clock, RunControl& control) {
  std::vector<Peer*> asked;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_) return tl::unexpected<Error>(*failure_);
    control_ = &control;
    clock_ = &clock;
    peer_clock_ = {};
    for (auto& [rank, peer] : peers_) {
      for (; peer->unanswered > 0; --peer->unanswered) asked.push_back(peer.get());
    }
  }
  for (Peer* peer : asked) Send(*peer, kTimeIs, Pack(clock.Now()));
  return at_.rank == 0 ? Result<void>() : AlignClock();
}

// Rank 0's answers come to the listening thread, which asks again until the reading is complete.
Result<void> ProcessGroup::AlignClock() {
  AskTime();
  return Await([this] { return peer_clock_.IsKnown(); }, "to begin the run");
}

ClockFit ProcessGroup::Fit() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return peer_clock_.fit();
}

bool ProcessGroup::KnowsTime() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return peer_clock_.IsKnown();
}

// Errors of the run are spread before control_ is forgotten. mutex_ makes sure that the listening
// thread no longer uses it afterwards.
void ProcessGroup::Leave() {
  LookAtOwnRun();
  const std::lock_guard<std::mutex> lock(mutex_);
  control_ = nullptr;
  clock_ = nullptr;
}

void ProcessGroup::TellFailure(const Error& error) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_) return;
  }
  SpreadFailure(at_.rank, error);
}

// Rank 0 grants steps ahead of its own. After a request to stop it fixes the last step as the
// largest one granted, since others may already have begun it. Others wait until their step is
// granted or the end is known.
bool ProcessGroup::MayBegin(std::int64_t step, bool stop) {
  std::unique_lock<std::mutex> lock(mutex_);
  stop_asked_ = stop_asked_ || stop;
  if (at_.rank != 0) {
    if (stop) {
      lock.unlock();
      Send(*peers_.at(0), kStop, "");
      lock.lock();
    }
    const auto deadline = Clock::now() + std::chrono::nanoseconds(timeout_ns_);
    while (!failure_ && granted_ <= step && !(end_ && step >= *end_)) {
      changed_.wait_for(lock, kLook);
      if (control_ != nullptr && control_->Aborted()) return false;
      if (Clock::now() < deadline) continue;
      lock.unlock();
      SpreadFailure(at_.rank,
                    {ErrorCode::kTimeout, "rank " + std::to_string(at_.rank) + ": waited " +
                                              FormatSeconds(SecondsFromNs(timeout_ns_)) +
                                              " for rank 0 to begin step " + std::to_string(step)});
      return false;
    }
    return !failure_ && step < end_.value_or(std::numeric_limits<std::int64_t>::max());
  }
  if (stop_asked_ && !end_) {
    end_ = std::max(granted_, step);
    const std::int64_t end = *end_;
    lock.unlock();
    SendAll(kEnd, Pack(end));
    return step < end;
  }
  if (end_) return step < *end_;
  granted_ = std::max(granted_, step + kAhead);
  const std::int64_t granted = granted_;
  lock.unlock();
  SendAll(kGrant, Pack(granted));
  return true;
}

void ProcessGroup::Collect(RunSink* sink, std::int64_t first_step, std::int64_t end_step) {
  const std::lock_guard<std::mutex> lock(collecting_);
  collected_ = sink;
  limits_ = {.world = at_.world, .first_step = first_step, .end_step = end_step};
}

// Processes learn of the failure at about the same time, so most have sent theirs before rank 0
// asks.
std::string ProcessGroup::GatherLastOps(std::string own) {
  if (at_.rank != 0) {
    Peer& first = *peers_.at(0);
    const std::lock_guard<std::mutex> lock(first.sending);
    static_cast<void>(first.connection.Send(
        kLastOps, own, DeadlineIn(std::chrono::nanoseconds(kLastOpsWait).count())));
    return own;
  }
  const auto deadline = Clock::now() + kLastOpsWait;
  std::unique_lock<std::mutex> lock(mutex_);
  const auto is_done = [](const auto& peer) {
    return peer.second->gone || peer.second->last_ops.has_value();
  };
  while (!std::all_of(peers_.begin(), peers_.end(), is_done) && Clock::now() < deadline) {
    changed_.wait_for(lock, kLook);
  }
  for (const auto& [rank, peer] : peers_) own += peer->last_ops.value_or("");
  return own;
}

// Rank 0 collects all summaries before it says that the run is over; others wait for that.
Result<RunSummary> ProcessGroup::Finish(RunSummary mine) {
  if (at_.rank != 0) {
    Send(*peers_.at(0), kSummary, PackSummary(mine));
    FT_TRY(Await([this] { return over_; }, "to end the run"));
    return mine;
  }
  FT_TRY(Await(
      [this] {
        return std::all_of(peers_.begin(), peers_.end(),
                           [](const auto& peer) { return peer.second->summary.has_value(); });
      },
      "to end the run"));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
    for (const auto& [rank, peer] : peers_) AddSummary(*peer->summary, mine);
  }
  SendAll(kOver, "");
  return mine;
}

// `sending` keeps messages of several threads whole; mutex_ must not be held, since the send may
// block. Records wait while rank 0 stores earlier ones. Short messages must not: a peer that does
// not read would hold up the failure of another.
void ProcessGroup::Send(Peer& peer, char type, std::string_view text) {
  const std::lock_guard<std::mutex> lock(peer.sending);
  // If the other end has gone, the listening thread reports it.
  static_cast<void>(peer.connection.Send(
      type, text, DeadlineIn(IsRecord(type) ? timeout_ns_ : std::min(timeout_ns_, kSendNs))));
}

void ProcessGroup::SendAll(char type, std::string_view text, int but) {
  for (auto& [rank, peer] : peers_) {
    if (rank != but) Send(*peer, type, text);
  }
}

// Only the first failure is spread. `but` is the process that sent it, if another did.
void ProcessGroup::SpreadFailure(int rank, const Error& error, int but) {
  RunControl* control = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_) return;
    failure_ = error;
    failed_rank_ = rank;
    control = control_;
    if (control != nullptr) static_cast<void>(control->Fail(rank, error));
  }
  changed_.notify_all();
  SendAll(kFailure,
          Pack(std::int32_t{rank}, error.code, Printable(error.message, kMaxTextOfMessage / 2)),
          but);
}

// Reports an error of this process's own run to the others.
void ProcessGroup::LookAtOwnRun() {
  std::optional<Error> error;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_ || control_ == nullptr || !control_->Aborted()) return;
    error = control_->FirstError();
  }
  if (error) SpreadFailure(at_.rank, *error);
}

}  // namespace foretrain
