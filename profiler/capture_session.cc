#include "profiler/capture_session.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <utility>

namespace foretrain {
namespace {

constexpr std::size_t kRecordsOfADrain = 16'384;
constexpr int kClockReads = 5;            // the narrowest one is used
constexpr std::size_t kClocksKept = 256;  // enough for drift; a long run keeps the newest

std::int32_t LevelOf(CaptureLevel level) {
  return level == CaptureLevel::kFull ? FT_CAPTURE_FULL : FT_CAPTURE_LAUNCHES;
}

// The first of this process's ranks that the window covers; the first at all if it covers none.
int FirstRecorded(const CaptureOptions& options) {
  for (const int rank : options.ranks) {
    if (options.window.CoversRank(rank)) return rank;
  }
  return options.ranks.empty() ? 0 : options.ranks.front();
}

}  // namespace

std::unique_ptr<CaptureSession> CaptureSession::Open(const FtDeviceApi& api,
                                                     CaptureOptions options) {
  if (options.level == CaptureLevel::kOff || api.capture_open == nullptr) return nullptr;
  return std::unique_ptr<CaptureSession>(new CaptureSession(api, std::move(options)));
}

CaptureSession::CaptureSession(const FtDeviceApi& api, CaptureOptions options)
    : api_(api),
      options_(std::move(options)),
      spans_(options_.window, options_.settle_ns, FirstRecorded(options_)),
      records_of_drain_(kRecordsOfADrain) {
  for (const int rank : options_.ranks) ranks_left_ += options_.window.CoversRank(rank) ? 1 : 0;
  std::array<char, 512> why{};
  const FtStatus status = api_.capture_open(LevelOf(options_.level), why.data(), why.size());
  if (status == FT_OK) {
    drains_ = records_ = true;
  } else {
    problem_ = std::string("the device's work is not recorded: ") + why.data();
    // FT_UNSUPPORTED still lets windows and ranges work for external tools; after other errors the
    // window stays closed.
    if (status != FT_UNSUPPORTED) std::call_once(started_, [] {});
  }
  counters_ = std::make_unique<CounterSampling>(api_, options_.counters, records_);
}

CaptureSession::~CaptureSession() {
  std::vector<Span> lost;
  Finish(lost);
}

// The first problem ends the recording of the device, and its text is kept. Tagging stops too, so
// that a broken device library is not called again.
void CaptureSession::Problem(const char* what, const char* why) {
  tagging_ = false;
  drains_ = false;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!problem_.empty()) return;
  problem_ = std::string("the device's work is recorded no further: ") + what + " failed";
  if (why[0] != '\0') problem_ += std::string(": ") + why;
}

template <class Entry, class... Arguments>
bool CaptureSession::Call(const char* what, Entry entry, Arguments... arguments) {
  std::array<char, 512> why{};
  if (entry(arguments..., why.data(), why.size()) == FT_OK) return true;
  Problem(what, why.data());
  return false;
}

// The first rank to reach the window opens it, on its own thread: the device must record before the
// first op is issued. call_once makes the other ranks wait for that.
void CaptureSession::BeginStep(int rank, std::int64_t step) {
  if (!options_.window.CoversStep(step) || !options_.window.CoversRank(rank)) return;
  std::call_once(started_, [this] {
    if (!Call("opening the window", api_.capture_start)) return;
    counters_->Start();
    tagging_ = true;
    running_ = true;
    thread_ = std::thread([this] { Run(); });
  });
}

const char* CaptureSession::NameOf(int rank, OpId op) {
  if (!options_.name_of || api_.capture_wants_names() == 0) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& name = names_[{rank, op}];
  if (name.empty()) name = options_.name_of(rank, op);
  return name.c_str();
}

// On the launching thread: one relaxed load if nothing records. The name is made only if an
// external tool shows it.
bool CaptureSession::BeginOp(int rank, std::int64_t step, OpId op) {
  if (!tagging_.load(std::memory_order_relaxed)) return false;
  const FtOpTag tag{op, static_cast<std::int32_t>(step), rank, NameOf(rank, op)};
  if (api_.capture_push(&tag) == FT_OK) return true;
  Problem("telling which op is at work", "");
  return false;
}

void CaptureSession::EndOp() {
  if (api_.capture_pop() != FT_OK) Problem("telling which op has ended", "");
}

void CaptureSession::AddHost(std::span<const Span> spans) {
  const std::lock_guard<std::mutex> lock(mutex_);
  host_.insert(host_.end(), spans.begin(), spans.end());
}

// Host spans wait in host_ until the thread has joined them with records. Without a thread or
// records they are handed on as they are.
void CaptureSession::Take(std::vector<Span>& out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!running_ || !drains_) {
    // No records will come for these spans.
    out.insert(out.end(), host_.begin(), host_.end());
    host_.clear();
  }
  out.insert(out.end(), ready_.begin(), ready_.end());
  ready_.clear();
}

