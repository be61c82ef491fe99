// Handles messages from the other processes of the run. Every value in them is checked: a process
// that sends anything else ends the run with a sentence that names it.
#include <algorithm>
#include <array>

#include "base/text.h"
#include "runtime/processes/group_messages.h"
#include "runtime/processes/process_group.h"
#include "runtime/processes/wire/packing.h"
#include "runtime/run/flight.h"

namespace foretrain {
namespace {

// How long poll sleeps at most: the delay until closing_ or an error of the own run is noticed.
constexpr int kLookMs = 20;
constexpr std::size_t kMaxLine = 512;                   // bytes of a line of last ops
constexpr std::int64_t kMaxNs = std::int64_t{1} << 56;  // two years

}  // namespace

// The listening thread: polls all connections, and in between checks its own run and the clock. It
// waits for no message to be whole, so a slow peer holds up no other. A connection that closes
// without a goodbye is a process that died.
void ProcessGroup::Listen() {
  std::vector<pollfd> waited;
  std::vector<int> ranks;
  for (;;) {
    waited.clear();
    ranks.clear();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (closing_) return;
      for (const auto& [rank, peer] : peers_) {
        if (peer->gone) continue;
        waited.push_back({peer->connection.socket().get(), POLLIN, 0});
        ranks.push_back(rank);
      }
    }
    static_cast<void>(poll(waited.data(), waited.size(), kLookMs));
    for (std::size_t i = 0; i < waited.size(); ++i) {
      Peer& peer = *peers_.at(ranks[i]);
      if (waited[i].revents == 0 && !peer.connection.IsLate()) continue;
      const auto heard = Hear(ranks[i], peer);
      if (heard.has_value()) continue;
      bool died = false;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        died = !peer.gone && !closing_;
        peer.gone = true;
      }
      if (!died) continue;
      SpreadFailure(ranks[i], {heard.error().code,
                               "rank " + std::to_string(ranks[i]) + ": " + heard.error().message});
    }
    LookAtOwnRun();
    AskTime();
  }
}

// Not on rank 0: asks for the time if a reading is due.
void ProcessGroup::AskTime() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (at_.rank == 0 || clock_ == nullptr || !peer_clock_.Asks(clock_->Now())) return;
  }
  Send(*peers_.at(0), kTime, "");
}

// A reading takes several questions one after the other: Answered says whether the next one is due.
// When the reading is complete, AlignClock is woken.
void ProcessGroup::HearTime(std::int64_t answer_ns) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (clock_ == nullptr || !peer_clock_.Answered(answer_ns, clock_->Now())) {
      changed_.notify_all();
      return;
    }
  }
  Send(*peers_.at(0), kTime, "");
}

Result<void> ProcessGroup::Hear(int rank, Peer& peer) {
  FT_ASSIGN(const std::optional<Frame> frame,
            peer.connection.Receive(at_.rank == 0 ? &MaxBytesToFirst : &MaxBytesFromFirst));
  if (!frame || Obey(rank, peer, *frame)) return {};
  return Fail(ErrorCode::kIo, "it sent a message of type " + Printable({&frame->type, 1}) +
                                  " with a value that cannot be; run one build on all machines");
}

// mutex_ is released before a message is sent or a sink is called, because both may block. The
// types are those of MaxBytesToFirst and MaxBytesFromFirst; kStop, kOver and kGoodbye have no text.
bool ProcessGroup::Obey(int rank, Peer& peer, const Frame& frame) {
  switch (frame.type) {
    case kFailure:
      return ObeyFailure(rank, frame.text);
    case kPut:
    case kGet:
    case kValue:
      return ObeyValue(rank, peer, frame);
    case kSummary:
      return ObeySummary(peer, frame.text);
    case kLastOps:
      return ObeyLastOps(rank, peer, frame.text);
    case kGrant:
    case kEnd:
    case kTimeIs:
      return ObeyNumber(frame.type, frame.text);
    case kTime:
      AnswerTime(peer);
      return true;
    case kStop:
    case kOver:
    case kGoodbye: {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (frame.type == kStop) stop_asked_ = true;
      if (frame.type == kOver) over_ = true;
      if (frame.type == kGoodbye) peer.gone = true;
      changed_.notify_all();
      return true;
    }
    default:
      return ObeyRecord(rank, frame);
  }
}

// A rank reports its own failure; rank 0 that of any.
bool ProcessGroup::ObeyFailure(int rank, const std::string& text) {
  std::int32_t failed = 0;
  Error error;
  if (!Unpack(text, failed, error.code, error.message) || failed < 0 || failed >= at_.world ||
      (at_.rank == 0 && failed != rank)) {
    return false;
  }
  SpreadFailure(failed, error, rank);
  return true;
}

// The final number of steps is told once.
bool ProcessGroup::ObeyNumber(char type, const std::string& text) {
  std::int64_t number = 0;
  if (!Unpack(text, number)) return false;
  if (type == kTimeIs) {
    if (number < -kMaxNs || number > kMaxNs) return false;
    HearTime(number);
    return true;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (number < 0 || number > kMaxStep || (type == kEnd && end_)) return false;
  if (type == kGrant) granted_ = std::max(granted_, number);
  if (type == kEnd) end_ = number;
  changed_.notify_all();
  return true;
}

void ProcessGroup::AnswerTime(Peer& peer) {
  const RunClock* clock = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    clock = clock_;
    if (clock == nullptr) ++peer.unanswered;
  }
  if (clock != nullptr) Send(peer, kTimeIs, Pack(clock->Now()));
}

bool ProcessGroup::ObeySummary(Peer& peer, const std::string& text) {
  auto summary = UnpackSummary(text);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!summary || peer.summary) return false;
  peer.summary = *std::move(summary);
  changed_.notify_all();
  return true;
}

// The text goes to a terminal: each of its lines names the sender's rank and is printable.
bool ProcessGroup::ObeyLastOps(int rank, Peer& peer, const std::string& text) {
  const std::string begin = "rank " + std::to_string(rank) + ": ";
  std::string_view rest = text;
  for (int lines = 0; !rest.empty(); ++lines) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos || lines == FlightRecorder::kRing) return false;
    const std::string_view line = rest.substr(0, end);
    if (!line.starts_with(begin) || Printable(line, kMaxLine) != line) return false;
    rest.remove_prefix(end + 1);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (peer.last_ops) return false;
  peer.last_ops = text;
  changed_.notify_all();
  return true;
}

// collecting_ is not mutex_: while the sink stores records, the run's own threads can still use the
// group.
bool ProcessGroup::ObeyRecord(int rank, const Frame& frame) {
  const std::lock_guard<std::mutex> lock(collecting_);
  if (collected_ == nullptr) return true;
  RecordLimits limits = limits_;
  limits.rank = rank;
  return Deliver(frame.type, frame.text, limits, *collected_);
}

}  // namespace foretrain
