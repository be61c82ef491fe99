// Arrows between the slices of a trace: from a send to its receive, and from an op of a forecast to
// its measured counterpart. chrome_trace.h writes them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "traces/metrics/skew.h"
#include "traces/timeline.h"

namespace foretrain {

// A slice of the trace, at which a flow begins or ends.
struct FlowEnd {
  int process = 0;
  int thread = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

// `from` starts no later than `to`: a flow must not end before it begins.
struct TraceFlow {
  std::string_view name{};  // "counterpart", "transfer"
  FlowEnd from{};
  FlowEnd to{};
};

// Which spans of a run are joined. Borrowed.
struct FlowOptions {
  const CommunicationGroups* groups = nullptr;  // by which sends find receives; null: none do
  // The step whose spans are joined to those of the run before with such a step.
  std::optional<std::int32_t> paired_step{};
  // Parallel to the run's spans: ids by which they are joined, kNoOp for none. Empty: their own.
  std::span<const OpId> counterparts{};
};

// Collects the flows of one run after another.
class TraceFlows {
 public:
  void BeginRun(const FlowOptions& options);
  // The next span of the run, in the order of its timeline, and its slice. Slices without a length
  // enclose no time, so they have no flows.
  void Add(const Span& span, const FlowEnd& slice);
  // The flows within the run and to the run before.
  std::vector<TraceFlow> TakeRun();

 private:
  using Key = std::pair<std::int16_t, OpId>;             // rank, op
  using Transfer = std::tuple<OpId, std::int32_t, int>;  // send, step, pipeline

  void AddTransfer(const Span& span, const FlowEnd& slice);

  FlowOptions options_;
  std::size_t spans_ = 0;
  std::map<Key, FlowEnd> before_, paired_;                   // of the run before and of this one
  std::map<Transfer, std::pair<Queue, FlowEnd>> transfers_;  // that miss their other half
  std::vector<TraceFlow> flows_;
};

}  // namespace foretrain