// Called on each rank's thread. The window closes when the last recorded rank has finished its last
// step.
void CaptureSession::StepEnded(const StepWindow& window) {
  if (window.step + 1 != options_.window.end_step) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (--ranks_left_ > 0) return;
  closing_ = true;
  woken_.notify_all();
}

// The draining thread. mutex_ is released during a round, since reading records takes milliseconds
// and launching threads need the lock for their spans.
void CaptureSession::Run() {
  const auto interval = std::chrono::nanoseconds(options_.interval_ns);
  for (;;) {
    std::unique_lock<std::mutex> lock(mutex_);
    woken_.wait_for(lock, interval, [this] { return closing_; });
    const bool last = closing_;
    lock.unlock();
    if (last) break;
    Round(false, false);
  }
  tagging_ = false;
  counters_->Stop();
  std::array<char, 512> why{};
  if (api_.capture_stop(why.data(), why.size()) != FT_OK && drains_) {
    Problem("closing the window", why.data());
  }
  // Buffers also hold ops of the next steps, so they fill only as those run: drains for tail_ns, or
  // less if the run ends.
  const std::int64_t until_ns = options_.now() + options_.tail_ns;
  bool idle = false;
  while (!idle && options_.now() < until_ns) {
    Round(false, false);
    std::unique_lock<std::mutex> lock(mutex_);
    woken_.wait_for(lock, interval, [this] { return finishing_; });
    idle = finishing_;
  }
  Round(idle, true);
  const std::lock_guard<std::mutex> lock(mutex_);
  spans_.ReleaseAll(ready_);
}

// One round: read the clocks, move all records out, then join and release spans.
void CaptureSession::Round(bool idle, bool last) {
  if (drains_) ReadClocks();
  while (drains_ && Drain(idle)) {
  }
  counters_->Drain(fit_);
  SettleRecords(last);
}

// Moves one block of records out; true if there may be more.
bool CaptureSession::Drain(bool idle) {
  std::int64_t count = 0, dropped = 0;
  const auto capacity = static_cast<std::int64_t>(records_of_drain_.size());
  if (!Call("reading records", api_.capture_drain, idle ? 1 : 0, records_of_drain_.data(), capacity,
            &count, &dropped)) {
    return false;
  }
  dropped_ += dropped;
  for (std::int64_t i = 0; i < count; ++i) {
    join_.Add(records_of_drain_[static_cast<std::size_t>(i)]);
  }
  return count == capacity;
}

// The narrowest of a few readings: a thread that loses its processor between the two clocks makes a
// wide one.
void CaptureSession::ReadClocks() {
  ClockSample best{.width_ns = INT64_MAX};
  for (int i = 0; i < kClockReads; ++i) {
    const std::int64_t before = options_.now();
    std::int64_t device_ns = 0;
    if (!Call("reading the device's clock", api_.capture_clock, &device_ns)) return;
    const std::int64_t width = options_.now() - before;
    if (width < best.width_ns) best = {before + width / 2, device_ns, width};
  }
  if (clocks_.size() == kClocksKept) clocks_.erase(clocks_.begin());
  clocks_.push_back(best);
  fit_ = FitClock(clocks_);
}

// Times are converted to the host's clock before records meet host spans. Host spans are taken
// under the lock; join_ and spans_ belong to this thread.
void CaptureSession::SettleRecords(bool last) {
  settled_.clear();
  join_.Settle(settled_, last);
  for (OwnedActivity& owned : settled_) {
    owned.activity.start_ns = fit_.ToHost(owned.activity.start_ns);
    owned.activity.end_ns = fit_.ToHost(owned.activity.end_ns);
    spans_.AddActivity(owned);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::int64_t now_ns = options_.now();
  for (const Span& span : host_) spans_.AddHost(span, now_ns);
  host_.clear();
  spans_.Release(now_ns, ready_);
}

void CaptureSession::Finish(std::vector<Span>& out) {
  // If the window never opened, it stays closed.
  std::call_once(started_, [] {});
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = finishing_ = true;
    woken_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  running_ = false;
  Take(out);
}

std::vector<std::string> CaptureSession::Troubles() const {
  std::vector<std::string> troubles;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!problem_.empty()) troubles.push_back(problem_);
  }
  std::string problem = counters_->Problem();
  if (!problem.empty()) troubles.push_back(std::move(problem));
  return troubles;
}

CaptureReport CaptureSession::Report() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {.records = records_,
          .problem = problem_,
          .counters_problem = counters_->Problem(),
          .counts = join_.counts(),
          .dropped = dropped_,
          .late = spans_.late(),
          .outside = spans_.outside(),
          .clocks = clocks_,
          .clock_error_ns = fit_.error_ns,
          .kernels = join_.Kernels()};
}

}  // namespace foretrain
