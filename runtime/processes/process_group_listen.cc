// Handles messages from the other processes of the run.
#include <algorithm>
#include <array>

#include "runtime/processes/group_messages.h"
#include "runtime/processes/process_group.h"
#include "runtime/processes/records.h"

namespace foretrain {
namespace {

// How long poll sleeps at most: the delay until closing_ or an error of the own run is noticed.
constexpr int kLookMs = 20;
// The longest message that is accepted.
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 32;

}  // namespace

// The listening thread: polls all connections, and in between checks its own run and the clock. A
// connection that closes without a goodbye is a process that died.
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
        waited.push_back({peer->socket.get(), POLLIN, 0});
        ranks.push_back(rank);
      }
    }
    static_cast<void>(poll(waited.data(), waited.size(), kLookMs));
    for (std::size_t i = 0; i < waited.size(); ++i) {
      if (waited[i].revents == 0) continue;
      Peer& peer = *peers_.at(ranks[i]);
      if (Hear(ranks[i], peer)) continue;
      bool died = false;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        died = !peer.gone && !closing_;
        peer.gone = true;
      }
      if (!died) continue;
      SpreadFailure(ranks[i],
                    {ErrorCode::kIo, "rank " + std::to_string(ranks[i]) +
                                         ": its process has ended without saying why"},
                    ranks[i]);
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

// Reads one whole message, with a bounded length, so that a broken peer cannot exhaust memory.
bool ProcessGroup::Hear(int rank, Peer& peer) {
  std::array<char, 9> head{};
  if (!ReceiveAll(peer.socket, head.data(), head.size(), kMessagePatienceMs)) return false;
  const std::uint64_t bytes = NumberOfBytes({head.data() + 1, 8});
  if (bytes > kMaxBytes) return false;
  std::string text(bytes, '\0');
  if (!ReceiveAll(peer.socket, text.data(), text.size(), kMessagePatienceMs)) return false;
  Obey(rank, peer, head[0], text);
  return true;
}

// mutex_ is released before a message is sent or a sink is called, because both may block. Unknown
// messages are ignored.
void ProcessGroup::Obey(int rank, Peer& peer, char what, const std::string& text) {
  if (what == kFailure && text.size() >= 8) {
    const std::string_view all = text;
    const auto failed = static_cast<int>(NumberOfBytes(all.substr(0, 4)));
    const auto code = static_cast<ErrorCode>(NumberOfBytes(all.substr(4, 4)));
    return SpreadFailure(failed, {code, text.substr(8)}, rank);
  }
  if (IsRecord(what)) return ObeyRecord(what, text);
  if (what == kTimeIs) return HearTime(UnpackNumber(text));
  if (what == kTime) {
    const RunClock* clock = nullptr;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      clock = clock_;
      if (clock == nullptr) ++peer.unanswered;
    }
    if (clock != nullptr) Send(peer, kTimeIs, PackNumber(clock->Now()));
    return;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (what == kStop) stop_asked_ = true;
  if (what == kGrant) granted_ = std::max(granted_, UnpackNumber(text));
  if (what == kEnd) end_ = UnpackNumber(text);
  if (what == kSummary) peer.summary = UnpackSummary(text);
  if (what == kOver) over_ = true;
  if (what == kGoodbye) peer.gone = true;
  changed_.notify_all();
}

// collecting_ is not mutex_: while the sink stores records, the run's own threads can still use the
// group.
void ProcessGroup::ObeyRecord(char what, const std::string& text) {
  const std::lock_guard<std::mutex> lock(collecting_);
  if (collected_ != nullptr) Deliver(what, text, *collected_);
}

}  // namespace foretrain
