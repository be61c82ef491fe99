// Ranks that share a machine, as a fluid: the number of busy threads, and how much of the device's
// connections running ops want, set the rate at which each progresses. A collective that one
// member's other traffic slows down is late on that member alone. Leaves out the order of ops
// (engine.h).
#pragma once

#include <cstdint>
#include <vector>

#include "sim/cost/program_costs.h"

namespace foretrain {

// Seconds of the op `row` from start to end if `threads` were busy in its domain all the while,
// itself included. Linear in `threads` between the levels of `costs`, flat below the first. Threads
// beyond the cores share them evenly: times max(1, threads / cores), of which the highest level has
// the part max(1, measured_threads / cores) in it already.
double SecondsAt(const ProgramCosts& costs, std::int32_t row, double threads);

// How many times longer an op takes that has `demand` of each wire while all running ops have
// `total`: where they want more than there is, each has its part, and what it does beside goes on:
// the largest of 1 + demand (total - 1).
double Crowding(const WireDemand& demand, const WireDemand& total);

// One machine whose threads slow one another down. Between two calls of Flush the set of running
// ops, and with it each op's rate, is constant.
class SharedMachine {
 public:
  // `costs` is borrowed.
  explicit SharedMachine(const ProgramCosts& costs) : costs_(&costs) {}

  // An op starts now, with `threads` more busy; it ends when its work is done.
  void Begin(std::int32_t slot, std::int32_t row, double threads);
  // Threads become busy (> 0) or idle (< 0) with work of a given length.
  void AddThreads(double threads);

  bool changed() const { return changed_; }

  // Counts the work done since the last flush and sets the rates that hold from `now` on. Returns
  // the time of the next end, or infinity.
  double Flush(double now);

  // Ops that end at or before `now`, the time of the last Flush's next end, in the order in which
  // they started; they leave the machine.
  void TakeEnded(double now, std::vector<std::int32_t>& slots);

  std::int32_t version = 0;  // of the last Flush: for whoever keeps its result

 private:
  struct Running {
    std::int32_t slot = 0;
    std::int32_t row = 0;
    double threads = 0.0;
    double remaining = 1.0;  // of its work
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
