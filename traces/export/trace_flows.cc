#include "traces/export/trace_flows.h"

namespace foretrain {
namespace {

bool IsSend(Queue queue) { return queue == Queue::kSendNext || queue == Queue::kSendPrev; }

TraceFlow FlowOf(std::string_view name, const FlowEnd& a, const FlowEnd& b) {
  return a.start_ns <= b.start_ns ? TraceFlow{name, a, b} : TraceFlow{name, b, a};
}

}  // namespace

void TraceFlows::BeginRun(const FlowOptions& options) {
  options_ = options;
  spans_ = 0;
  transfers_.clear();
}

void TraceFlows::Add(const Span& span, const FlowEnd& slice) {
  const std::size_t index = spans_++;
  if (slice.start_ns == slice.end_ns) return;
  AddTransfer(span, slice);
  if (options_.paired_step != span.step || span.queue == Queue::kHost) return;
  const OpId key = options_.counterparts.empty() ? span.op : options_.counterparts[index];
  if (key != kNoOp) paired_.try_emplace({span.rank, key}, slice);
}

// Keeps the first half of a transfer until its other half comes.
void TraceFlows::AddTransfer(const Span& span, const FlowEnd& slice) {
  if (options_.groups == nullptr || !IsTransfer(span.queue) || !IsValidId(span.op)) return;
  const int pipeline = GroupOf(*options_.groups, span);
  if (pipeline < 0) return;
  const auto [at, is_new] =
      transfers_.try_emplace({SendOf(span.op), span.step, pipeline}, span.queue, slice);
  if (is_new || IsSend(at->second.first) == IsSend(span.queue)) return;
  flows_.push_back(FlowOf("transfer", at->second.second, slice));
  transfers_.erase(at);
}

std::vector<TraceFlow> TraceFlows::TakeRun() {
  for (const auto& [key, slice] : paired_) {
    const auto other = before_.find(key);
    if (other != before_.end()) flows_.push_back(FlowOf("counterpart", other->second, slice));
  }
  if (options_.paired_step) before_ = std::move(paired_);
  paired_.clear();
  return std::exchange(flows_, {});
}

}  // namespace foretrain
