// What the view says about the span or the gap under the mouse. Leaves out drawing it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "traces/metrics/classes.h"
#include "traces/metrics/idle.h"
#include "ui/view_model/compare_model.h"

namespace foretrain::ui {

// One line of a tooltip: "measured", "4.31 ms".
struct HoverLine {
  std::string name;
  std::string value;
  Tone tone = Tone::kPlain;
};

struct HoverText {
  std::string title;     // "mlp.up"
  std::string subtitle;  // "forward layer 12 mb 3"
  std::vector<HoverLine> lines;
};

// Why nothing ran on a queue before a span.
struct Wait {
  std::int64_t start_ns = 0;  // own time of the run
  std::int64_t end_ns = 0;
  ClassTimes classes{};  // what else ran meanwhile
  IdleCauses idle{};     // sums to classes.host_ns + classes.idle_ns

  std::int64_t LengthNs() const { return end_ns - start_ns; }
};

// The gap between `span` and the one before it on its queue, or the start of its step; nothing
// where there is none. O(spans of the rank in the gap + log n).
std::optional<Wait> WaitBefore(const Timeline& timeline, std::uint32_t span,
                               std::int64_t not_before_ns);

// "120 us: 80 us tp collective, 40 us for its inputs": the length and the causes, largest first.
std::string DescribeWait(const Wait& wait);

// What the block calls the op, else what its id says: "mlp.up", "send layer 8 mb 2".
std::string OpTitle(const RunView& run, OpId op);

// The label of a slot: "F3", or "forward mb 3" where `wide`.
std::string SlotLabel(OpId op, bool wide);

// The label of an instruction: "layer 5", "embedding".
std::string InstructionLabel(const RunView& run, OpId op);

// Name, place, both times and their difference, and the wait before it. `lane_rank`: the lane's.
HoverText HoverOfSpan(const CompareModel& model, int lane_rank, const SpanRef& ref);

// The same with all else that is stored of the span: times, queue, bytes, id, and of the twin.
HoverText DetailsOfSpan(const CompareModel& model, int lane_rank, const SpanRef& ref);

// The wait that a moment without a span on the compute queue is part of.
std::optional<HoverText> HoverOfGap(const CompareModel& model, std::size_t lane, Side side,
                                    double displayed_ns);

}  // namespace foretrain::ui
