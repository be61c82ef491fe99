#include "runtime/run/flight.h"

namespace foretrain {

FlightRecorder::FlightRecorder(int ranks) {
  for (int i = 0; i < ranks; ++i) ranks_.push_back(std::make_unique<Rank>());
}

// A seqlock with one writer: the version is odd while the record is written. Readers retry until
// they see the same even version before and after, so writing never waits.
void FlightRecorder::Cell::Write(const FlightRecord& record, std::uint64_t at) {
  version.fetch_add(1, std::memory_order_acq_rel);
  op.store(record.op, std::memory_order_relaxed);
  time_ns.store(record.time_ns, std::memory_order_relaxed);
  step.store(record.step, std::memory_order_relaxed);
  queue.store(static_cast<std::uint8_t>(record.queue), std::memory_order_relaxed);
  phase.store(record.phase, std::memory_order_relaxed);
  index.store(at, std::memory_order_relaxed);
  version.fetch_add(1, std::memory_order_release);
}

// Bounded attempts: a record that changes all the time is as good as none.
std::optional<FlightRecorder::Cell::Entry> FlightRecorder::Cell::Read() const {
  for (int attempt = 0; attempt < 100; ++attempt) {
    const std::uint32_t before = version.load(std::memory_order_acquire);
    FlightRecord record;
    const std::uint64_t at = index.load(std::memory_order_acquire);
    record.op = op.load(std::memory_order_acquire);
    record.time_ns = time_ns.load(std::memory_order_acquire);
    record.step = step.load(std::memory_order_acquire);
    record.queue = static_cast<Queue>(queue.load(std::memory_order_acquire));
    record.phase = phase.load(std::memory_order_acquire);
    if (before % 2 == 0 && version.load(std::memory_order_relaxed) == before) {
      if (before == 0) return std::nullopt;  // never written
      return Entry{record, at};
    }
  }
  return std::nullopt;
}

// Queues of a rank share the ring: fetch_add gives each its own entry. A full ring overwrites the
// oldest.
void FlightRecorder::Begin(int rank, const FlightRecord& record) {
  Rank& at = *ranks_[static_cast<std::size_t>(rank)];
  const std::uint64_t index = at.next.fetch_add(1, std::memory_order_relaxed);
  at.ring[index % kRing].Write(record, index);
  at.current[static_cast<std::size_t>(record.queue)].Write(record, index);
}

// Only the phase of the current record changes, so it stays consistent without a new version.
void FlightRecorder::SetPhase(int rank, Queue queue, FlightPhase phase) {
  Rank& at = *ranks_[static_cast<std::size_t>(rank)];
  at.current[static_cast<std::size_t>(queue)].phase.store(phase, std::memory_order_relaxed);
}

// Leaves out entries that hold another op than their place says: a newer one that has overwritten
// them meanwhile, or an older one whose successor is not written yet.
std::vector<FlightRecord> FlightRecorder::Ring(int rank) const {
  const Rank& at = *ranks_[static_cast<std::size_t>(rank)];
  const std::uint64_t end = at.next.load(std::memory_order_relaxed);
  std::vector<FlightRecord> records;
  for (std::uint64_t i = end > kRing ? end - kRing : 0; i < end; ++i) {
    const auto entry = at.ring[i % kRing].Read();
    if (entry.has_value() && entry->index == i) records.push_back(entry->record);
  }
  return records;
}

// Running ops come first in FlightPhase, then those waiting for peers, then ended ones.
std::optional<FlightRecord> FlightRecorder::Last(int rank) const {
  const Rank& at = *ranks_[static_cast<std::size_t>(rank)];
  std::optional<FlightRecord> last;
  for (const Cell& cell : at.current) {
    const auto entry = cell.Read();
    if (!entry.has_value()) continue;
    const FlightRecord& record = entry->record;
    if (!last.has_value() || record.phase < last->phase) {
      last = record;
    } else if (record.phase == last->phase) {
      const bool earlier = record.time_ns < last->time_ns;
      if (earlier == (record.phase == FlightPhase::kRunning)) last = record;
    }
  }
  return last;
}

}  // namespace foretrain
