// When buffers begin and end: by the ops that touch them.
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/executor/worker.h"

namespace foretrain {

void Worker::Bear(const PlannedOp& op, std::int64_t now_ns) {
  changed_.clear();
  for (std::int32_t i = 0; i < op.buffer_count; ++i) {
    const std::int32_t buffer = rank_.plan_.touched[static_cast<std::size_t>(op.first_buffer + i)];
    auto& state = rank_.buffers_[static_cast<std::size_t>(buffer)];
    rank_.arena_->Bear(buffer);
    if (state.live.load(std::memory_order_relaxed) || state.live.exchange(true)) continue;
    changed_.push_back(buffer);
  }
  if (rank_.shared_.options.record_memory) rank_.ledger_.Change(now_ns, changed_, 1);
}

void Worker::Bury(const PlannedOp& op, std::int64_t now_ns) {
  changed_.clear();
  for (std::int32_t i = 0; i < op.buffer_count; ++i) {
    const std::int32_t buffer = rank_.plan_.touched[static_cast<std::size_t>(op.first_buffer + i)];
    auto& state = rank_.buffers_[static_cast<std::size_t>(buffer)];
    if (state.left.fetch_sub(1) != 1) continue;
    state.left.store(rank_.plan_.accessors[static_cast<std::size_t>(buffer)]);
    rank_.arena_->Bury(buffer);
    state.live.store(false);
    changed_.push_back(buffer);
  }
  if (rank_.shared_.options.record_memory) rank_.ledger_.Change(now_ns, changed_, -1);
}

}  // namespace foretrain
