// One loop over a step: ranks advance along their issue order until an op contends or waits, then
// the event heap decides. The parts share the engine's records, so they stay in one file.
#include "sim/simulate/engine.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>

namespace foretrain {
namespace {

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace

// Memory for records is reserved once, because a step has up to millions of ops. The ring of issue
// times has a power of two entries, so that an instance is mapped to its entry by a mask.
Engine::Engine(const StepGraph& graph, const ProgramCosts& costs, const SimulateOptions& options)
    : graph_(graph),
      costs_(costs),
      options_(options),
      contended_(options.contention && costs.contended()),
      in_parts_(!graph.overlaps && options.replay == nullptr && !options.launches),
      fill_(graph.overlaps ? 1 : 0),
      rounds_(options.max_steps + fill_),
      slots_(At(graph.ranks()) * kQueueCount),
      hosts_(At(graph.ranks())),
      pending_(At(graph.ranks())),
      channels_(graph.channel_members.size()),
      left_of_round_(At(rounds_), graph.ops()),
      round_end_s_(At(rounds_), 0.0),
      totals_(At(rounds_) * At(graph.ranks())) {
  for (std::vector<double>& ended_s : ended_s_) ended_s.resize(graph.awaited.size(), 0.0);
  issue_ring_ = static_cast<std::int64_t>(std::bit_ceil(At(options.run_ahead)));
  issued_.resize(At(graph.ranks()) * At(issue_ring_));
  transfers_.resize(slots_.size());
  if (contended_) {
    const auto last = std::max_element(costs.domain.begin(), costs.domain.end());
    machines_.resize(At(last == costs.domain.end() ? 0 : *last + 1), SharedMachine(costs));
  }
  if (options.timeline) {
    records_.reserve(At(graph.ops()) * (options.last_step ? 2 : At(options.min_steps + 1)));
  }
}

// Repeats until nothing can go on: play all that needs no clock, update the rates of shared
// machines, then advance the clock to the next event. Ops left over when the heap is empty wait for
// one another.
bool Engine::Run(const std::function<bool()>& cancelled) {
  cancelled_ = &cancelled;
  for (std::size_t s = 0; s < slots_.size(); ++s) {
    Slot& slot = slots_[s];
    slot.rank = static_cast<std::int32_t>(s / kQueueCount);
    slot.queue = static_cast<std::int32_t>(s % kQueueCount);
    slot.first = -graph_.first_op[At(slot.rank)];
    if (graph_.queue_begin[s] == graph_.queue_begin[s + 1]) {
      slot.state = State::kDone;
      continue;
    }
    slot.position = graph_.queue_begin[s];
    slot.op = graph_.queue_ops[At(slot.position)];
    MarkIdle(static_cast<std::int32_t>(s));
  }
  for (;;) {
    Drain();
    if (stopped_) break;
    // Rates change once for all events of one point in time.
    if (!changed_machines_.empty() && (heap_.empty() || heap_.front().time_s > now_s_)) {
      FlushMachines();
    }
    if (heap_.empty()) break;
    std::pop_heap(heap_.begin(), heap_.end(), Later{});
    const Event event = heap_.back();
    heap_.pop_back();
    Handle(event);
  }
  deadlocked_ = !stopped_ && rounds_done_ < rounds_ && graph_.ops() > 0;
  return was_cancelled_;
}

void Engine::Push(double time_s, Kind kind, std::int32_t index, std::int32_t version) {
  heap_.push_back({time_s, kind, index, version});
  std::push_heap(heap_.begin(), heap_.end(), Later{});
}

// Machine events of an older flush are ignored: the set of running ops has changed since.
void Engine::Handle(const Event& event) {
  if (event.kind == Kind::kMachine) {
    SharedMachine& machine = machines_[At(event.index)];
    if (machine.version != event.version) return;
    now_s_ = event.time_s;
    scratch_.clear();
    TouchMachine(event.index);
    machine.TakeEnded(now_s_, scratch_);
    for (const std::int32_t slot : scratch_) End(slot, now_s_);
    return;
  }
  now_s_ = event.time_s;
  if (event.kind == Kind::kTimer) {
    Arrive(event.index, now_s_);
    return;
  }
  if (event.kind == Kind::kBegin) return BeginContending(event.index);
  const int rank = slots_[At(event.index)].rank;
  const std::int32_t row = graph_.nodes[At(slots_[At(event.index)].op)].row;
  const std::int32_t domain = costs_.domain[At(rank)];
  TouchMachine(domain);
  machines_[At(domain)].AddThreads(-costs_.load[At(row)] * costs_.weight[At(rank)]);
  End(event.index, now_s_);
}

// Lists a machine at most once per flush. Call this before the call that changes the machine.
void Engine::TouchMachine(std::int32_t domain) {
  if (!machines_[At(domain)].changed()) changed_machines_.push_back(domain);
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

// Marks a queue whose next op may be tried, and lists its rank once.
void Engine::MarkIdle(std::int32_t slot_number) {
  Slot& slot = slots_[At(slot_number)];
  slot.state = State::kIdle;
  Pending& pending = pending_[At(slot.rank)];
  pending.idle |= 1U << slot.queue;
  if (pending.listed) return;
  pending.listed = true;
  listed_ranks_.push_back(slot.rank);
}

// Plays listed ranks until no queue can go on without the clock.
void Engine::Drain() {
  while (!listed_ranks_.empty() && !stopped_) {
    const int rank = listed_ranks_.back();
    listed_ranks_.pop_back();
    Advance(rank);
    pending_[At(rank)].listed = false;
  }
}

// Plays ops of a rank in its order of issue, starting at each idle queue. The inner loop follows
// that order from queue to queue as long as the next op's queue is idle at it. Whole instructions
// are played at once where possible (PlayPart).
void Engine::Advance(int rank) {
  Pending& pending = pending_[At(rank)];
  const std::int32_t end = graph_.first_op[At(rank) + 1];
  if (--until_asking_ <= 0) AskWhetherCancelled();
  while (pending.idle != 0 && !stopped_) {
    std::int32_t slot_number = rank * kQueueCount + std::countr_zero(pending.idle);
    for (;;) {
      const Slot& slot = slots_[At(slot_number)];
      std::int32_t next = slot.op + 1;
      pending.idle &= ~(1U << slot.queue);
      const bool in_one_go =
          in_parts_ && slot.round == rounds_done_ && graph_.nodes[At(slot.op)].begins_part;
      const std::int32_t number = in_one_go ? graph_.PartAt(slot.op) : -1;
      if (in_one_go && PlayPart(slot.round, number)) {
        next += graph_.runs[At(graph_.parts[At(number)].run)].size() - 1;
      } else if (!Play(slot_number)) {
        break;
      }
      --until_asking_;
      if (next == end || stopped_) break;
      slot_number = graph_.nodes[At(next)].slot;
      if (slots_[At(slot_number)].op != next || slots_[At(slot_number)].state != State::kIdle) {
        break;
      }
    }
  }
}

// Plays the next op of an idle queue as far as its times are known. Returns true where its end is
// known. An op of a later round with a start in the future waits for the clock, because the run may
// stop before.
bool Engine::Play(std::int32_t slot_number) {
  Slot& slot = slots_[At(slot_number)];
  const std::int64_t instance = slot.first + slot.op;
  if (!IssueUpTo(slot.rank, instance)) {
    slot.state = State::kIssue;
    return false;
  }
  if (!LookAtInputs(slot_number)) return false;
  if (IsLeftOut(slot.op, slot.round)) {
    LeaveOut(slot_number);
    return true;
  }
  const double inputs_s = std::max(slot.inputs_s, IssuedSeconds(slot_number));
  double start_s = std::max(inputs_s, slot.free_s);
  // A queue that had to wait for inputs is asleep and needs wake_s to go on.
  if (!IsHostQueue(slot) && inputs_s > slot.free_s) start_s += costs_.wake_s;
  start_s = std::max(start_s, slot.passed_s);
  // ready_s excludes delay by the host: an op issued late was ready before.
  slot.ready_s = std::max(slot.inputs_s, slot.ended_s);
  if (start_s > now_s_ && slot.round > rounds_done_) {
    slot.state = State::kTimer;
    Push(start_s, Kind::kTimer, slot_number);
    return false;
  }
  return Arrive(slot_number, start_s);
}

// Checks that all predecessors of the queue's next op have ended. Otherwise the queue waits for the
// first that has not. The end of a predecessor that its queue has passed by two rounds is not
// looked up: another input ends later, and its entry in the table is overwritten.
bool Engine::LookAtInputs(std::int32_t slot_number) {
  Slot& slot = slots_[At(slot_number)];
  const std::int32_t first_slot = slot_number - slot.queue;
  const std::int32_t last = graph_.nodes[At(slot.op) + 1].first_pred;
  if (slot.pred < 0) slot.pred = graph_.nodes[At(slot.op)].first_pred;
  for (; slot.pred < last; ++slot.pred) {
    const StepGraph::Pred& pred = graph_.preds[At(slot.pred)];
    const std::int32_t round = slot.round - pred.distance;
    if (round < 0) continue;
    Slot& from = slots_[At(first_slot + pred.queue)];
    if (!HasEnded(from, pred.from, round)) {
      slot.state = State::kInput;
      slot.next = from.waiter;
      from.waiter = slot_number;
      return false;
    }
    if (HasEnded(from, pred.from, round + 2)) continue;
    const double ended_s = EndedAt(round, pred.from);
    if (ended_s < 0) {
      slot.passed_s = std::max(slot.passed_s, -ended_s);
    } else {
      slot.inputs_s = std::max(slot.inputs_s, ended_s);
    }
  }
  return true;
}

// Arrives at the rendezvous of a communication op. The last member to arrive starts the op for all
// of them, at the latest time of arrival.
bool Engine::Arrive(std::int32_t slot_number, double time_s) {
  Slot& slot = slots_[At(slot_number)];
  const std::int32_t number = graph_.nodes[At(slot.op)].channel;
  if (number < 0) return Begin(slot_number, time_s);
  Channel& channel = channels_[At(number)];
  slot.ready_s = time_s;
  slot.state = State::kPeers;
  slot.next = channel.first;
  channel.first = slot_number;
  channel.latest_s = std::max(channel.latest_s, time_s);
  if (++channel.arrived < graph_.channel_members[At(number)]) return false;
  const double start_s = channel.latest_s;
  std::int32_t member = channel.first;
  channel = {};
  bool ended = false;
  while (member >= 0) {
    const std::int32_t next = slots_[At(member)].next;
    const bool member_ended = Begin(member, start_s);
    if (member == slot_number) ended = member_ended;
    member = next;
  }
  return ended;
}

// Starts an op. Without contention its end is known at once; otherwise the clock must reach its
// start first.
bool Engine::Begin(std::int32_t slot_number, double start_s) {
  Slot& slot = slots_[At(slot_number)];
  const StepGraph::Node& node = graph_.nodes[At(slot.op)];
  slot.state = State::kRunning;
  slot.start_s = start_s;
  if (contended_ && node.contends) {
    if (start_s > now_s_) {
      Push(start_s, Kind::kBegin, slot_number);
    } else {
      BeginContending(slot_number);
    }
    return false;
  }
  double seconds = costs_.Alone(node.row);
  if (options_.replay != nullptr) {
    const double replayed =
        Replayed(options_.replay->seconds, slot.rank, slot.op, StepOf(slot.op, slot.round));
    if (!std::isnan(replayed)) seconds = replayed;
  }
  End(slot_number, start_s + seconds);
  return true;
}

// Starts an op on a shared machine. An op with a model time is a fluid whose end depends on others.
// A replayed op has a fixed length, but its threads still slow others down.
void Engine::BeginContending(std::int32_t slot_number) {
  const Slot& slot = slots_[At(slot_number)];
  const int rank = slot.rank;
  const std::int32_t row = graph_.nodes[At(slot.op)].row;
  double seconds = costs_.Alone(row);
  bool fluid = seconds > 0.0;
  if (options_.replay != nullptr) {
    const double replayed =
        Replayed(options_.replay->seconds, rank, slot.op, StepOf(slot.op, slot.round));
    if (!std::isnan(replayed)) {
      seconds = replayed;
      fluid = false;
    }
  }
  const double threads = costs_.load[At(row)] * costs_.weight[At(rank)];
  const std::int32_t domain = costs_.domain[At(rank)];
  TouchMachine(domain);
  if (fluid) {
    machines_[At(domain)].Begin(slot_number, row, threads);
    return;
  }
  machines_[At(domain)].AddThreads(threads);
  Push(now_s_ + seconds, Kind::kEnd, slot_number);
}

// The next op of a device queue can start gap_s after this end; the host queue has no gap.
void Engine::End(std::int32_t slot_number, double end_s) {
  Slot& slot = slots_[At(slot_number)];
  Record(slot, end_s);
  if (graph_.awaited.Has(slot.op)) EndedAt(slot.round, slot.op) = end_s;
  slot.ended_s = end_s;
  slot.free_s = IsHostQueue(slot) ? end_s : end_s + costs_.gap_s;
  slot.passed_s = 0.0;
  GoOn(slot_number, end_s);
}

// Skips an op of the first round that serves no step. It takes no time but keeps its place in the
// order: a negative end in the table marks it.
void Engine::LeaveOut(std::int32_t slot_number) {
  Slot& slot = slots_[At(slot_number)];
  const double passed_s = std::max({slot.passed_s, slot.inputs_s, slot.ended_s});
  if (graph_.awaited.Has(slot.op)) EndedAt(slot.round, slot.op) = -passed_s;
  slot.passed_s = passed_s;
  GoOn(slot_number, passed_s);
}

void Engine::Record(const Slot& slot, double end_s) {
  RankTotals& totals = totals_[At(slot.round) * At(graph_.ranks()) + At(slot.rank)];
  const StepGraph::Node& node = graph_.nodes[At(slot.op)];
  const double seconds = end_s - slot.start_s;
  totals.end_s = std::max(totals.end_s, end_s);
  totals.busy_s[static_cast<std::size_t>(node.op_class)] += seconds;
  if (slot.queue == static_cast<int>(Queue::kCompute)) totals.compute_s += seconds;
  if (!options_.timeline) return;
  records_.push_back({slot.op, StepOf(slot.op, slot.round), slot.ready_s, slot.start_s, end_s});
}

// Moves the queue past its next `ops` ops, into the next round at their end.
void Engine::Skip(std::int32_t slot_number, std::int32_t ops) {
  Slot& slot = slots_[At(slot_number)];
  slot.position += ops;
  if (slot.position == graph_.queue_begin[At(slot_number) + 1]) {
    slot.position = graph_.queue_begin[At(slot_number)];
    ++slot.round;
    slot.first += OpsOf(slot.rank);
  }
  slot.op = graph_.queue_ops[At(slot.position)];
  slot.pred = -1;
  if (slot.round < rounds_) return MarkIdle(slot_number);
  slot.state = State::kDone;
  pending_[At(slot.rank)].idle &= ~(1U << slot.queue);
}

// Advances the queue to its next op after the end of one at `end_s`. Everything that waits for the
// ended op is woken here.
void Engine::GoOn(std::int32_t slot_number, double end_s) {
  Slot& slot = slots_[At(slot_number)];
  const int rank = slot.rank;
  const std::int32_t round = slot.round;
  if (IsTransfer(slot)) {
    transfers_[At(slot_number)].pop_front();
  } else {
    IssuedAt(rank, slot.first + slot.op).ended_s = end_s;
  }
  slot.inputs_s = 0.0;
  Skip(slot_number, 1);
  if (IsHostQueue(slot)) {
    hosts_[At(rank)].working = false;
    hosts_[At(rank)].free_s = std::max(hosts_[At(rank)].free_s, end_s);
    WakeIssue(rank);
  }
  if (slot.waiter >= 0) Wake(slot);
  round_end_s_[At(round)] = std::max(round_end_s_[At(round)], end_s);
  if (--left_of_round_[At(round)] == 0) EndOfRound(round);
}

// Wakes the queues and hosts that waited for the op that has just ended. Those waiting for a later
// op of the same queue are put back in the list. Numbers from slots_.size() on stand for hosts.
void Engine::Wake(Slot& slot) {
  const auto slots = static_cast<std::int32_t>(slots_.size());
  std::int32_t waiter = slot.waiter;
  slot.waiter = -1;
  while (waiter >= 0) {
    if (waiter >= slots) {
      Host& host = hosts_[At(waiter - slots)];
      const std::int32_t next = host.next_waiter;
      if (HasEnded(slot, host.waits_for, host.waits_in)) {
        host.waits_for = -1;
        WakeIssue(waiter - slots);
      } else {
        host.next_waiter = slot.waiter;
        slot.waiter = waiter;
      }
      waiter = next;
      continue;
    }
    Slot& other = slots_[At(waiter)];
    const std::int32_t next = other.next;
    const StepGraph::Pred& pred = graph_.preds[At(other.pred)];
    if (HasEnded(slot, pred.from, other.round - pred.distance)) {
      MarkIdle(waiter);
    } else {
      other.next = slot.waiter;
      slot.waiter = waiter;
    }
    waiter = next;
  }
}

}  // namespace foretrain
