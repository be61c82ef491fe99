// What each rank did last: a ring of its newest ops and, per queue, the op that it is in. Written
// at every op, read when something went wrong. Leaves out timing: profiler/span_recorder.h.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "traces/kinds.h"

namespace foretrain {

enum class FlightPhase : std::uint8_t { kRunning, kAtPeers, kEnded };

struct FlightRecord {
  OpId op = kNoOp;
  std::int64_t time_ns = 0;  // on the run's clock: when the op started
  std::int32_t step = 0;
  Queue queue = Queue::kHost;
  FlightPhase phase = FlightPhase::kRunning;  // in Ring() always kRunning: "started"
};

// One ring and one table a rank. Any thread reads; a queue's entries are written by its one thread.
class FlightRecorder {
 public:
  static constexpr int kRing = 1024;

  explicit FlightRecorder(int ranks);

  // The thread of `queue` begins an op. About 20 ns.
  void Begin(int rank, const FlightRecord& record);
  // The op it is in has come to a rendezvous and waits for its peers, or works again, or is done.
  void SetPhase(int rank, Queue queue, FlightPhase phase);

  // The newest ops of the rank in order of their start, at most kRing.
  std::vector<FlightRecord> Ring(int rank) const;

  // The op that holds the rank up: of those that run, the one that started first; else, of those
  // that wait for peers, the newest; else the newest that ended. Nothing before the first op.
  std::optional<FlightRecord> Last(int rank) const;

 private:
  // A record that one thread writes and others read whole: odd while it is written.
  struct Cell {
    std::atomic<std::uint32_t> version{0};
    std::atomic<std::int64_t> op{kNoOp};
    std::atomic<std::int64_t> time_ns{0};
    std::atomic<std::int32_t> step{0};
    std::atomic<std::uint8_t> queue{0};
    std::atomic<FlightPhase> phase{FlightPhase::kEnded};
    void Write(const FlightRecord& record);
    std::optional<FlightRecord> Read() const;
  };
  struct alignas(64) Rank {
    std::array<Cell, kRing> ring;
    std::array<Cell, kQueueCount> current;
    std::atomic<std::uint64_t> next{0};
  };
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace foretrain
