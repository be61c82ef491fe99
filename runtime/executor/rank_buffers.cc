// Lifetimes of buffers, given by the ops that touch them.
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/executor/rank_run.h"

namespace foretrain {

// Called before the op runs. Several threads may start a buffer's ops at once: the exchange lets
// one of them count the buffer.
void RankRun::Bear(const PlannedOp& op, std::int64_t now_ns, std::vector<std::int32_t>& changed) {
  changed.clear();
  for (std::int32_t i = 0; i < op.buffer_count; ++i) {
    const std::int32_t buffer = plan_.touched[static_cast<std::size_t>(op.first_buffer + i)];
    auto& state = buffers_[static_cast<std::size_t>(buffer)];
    arena_->Bear(buffer);
    if (state.live.load(std::memory_order_relaxed) || state.live.exchange(true)) continue;
    changed.push_back(buffer);
  }
  if (shared_.options.record_memory) ledger_.Change(now_ns, changed, 1);
}

// Called after the op. The thread whose op is the last of the step ends the buffer's lifetime and
// resets the counter for the next step.
void RankRun::Bury(const PlannedOp& op, std::int64_t now_ns, std::vector<std::int32_t>& changed) {
  changed.clear();
  for (std::int32_t i = 0; i < op.buffer_count; ++i) {
    const std::int32_t buffer = plan_.touched[static_cast<std::size_t>(op.first_buffer + i)];
    auto& state = buffers_[static_cast<std::size_t>(buffer)];
    if (state.left.fetch_sub(1) != 1) continue;
    state.left.store(plan_.accessors[static_cast<std::size_t>(buffer)]);
    arena_->Bury(buffer);
    state.live.store(false);
    changed.push_back(buffer);
  }
  if (shared_.options.record_memory) ledger_.Change(now_ns, changed, -1);
}

}  // namespace foretrain
