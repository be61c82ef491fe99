#include "runtime/executor/graph_plan.h"

#include <limits>

#include "runtime/executor/rank_plan.h"

namespace foretrain {
namespace {

constexpr std::int16_t kMostTogether = std::numeric_limits<std::int16_t>::max();

}  // namespace

std::string_view WhyNotInGraph(const Op& op) {
  if (op.queue == Queue::kHost || op.queue == Queue::kCpu || op.queue == Queue::kNvme) {
    return "the host's threads do it";
  }
  if (IsCommunication(op.kind)) return "its members meet on the host";
  if (op.dropout > 0.0F) return "it draws other random numbers each step";
  switch (op.kind) {
    case OpKind::kAdamW:
    case OpKind::kSgd:
    case OpKind::kAdamWAmend:
    case OpKind::kSgdAmend:
      return "its learning rate and its step's number change";
    case OpKind::kAllToAllV:
      return "how much it moves follows counts";
    case OpKind::kCopy:
    case OpKind::kLoadBatch:
    case OpKind::kHostRead:
    case OpKind::kReadCounts:
      return "the host takes part in it";
    case OpKind::kOpaque:
      return "it is no kernel";
    default:
      return {};
  }
}

void MarkStretches(RankPlan& plan) {
  const auto at = [&](std::int32_t number) -> PlannedOp& {
    return plan.ops[static_cast<std::size_t>(number)];
  };
  for (const std::vector<std::int32_t>& queue : plan.queues) {
    for (std::size_t first = 0; first < queue.size();) {
      std::size_t behind = first + 1;  // the stretch
      const PlannedOp& begin = at(queue[first]);
      while (begin.steady && behind < queue.size()) {
        const PlannedOp& last = at(queue[behind - 1]);
        const PlannedOp& next = at(queue[behind]);
        if (last.wakes != 0 || !next.steady || next.wait_count != 0 ||
            InstructionOf(next.id) != InstructionOf(begin.id) ||
            behind - first == static_cast<std::size_t>(kMostTogether)) {
          break;
        }
        ++behind;
      }
      at(queue[first]).together = static_cast<std::int16_t>(behind - first);
      first = behind;
    }
  }
}

}  // namespace foretrain
