// Text of tooltips and details for the span or gap under the mouse.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "traces/metrics/classes.h"
#include "traces/metrics/idle.h"
#include "ui/view_model/runs/compare_model.h"

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
  ClassTimes classes{};  // what else ran during the gap
  IdleCauses idle{};     // causes; they sum to classes.host_ns + classes.idle_ns

  std::int64_t LengthNs() const { return end_ns - start_ns; }
};

// The gap between `span` and the previous one on its queue, or the start of its step; `nullopt` if
// there is no gap. O(spans of the rank).
std::optional<Wait> WaitBefore(const Timeline& timeline, std::uint32_t span,
                               std::int64_t not_before_ns);

// "80 us communication, 40 us dependency wait": the causes of a gap, largest first.
std::string DescribeWait(const Wait& wait);

// The op's name in its block, otherwise a description of its id: "mlp.up", "send layer 8 mb 2".
std::string OpTitle(const RunView& run, OpId op);

// Label of a slot: "F3", or "forward mb 3" if `wide`.
std::string SlotLabel(OpId op, bool wide);

// Label of an instruction: "layer 5", "embedding".
std::string InstructionLabel(const RunView& run, OpId op);

// Name, place, both times and their difference, its kernels if the device recorded them, and the
// wait before it. `lane_rank`: rank of the lane.
HoverText HoverOfSpan(const CompareModel& model, int lane_rank, const SpanRef& ref);

// The same with all other stored data of the span: times, queue, bytes, id, launches of its
// kernels, and its counterpart.
HoverText DetailsOfSpan(const CompareModel& model, int lane_rank, const SpanRef& ref);

// The wait that contains a moment without a span on the compute queue; `nullopt` if there is none.
std::optional<HoverText> HoverOfGap(const CompareModel& model, std::size_t lane, Side side,
                                    double displayed_ns);

}  // namespace foretrain::ui
