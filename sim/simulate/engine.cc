#include "sim/simulate/engine.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>

#include "base/result.h"

namespace foretrain {
namespace {

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

// Rows whose ops take the same time whatever runs beside them, and change nothing for that, are
// false.
std::vector<bool> ContendingRows(const ProgramCosts& costs) {
  std::vector<bool> contends(costs.launch_s.size(), costs.levels.size() > 1 || costs.cores > 0);
  for (std::size_t row = 0; row < costs.demand.size(); ++row) {
    if (costs.demand[row] != WireDemand{}) contends[row] = true;
  }
  return contends;
}

}  // namespace

Engine::Engine(const StepGraph& graph, const ProgramCosts& costs, const SimulateOptions& options)
    : graph_(graph),
      costs_(costs),
      options_(options),
      contended_(options.contention && costs.contended()),
      fill_(graph.overlaps ? 1 : 0),
      rounds_(options.max_steps + fill_),
      slots_(At(graph.ranks()) * kQueueCount),
      hosts_(At(graph.ranks())),
      channels_(graph.channel_members.size()),
      done_(At(graph.ops()), 0),
      ended_s_(At(graph.ops()), 0.0),
      waiters_(At(graph.ops()), -1),
      next_host_waiter_(At(graph.ranks()), -1),
      left_of_round_(At(rounds_), graph.ops()),
      round_end_s_(At(rounds_), 0.0),
      totals_(At(rounds_) * At(graph.ranks())) {
  issue_ring_ = static_cast<std::int64_t>(std::bit_ceil(At(options.run_ahead)));
  issued_s_.resize(At(graph.ranks()) * At(issue_ring_), 0.0);
  if (contended_) {
    contends_ = ContendingRows(costs);
    const auto last = std::max_element(costs.domain.begin(), costs.domain.end());
    machines_.resize(At(last == costs.domain.end() ? 0 : *last + 1), SharedMachine(costs));
  }
  if (options.timeline) records_.reserve(At(graph.ops()) * At(options.min_steps + 1));
}

void Engine::Run() {
  for (std::size_t s = 0; s < slots_.size(); ++s) {
    if (graph_.queue_begin[s] == graph_.queue_begin[s + 1]) {
      slots_[s].state = State::kDone;
    } else {
      slots_[s].pred = graph_.nodes[At(graph_.queue_ops[At(graph_.queue_begin[s])])].first_pred;
    }
  }
  for (int rank = 0; rank < graph_.ranks(); ++rank) AdvanceHost(rank);
  while (!stopped_) {
    // Rates change once for all that happens at one time.
    if (!changed_machines_.empty() && (heap_.empty() || heap_.front().time_s > now_s_)) {
      FlushMachines();
    }
    if (heap_.empty()) break;
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    const Event event = heap_.back();
    heap_.pop_back();
    Handle(event);
  }
  deadlocked_ = !stopped_ && rounds_done_ < rounds_ && graph_.ops() > 0;
}

// Orders the heap: earliest first, and of equal times always the same one.
bool Engine::Later(const Event& a, const Event& b) {
  if (a.time_s != b.time_s) return a.time_s > b.time_s;
  return a.kind != b.kind ? a.kind > b.kind : a.index > b.index;
}

void Engine::Push(double time_s, Kind kind, std::int32_t index, std::int32_t version) {
  heap_.push_back({time_s, kind, index, version});
  std::push_heap(heap_.begin(), heap_.end(), Later);
}

void Engine::Handle(const Event& event) {
  if (event.kind == Kind::kMachine) {
    SharedMachine& machine = machines_[At(event.index)];
    if (machine.version != event.version) return;
    now_s_ = event.time_s;
    scratch_.clear();
    if (!machine.changed()) changed_machines_.push_back(event.index);
    machine.TakeEnded(now_s_, scratch_);
    // End never takes from a machine, so that the list stays as it is.
    for (const std::int32_t slot : scratch_) End(slot);
    return;
  }
  now_s_ = event.time_s;
  if (event.kind == Kind::kTimer) {
    Arrive(event.index);
    return;
  }
  if (event.kind == Kind::kLeftOut) {
    End(event.index);
    return;
  }
  const std::int32_t row = graph_.nodes[At(HeadOf(slots_[At(event.index)], event.index))].row;
  if (Contends(row)) {
    const int rank = RankOf(event.index);
    const std::int32_t domain = costs_.domain[At(rank)];
    if (!machines_[At(domain)].changed()) changed_machines_.push_back(domain);
    machines_[At(domain)].AddThreads(-costs_.load[At(row)] * costs_.weight[At(rank)]);
  }
  End(event.index);
}

void Engine::FlushMachines() {
  for (const std::int32_t machine : changed_machines_) {
    const double next = machines_[At(machine)].Flush(now_s_);
    if (next < std::numeric_limits<double>::infinity()) {
      Push(next, Kind::kMachine, machine, machines_[At(machine)].version);
    }
  }
  changed_machines_.clear();
}

double Engine::Replayed(const std::vector<std::vector<double>>& values, int rank, std::int32_t op,
                        std::int32_t step) const {
  if (values.empty() || values[At(rank)].empty()) return std::nan("");
  const std::vector<double>& of_rank = values[At(rank)];
  const std::int32_t first = graph_.first_op[At(rank)];
  const std::int64_t ops = graph_.first_op[At(rank) + 1] - first;
  const std::int64_t steps = static_cast<std::int64_t>(of_rank.size()) / ops;
  return of_rank[At((step % steps) * ops + (op - first))];
}

// Issues ops until the host has to wait or has issued them all.
void Engine::AdvanceHost(int rank) {
  Host& host = hosts_[At(rank)];
  const std::int32_t first = graph_.first_op[At(rank)];
  const std::int32_t ops = graph_.first_op[At(rank) + 1] - first;
  const std::int64_t end = static_cast<std::int64_t>(ops) * rounds_;
  while (host.next < end && !host.working) {
    if (host.next >= options_.run_ahead) {
      const std::int64_t oldest = host.next - options_.run_ahead;
      const std::int32_t op = first + static_cast<std::int32_t>(oldest % ops);
      if (done_[At(op)] <= oldest / ops) {
        host.waits_for = op;
        next_host_waiter_[At(rank)] = waiters_[At(op)];
        waiters_[At(op)] = static_cast<std::int32_t>(slots_.size()) + rank;
        return;
      }
    }
    Issue(rank, host, first + host.op);
    if (++host.op == ops) {
      host.op = 0;
      ++host.round;
    }
  }
}

// The next op of the host; TryStart reads what is written here before host.op moves on.
void Engine::Issue(int rank, Host& host, std::int32_t op) {
  const std::int32_t slot = graph_.nodes[At(op)].slot;
  const std::int64_t instance = host.next++;
  double issued_s = host.free_s;
  if (IsHostQueue(slot)) {
    host.working = true;
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
  issued_s_[At(rank) * At(issue_ring_) + At(instance & (issue_ring_ - 1))] = issued_s;
  if (slots_[At(slot)].state == State::kIssue) TryStart(slot);
}

bool Engine::IsIssued(int rank, std::int32_t op, std::int32_t round, double* issued_s) const {
  const std::int32_t first = graph_.first_op[At(rank)];
  const std::int64_t ops = graph_.first_op[At(rank) + 1] - first;
  const std::int64_t instance = round * ops + (op - first);
  if (instance >= hosts_[At(rank)].next) return false;
  *issued_s = issued_s_[At(rank) * At(issue_ring_) + At(instance & (issue_ring_ - 1))];
  return true;
}

// Starts the slot's next op, or notes what it waits for.
void Engine::TryStart(std::int32_t slot_number) {
  Slot& slot = slots_[At(slot_number)];
  const std::int32_t op = HeadOf(slot, slot_number);
  double issued_s = 0;
  if (!IsIssued(RankOf(slot_number), op, slot.round, &issued_s)) {
    slot.state = State::kIssue;
    return;
  }
  for (; slot.pred < graph_.nodes[At(op) + 1].first_pred; ++slot.pred) {
    const StepGraph::Pred& pred = graph_.preds[At(slot.pred)];
    if (slot.round < pred.distance) continue;
    if (done_[At(pred.from)] <= slot.round - pred.distance) {
      slot.state = State::kInput;
      slot.next = waiters_[At(pred.from)];
      waiters_[At(pred.from)] = slot_number;
      return;
    }
    slot.inputs_s = std::max(slot.inputs_s, ended_s_[At(pred.from)]);
  }
  if (IsLeftOut(op, slot.round)) {
    slot.state = State::kRunning;
    slot.start_s = now_s_;
    Push(now_s_, Kind::kLeftOut, slot_number);
    return;
  }
  const double inputs_s = std::max(slot.inputs_s, issued_s);
  double start_s = std::max(inputs_s, slot.free_s);
  // A queue that had to wait has gone to sleep.
  if (!IsHostQueue(slot_number) && inputs_s > slot.free_s) start_s += costs_.wake_s;
  // Without what the host adds: an op that is issued late was ready before.
  slot.ready_s = std::max(slot.inputs_s, slot.ended_s);
  if (start_s <= now_s_) {
    Arrive(slot_number);
    return;
  }
  slot.state = State::kTimer;
  if (start_s <= now_s_) {
    Arrive(slot_number);
    return;
  }
  Push(start_s, Kind::kTimer, slot_number);
}

void Engine::Arrive(std::int32_t slot_number) {
  Slot& slot = slots_[At(slot_number)];
  const std::int32_t number = graph_.nodes[At(HeadOf(slot, slot_number))].channel;
  if (number < 0) {
    Begin(slot_number);
    return;
  }
  Channel& channel = channels_[At(number)];
  slot.ready_s = now_s_;
  slot.state = State::kPeers;
  slot.next = channel.first;
  channel.first = slot_number;
  if (++channel.arrived < graph_.channel_members[At(number)]) return;
  std::int32_t member = channel.first;
  channel = {};
  while (member >= 0) {
    const std::int32_t next = slots_[At(member)].next;
    Begin(member);
    member = next;
  }
}

void Engine::Begin(std::int32_t slot_number) {
  Slot& slot = slots_[At(slot_number)];
  const int rank = RankOf(slot_number);
  const std::int32_t op = HeadOf(slot, slot_number);
  const std::int32_t row = graph_.nodes[At(op)].row;
  slot.state = State::kRunning;
  slot.start_s = now_s_;
  double seconds = costs_.Alone(row);
  const bool contends = Contends(row);
  bool fluid = contends && seconds > 0.0;
  if (options_.replay != nullptr) {
    const double replayed = Replayed(options_.replay->seconds, rank, op, StepOf(op, slot.round));
    if (!std::isnan(replayed)) {
      seconds = replayed;
      fluid = false;
    }
  }
  if (contends) {
    const double threads = costs_.load[At(row)] * costs_.weight[At(rank)];
    const std::int32_t domain = costs_.domain[At(rank)];
    if (!machines_[At(domain)].changed()) changed_machines_.push_back(domain);
    if (fluid) {
      machines_[At(domain)].Begin(slot_number, row, threads);
      return;
    }
    machines_[At(domain)].AddThreads(threads);
  }
  Push(now_s_ + seconds, Kind::kEnd, slot_number);
}

void Engine::End(std::int32_t slot_number) {
  Slot& slot = slots_[At(slot_number)];
  const int rank = RankOf(slot_number);
  const std::int32_t op = HeadOf(slot, slot_number);
  const std::int32_t round = slot.round;
  EndOfOp(rank, op, slot);
  if (!IsLeftOut(op, round)) {
    slot.ended_s = now_s_;
    slot.free_s = IsHostQueue(slot_number) ? now_s_ : now_s_ + costs_.gap_s;
  }
  slot.inputs_s = 0.0;
  ++slot.position;
  const std::int32_t length =
      graph_.queue_begin[At(slot_number) + 1] - graph_.queue_begin[At(slot_number)];
  if (slot.position == length) {
    slot.position = 0;
    ++slot.round;
  }
  if (slot.round == rounds_) {
    slot.state = State::kDone;
  } else {
    slot.pred = graph_.nodes[At(HeadOf(slot, slot_number))].first_pred;
    slot.state = State::kIssue;
  }
  if (IsHostQueue(slot_number)) {
    Host& host = hosts_[At(rank)];
    host.working = false;
    host.free_s = now_s_;
    AdvanceHost(rank);
  } else if (slot.state != State::kDone) {
    TryStart(slot_number);
  }
  Wake(op);
  if (--left_of_round_[At(round)] == 0) EndOfRound(round);
}

void Engine::EndOfOp(int rank, std::int32_t op, const Slot& slot) {
  ++done_[At(op)];
  if (IsLeftOut(op, slot.round)) return;
  ended_s_[At(op)] = now_s_;
  RankTotals& totals = totals_[At(slot.round) * At(graph_.ranks()) + At(rank)];
  const StepGraph::Node& node = graph_.nodes[At(op)];
  const double seconds = now_s_ - slot.start_s;
  totals.end_s = now_s_;
  totals.busy_s[static_cast<std::size_t>(node.op_class)] += seconds;
  if (node.slot % kQueueCount == static_cast<int>(Queue::kCompute)) totals.compute_s += seconds;
  if (!options_.timeline) return;
  records_.push_back({op, StepOf(op, slot.round), slot.ready_s, slot.start_s, now_s_});
}

// Looks again at all that waited for the op; whoever still waits enters another op's list.
void Engine::Wake(std::int32_t op) {
  std::int32_t waiter = waiters_[At(op)];
  waiters_[At(op)] = -1;
  const auto slots = static_cast<std::int32_t>(slots_.size());
  while (waiter >= 0) {
    if (waiter < slots) {
      const std::int32_t next = slots_[At(waiter)].next;
      TryStart(waiter);
      waiter = next;
      continue;
    }
    const int rank = waiter - slots;
    waiter = next_host_waiter_[At(rank)];
    hosts_[At(rank)].waits_for = -1;
    hosts_[At(rank)].free_s = std::max(hosts_[At(rank)].free_s, now_s_);
    AdvanceHost(rank);
  }
}

void Engine::EndOfRound(std::int32_t round) {
  round_end_s_[At(round)] = now_s_;
  rounds_done_ = round + 1;
  if (rounds_done_ == rounds_) stopped_ = true;
  const int step = round - fill_;
  if (step < 1) return;
  const double period = now_s_ - StepEnd(step - 1);
  const double before = StepEnd(step - 1) - (step >= 2 ? StepEnd(step - 2) : 0.0);
  cycle_ = 1;
  const auto differ = [this](double a, double b) {
    return std::abs(a - b) > options_.tolerance * std::max(a, b);
  };
  if (differ(period, before)) {
    // What one step leaves for the next may make two periods take turns.
    if (step < 4) return;
    const double earlier = StepEnd(step - 2) - StepEnd(step - 3);
    const double earliest = StepEnd(step - 3) - StepEnd(step - 4);
    if (differ(period, earlier) || differ(before, earliest)) return;
    cycle_ = 2;
  }
  stable_ = stable_ || steps() >= options_.min_steps;
  if (steps() >= options_.min_steps) stopped_ = true;
}

Engine::Blocked Engine::BlockedAt(std::int32_t slot_number) const {
  const Slot& slot = slots_[At(slot_number)];
  if (slot.state == State::kDone || slot.state == State::kRunning) return {};
  const std::int32_t op = HeadOf(slot, slot_number);
  Blocked blocked{.op = op, .step = StepOf(op, slot.round)};
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
