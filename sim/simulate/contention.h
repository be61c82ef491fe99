// Models ranks that share a machine as a fluid. Two loads set the rate of each running op: the
// number of busy threads, and the traffic on each connection of the device. A collective slowed
// down on one member by other traffic ends late on that member only. engine.h decides the order of
// ops.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cost/program_costs.h"

namespace foretrain {

// Seconds of the op `row` if `threads` were busy in its domain all the time, the op's own included.
// Linear in `threads` between the levels of `costs`, constant below the first. Threads beyond the
// cores share them evenly, so the time grows by max(1, threads / cores). The time at the highest
// level already contains max(1, measured_threads / cores) of it.
double SecondsAt(const ProgramCosts& costs, std::int32_t row, double threads);

// Factor by which an op with this `demand` of each connection is slowed down. `total` is the demand
// of all running ops. Where it exceeds 1, each op gets its share, and the rest of the op goes on:
// the factor is the largest of 1 + demand * (total - 1) over connections.
double Crowding(const WireDemand& demand, const WireDemand& total);

// One machine whose running ops slow one another down. Between two calls of Flush, the set of
// running ops and the rate of each are constant.
class SharedMachine {
 public:
  // `costs` is borrowed.
  explicit SharedMachine(const ProgramCosts& costs) : costs_(&costs) {}

  // Starts an op now, which keeps `threads` more threads busy. It ends when its work is done.
  void Begin(std::int32_t slot, std::int32_t row, double threads);
  // Adds threads (> 0) or removes them (< 0) for an op of fixed duration.
  void AddThreads(double threads);

  bool changed() const { return changed_; }

  // Counts the work done since the last flush and sets the rates from `now` on. Returns the time at
  // which the next op ends, or infinity.
  double Flush(double now);

  // Removes the ops that end at or before `now` and appends their slots in the order of their
  // starts. `now` is the time that the last Flush returned.
  void TakeEnded(double now, std::vector<std::int32_t>& slots);

  // Number of flushes. A result of Flush is valid until this changes.
  std::int32_t version = 0;

 private:
  struct Running {
    std::int32_t slot = 0;
    std::int32_t row = 0;
    double threads = 0.0;
    double remaining = 1.0;  // share of its work, 1..0
    double rate = 0.0;       // work per second; 0 until the next flush
    double end_s = 0.0;
  };

  const ProgramCosts* costs_;
  std::vector<Running> running_;
  double threads_ = 0.0;
  double flushed_s_ = 0.0;
  bool changed_ = false;
};

}  // namespace foretrain
