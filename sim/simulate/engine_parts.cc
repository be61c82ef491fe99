// Part of Engine: plays whole instructions at once.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "sim/simulate/engine.h"

namespace foretrain {
namespace {

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace

// Plays an instruction with the same result as Play op by op, where all that it waits for is known.
// Returns false where it is not; then nothing has changed. Playing ops in one loop saves the lists
// of waiters and the search for the next idle queue.
bool Engine::PlayPart(std::int32_t round, std::int32_t number) {
  const StepGraph::Part& part = graph_.parts[At(number)];
  const int rank = graph_.nodes[At(part.first_op)].slot / kQueueCount;
  const std::span outer =
      std::span(graph_.outer)
          .subspan(At(part.first_outer),
                   At(graph_.parts[At(number) + 1].first_outer) - At(part.first_outer));
  if (!IsReady(rank, round, part, outer)) return false;
  const std::int32_t ops = graph_.runs[At(part.run)].size();
  const std::int64_t first = round * OpsOf(rank) + (part.first_op - graph_.first_op[At(rank)]);
  if (!MayIssue(rank, first, first + ops)) return false;
  EndPart(rank, round, part, PlayOps(rank, round, part, outer));
  return true;
}

// Checks that all queues of the part stand at it, and that its inputs have ended or are in the
// part.
bool Engine::IsReady(int rank, std::int32_t round, const StepGraph::Part& part,
                     std::span<const StepGraph::Outer> outer) const {
  const StepGraph::Run& run = graph_.runs[At(part.run)];
  const std::int32_t first_slot = rank * kQueueCount;
  for (const StepGraph::Run::Lane& lane : run.lanes) {
    const Slot& slot = slots_[At(first_slot + lane.queue)];
    if (slot.op != part.first_op + lane.first || slot.round != round) return false;
    if (slot.state == State::kIdle) continue;
    if (slot.state != State::kInput) return false;
    const StepGraph::Pred& pred = graph_.preds[At(slot.pred)];
    if (pred.distance > 0 || pred.from < part.first_op) return false;
  }
  for (const StepGraph::Outer& one : outer) {
    const std::int32_t in = round - one.pred.distance;
    if (in < 0) continue;
    if (!HasEnded(slots_[At(first_slot + one.pred.queue)], one.pred.from, in)) return false;
  }
  return true;
}

// Checks that the host has reached instances [first, end) and that no op holds it up there. The op
// run_ahead before each instance must have ended.
bool Engine::MayIssue(int rank, std::int64_t first, std::int64_t end) {
  const Host& host = hosts_[At(rank)];
  if (host.next >= end) return true;
  if (host.next < first || host.working || end - first > options_.run_ahead) return false;
  for (std::int64_t i = std::max<std::int64_t>(host.next, options_.run_ahead); i < end; ++i) {
    if (std::isnan(IssuedAt(rank, i - options_.run_ahead).ended_s)) return false;
  }
  return true;
}

// Computes the times of all ops of a part in order; returns the latest end. The rules are those of
// Play and Issue: the host's issue, then inputs, then the queue with its wake-up time.
double Engine::PlayOps(int rank, std::int32_t round, const StepGraph::Part& part,
                       std::span<const StepGraph::Outer> outer) {
  const StepGraph::Run& run = graph_.runs[At(part.run)];
  const std::int32_t first_slot = rank * kQueueCount;
  Host& host = hosts_[At(rank)];
  const std::int64_t first = round * OpsOf(rank) + (part.first_op - graph_.first_op[At(rank)]);
  part_ends_s_.resize(run.ops.size());
  auto next = outer.begin();
  double end_s = 0;
  for (std::int32_t i = 0; i < run.size(); ++i) {
    const StepGraph::Run::Op& op = run.ops[At(i)];
    Slot& slot = slots_[At(first_slot + op.queue)];
    Issued& issued = IssuedAt(rank, first + i);
    if (first + i >= host.next) {
      if (host.next >= options_.run_ahead) {
        host.free_s = std::max(host.free_s, IssuedAt(rank, host.next - options_.run_ahead).ended_s);
      }
      host.free_s += op.launch_s;
      issued.issued_s = host.free_s;
      ++host.next;
      ++host.op;
      totals_[At(round) * At(graph_.ranks()) + At(rank)].launch_s += op.launch_s;
    }
    double ready_s = 0;
    for (std::int32_t p = op.first_pred; p < run.ops[At(i) + 1].first_pred; ++p) {
      ready_s = std::max(ready_s, part_ends_s_[At(run.preds[At(p)])]);
    }
    for (; next != outer.end() && next->to == i; ++next) {
      const std::int32_t in = round - next->pred.distance;
      if (in < 0) continue;
      if (HasEnded(slots_[At(first_slot + next->pred.queue)], next->pred.from, in + 2)) continue;
      ready_s = std::max(ready_s, EndedAt(in, next->pred.from));
    }
    const double inputs_s = std::max(ready_s, issued.issued_s);
    double start_s = std::max(inputs_s, slot.free_s);
    if (inputs_s > slot.free_s) start_s += costs_.wake_s;
    const double op_end_s = start_s + op.seconds;
    if (options_.timeline) {
      records_.push_back(
          {part.first_op + i, round, std::max(ready_s, slot.ended_s), start_s, op_end_s});
    }
    slot.ended_s = op_end_s;
    slot.free_s = op_end_s + costs_.gap_s;
    issued.ended_s = op_end_s;
    part_ends_s_[At(i)] = op_end_s;
    const std::int32_t number = part.first_op + i;
    if (op.exported && graph_.awaited.Has(number)) EndedAt(round, number) = op_end_s;
    end_s = std::max(end_s, op_end_s);
  }
  return end_s;
}

// Moves the queues of the part behind it, adds its totals, and wakes those that waited for its ops.
void Engine::EndPart(int rank, std::int32_t round, const StepGraph::Part& part, double end_s) {
  const StepGraph::Run& run = graph_.runs[At(part.run)];
  const std::int32_t first_slot = rank * kQueueCount;
  Host& host = hosts_[At(rank)];
  if (host.op == OpsOf(rank)) {
    host.op = 0;
    ++host.round;
  }
  RankTotals& totals = totals_[At(round) * At(graph_.ranks()) + At(rank)];
  totals.end_s = std::max(totals.end_s, end_s);
  totals.compute_s += run.compute_s;
  for (std::size_t i = 0; i < totals.busy_s.size(); ++i) totals.busy_s[i] += run.busy_s[i];
  for (const StepGraph::Run::Lane& lane : run.lanes) {
    const std::int32_t slot_number = first_slot + lane.queue;
    Slot& slot = slots_[At(slot_number)];
    if (slot.state == State::kInput) LeaveWaiters(slot, slot_number);
    slot.inputs_s = slot.passed_s = 0.0;
    Skip(slot_number, lane.ops);
  }
  for (const StepGraph::Run::Lane& lane : run.lanes) {
    Slot& slot = slots_[At(first_slot + lane.queue)];
    if (slot.waiter >= 0) Wake(slot);
  }
  round_end_s_[At(round)] = std::max(round_end_s_[At(round)], end_s);
  left_of_round_[At(round)] -= run.size();
  if (left_of_round_[At(round)] == 0) EndOfRound(round);
}

// Takes the slot out of the list of waiters in which it stands.
void Engine::LeaveWaiters(Slot& slot, std::int32_t slot_number) {
  const StepGraph::Pred& pred = graph_.preds[At(slot.pred)];
  std::int32_t* link = &slots_[At(slot_number - slot.queue + pred.queue)].waiter;
  const auto slots = static_cast<std::int32_t>(slots_.size());
  while (*link != slot_number) {
    link = *link < slots ? &slots_[At(*link)].next : &hosts_[At(*link - slots)].next_waiter;
  }
  *link = slot.next;
}

}  // namespace foretrain
