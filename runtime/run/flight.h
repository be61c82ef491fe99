// Recent activity of each rank: a ring of its newest ops and, for each queue, its current op.
// Written at every op, read only when something went wrong. Timing: profiler/span_recorder.h.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "traces/kinds.h"

namespace foretrain {

enum class FlightPhase : std::uint8_t { kRunning, kAtPeers, kEnded };

struct FlightRecord {
  OpId op = kNoOp;
  std::int64_t time_ns = 0;  // start of the op, on the run's clock
  std::int32_t step = 0;
  Queue queue = Queue::kHost;
  FlightPhase phase = FlightPhase::kRunning;  // always kRunning in Ring()
};

// One ring and one table for each rank. Any thread may read; a queue's entries have one writer, its
// thread.
class FlightRecorder {
 public:
  static constexpr int kRing = 1024;

  explicit FlightRecorder(int ranks);

  // The thread of `queue` starts an op. About 20 ns.
  void Begin(int rank, const FlightRecord& record);
  // The current op waits for its peers, runs again, or has ended.
  void SetPhase(int rank, Queue queue, FlightPhase phase);

  // The newest ops of the rank in order of their start, at most kRing.
  std::vector<FlightRecord> Ring(int rank) const;

  // The op that holds up the rank: the running op that started first; else the newest that waits
  // for peers; else the newest that ended. `nullopt` before the first op.
  std::optional<FlightRecord> Last(int rank) const;

 private:
  // A record with one writer that readers see as a whole; the version is odd while it is written.
  struct Cell {
    std::atomic<std::uint32_t> version{0};
    std::atomic<std::int64_t> op{kNoOp};
    std::atomic<std::int64_t> time_ns{0};
    std::atomic<std::int32_t> step{0};
    std::atomic<std::uint8_t> queue{0};
    std::atomic<FlightPhase> phase{FlightPhase::kEnded};
    std::atomic<std::uint64_t> index{0};  // ops of the rank that began before this one
    void Write(const FlightRecord& record, std::uint64_t at);
    struct Entry {
      FlightRecord record;
      std::uint64_t index = 0;
    };
    std::optional<Entry> Read() const;
  };
  struct alignas(64) Rank {
    std::array<Cell, kRing> ring;
    std::array<Cell, kQueueCount> current;
    std::atomic<std::uint64_t> next{0};
  };
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace foretrain
