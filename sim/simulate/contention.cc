#include "sim/simulate/contention.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace foretrain {

// Interpolates between the measured levels of concurrency, then adds the cost of sharing cores. The
// highest level already contains part of that cost, which is divided out.
double SecondsAt(const ProgramCosts& costs, std::int32_t row, double threads) {
  const std::vector<double>& levels = costs.levels;
  const double* seconds = costs.seconds.data() + static_cast<std::size_t>(row) * levels.size();
  double at_level = seconds[levels.size() - 1];
  if (threads <= levels.front()) {
    at_level = seconds[0];
  } else if (threads < levels.back()) {
    std::size_t upper = 1;
    while (levels[upper] < threads) ++upper;
    const double part = (threads - levels[upper - 1]) / (levels[upper] - levels[upper - 1]);
    at_level = seconds[upper - 1] + part * (seconds[upper] - seconds[upper - 1]);
  }
  if (costs.cores <= 0) return at_level;
  const double cores = costs.cores;
  const double measured = std::min(threads, costs.measured_threads[static_cast<std::size_t>(row)]);
  return at_level * std::max(1.0, threads / cores) / std::max(1.0, measured / cores);
}

double Crowding(const WireDemand& demand, const WireDemand& total) {
  double longest = 1;
  for (std::size_t wire = 0; wire < demand.size(); ++wire) {
    if (total[wire] > 1) longest = std::max(longest, 1 + demand[wire] * (total[wire] - 1));
  }
  return longest;
}

void SharedMachine::Begin(std::int32_t slot, std::int32_t row, double threads) {
  running_.push_back({.slot = slot, .row = row, .threads = threads});
  AddThreads(threads);
}

void SharedMachine::AddThreads(double threads) {
  threads_ += threads;
  changed_ = true;
}

// Progress is counted lazily: each op's remaining work is brought up to `now` at the old rate, then
// gets its new rate. Costs O(running ops) per call, so the engine flushes once per point in time.
double SharedMachine::Flush(double now) {
  double next = std::numeric_limits<double>::infinity();
  const bool has_wires = !costs_->demand.empty();
  WireDemand total{};
  for (const Running& op : running_) {
    if (!has_wires) break;
    const WireDemand& demand = costs_->demand[static_cast<std::size_t>(op.row)];
    for (std::size_t wire = 0; wire < total.size(); ++wire) total[wire] += demand[wire];
  }
  for (Running& op : running_) {
    op.remaining = std::max(0.0, op.remaining - (now - flushed_s_) * op.rate);
    double seconds = SecondsAt(*costs_, op.row, threads_);
    if (has_wires) seconds *= Crowding(costs_->demand[static_cast<std::size_t>(op.row)], total);
    const double rate = 1.0 / seconds;
    // An op with an unchanged rate keeps its end time exactly, without rounding.
    if (rate != op.rate) {
      op.rate = rate;
      op.end_s = now + op.remaining / rate;
    }
    next = std::min(next, op.end_s);
  }
  flushed_s_ = now;
  changed_ = false;
  ++version;
  return next;
}

// Ended ops leave together, which keeps the order in which they started and makes results
// repeatable.
void SharedMachine::TakeEnded(double now, std::vector<std::int32_t>& slots) {
  for (const Running& op : running_) {
    if (op.end_s > now) continue;
    slots.push_back(op.slot);
    threads_ -= op.threads;
  }
  std::erase_if(running_, [now](const Running& op) { return op.end_s <= now; });
  changed_ = true;
}

}  // namespace foretrain
