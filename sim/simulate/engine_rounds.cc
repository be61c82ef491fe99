// Part of Engine: issue of ops by hosts, replayed times, the end of rounds and of the run, and
// deadlocks.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "sim/simulate/engine.h"

namespace foretrain {
namespace {

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace

std::int64_t Engine::OpsOf(int rank) const {
  return graph_.first_op[At(rank) + 1] - graph_.first_op[At(rank)];
}

// Whether the host has issued op `instance` of the rank, or can issue it now. The host issues ops
// only on demand: the time of issue depends on nothing else, so that lazy issue gives the same
// times.
bool Engine::IssueUpTo(int rank, std::int64_t instance) {
  Host& host = hosts_[At(rank)];
  while (host.next <= instance) {
    if (host.working) return false;
    if (host.next >= options_.run_ahead) {
      const double ended_s = IssuedAt(rank, host.next - options_.run_ahead).ended_s;
      if (std::isnan(ended_s)) {
        if (host.waits_for < 0) WaitForRunAhead(rank, host);
        return false;
      }
      host.free_s = std::max(host.free_s, ended_s);
    }
    Issue(rank, host);
  }
  return true;
}

// Adds the host to the waiters of the op issued run_ahead ops before. In these lists, hosts have
// numbers after those of the slots.
void Engine::WaitForRunAhead(int rank, Host& host) {
  const std::int64_t ops = OpsOf(rank);
  const std::int64_t oldest = host.next - options_.run_ahead;
  host.waits_for = graph_.first_op[At(rank)] + static_cast<std::int32_t>(oldest % ops);
  host.waits_in = static_cast<std::int32_t>(oldest / ops);
  Slot& slot = slots_[At(graph_.nodes[At(host.waits_for)].slot)];
  host.next_waiter = slot.waiter;
  slot.waiter = static_cast<std::int32_t>(slots_.size()) + rank;
}

// Issues the next op of the host, which takes launch_s of its time. An op of the host queue
// occupies the host until it ends.
void Engine::Issue(int rank, Host& host) {
  const std::int32_t op = graph_.first_op[At(rank)] + host.op;
  const std::int32_t slot_number = graph_.nodes[At(op)].slot;
  const Slot& slot = slots_[At(slot_number)];
  const std::int64_t instance = host.next++;
  double issued_s = host.free_s;
  if (IsHostQueue(slot)) {
    host.working = true;
    if (slot.state == State::kIssue) MarkIdle(slot_number);
  } else if (!IsLeftOut(op, host.round)) {
    double launch_s = costs_.launch_s[At(graph_.nodes[At(op)].row)];
    if (options_.replay != nullptr) {
      const double replayed = Replayed(options_.replay->launch_s, rank, op, StepOf(op, host.round));
      if (!std::isnan(replayed)) launch_s = replayed;
    }
    issued_s += launch_s;
    totals_[At(host.round) * At(graph_.ranks()) + At(rank)].launch_s += launch_s;
    if (options_.timeline && options_.launches) {
      launches_.push_back({op, StepOf(op, host.round), host.free_s, issued_s});
    }
    host.free_s = issued_s;
  }
  const bool transfer = IsTransfer(slot);
  if (transfer) transfers_[At(slot_number)].push_back(issued_s);
  IssuedAt(rank, instance) = {issued_s,
                              transfer ? issued_s : std::numeric_limits<double>::quiet_NaN()};
  if (++host.op == OpsOf(rank)) {
    host.op = 0;
    ++host.round;
  }
}

// Lets queues whose next op had not been issued try again.
void Engine::WakeIssue(int rank) {
  for (std::int32_t queue = 0; queue < kQueueCount; ++queue) {
    const std::int32_t slot = rank * kQueueCount + queue;
    if (slots_[At(slot)].state == State::kIssue) MarkIdle(slot);
  }
}

// Replayed value of an op in `step`; NaN: use the cost model. Values of k steps repeat.
double Engine::Replayed(const std::vector<std::vector<double>>& values, int rank, std::int32_t op,
                        std::int32_t step) const {
  if (values.empty() || values[At(rank)].empty()) return std::nan("");
  const std::vector<double>& of_rank = values[At(rank)];
  const std::int64_t ops = OpsOf(rank);
  const std::int64_t steps = static_cast<std::int64_t>(of_rank.size()) / ops;
  return of_rank[At((step % steps) * ops + (op - graph_.first_op[At(rank)]))];
}

// Rounds end in order, so records of earlier steps are no longer needed with last_step.
void Engine::EndOfRound(std::int32_t round) {
  rounds_done_ = round + 1;
  const int step = round - fill_;
  JudgePeriod(step);
  if (rounds_done_ == rounds_) stopped_ = true;
  if (!options_.last_step || stopped_) return;
  std::erase_if(records_, [step](const OpRecord& record) { return record.step <= step; });
}

// Stops the run once the last two periods agree within the tolerance. Steps can also alternate
// between two lengths; then each of the last two must agree with the one two steps before.
void Engine::JudgePeriod(int step) {
  if (step < 1) return;
  const double period = StepEnd(step) - StepEnd(step - 1);
  const double before = StepEnd(step - 1) - (step >= 2 ? StepEnd(step - 2) : 0.0);
  cycle_ = 1;
  const auto differ = [this](double a, double b) {
    return std::abs(a - b) > options_.tolerance * std::max(a, b);
  };
  if (differ(period, before)) {
    // State left over by a step can make two lengths alternate.
    if (step < 4) return;
    const double earlier = StepEnd(step - 2) - StepEnd(step - 3);
    const double earliest = StepEnd(step - 3) - StepEnd(step - 4);
    if (differ(period, earlier) || differ(before, earliest)) return;
    cycle_ = 2;
  }
  stable_ = stable_ || steps() >= options_.min_steps;
  if (steps() >= options_.min_steps) stopped_ = true;
}

// Stops the run when `cancelled` returns true.
void Engine::AskWhetherCancelled() {
  until_asking_ = kPlaysBetweenAsking;
  if (*cancelled_ && (*cancelled_)()) stopped_ = was_cancelled_ = true;
}

Engine::Blocked Engine::BlockedAt(std::int32_t slot_number) const {
  const Slot& slot = slots_[At(slot_number)];
  if (slot.state == State::kDone || slot.state == State::kRunning) return {};
  Blocked blocked{.op = slot.op, .step = StepOf(slot.op, slot.round)};
  if (slot.state == State::kIssue) blocked.wait = Wait::kIssue;
  if (slot.state == State::kPeers) blocked.wait = Wait::kPeers;
  if (slot.state == State::kInput) {
    blocked.wait = Wait::kInput;
    blocked.input = graph_.preds[At(slot.pred)].from;
  }
  return blocked;
}

std::int32_t Engine::HostWaitsFor(int rank) const { return hosts_[At(rank)].waits_for; }

}  // namespace foretrain
