// What a step's time is made of, and from which part the difference to the forecast comes. Parts
// are exclusive and sum to the step, so that their differences sum to that of the steps. Leaves out
// single ops (op_groups.h) and drawing.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/compare/attribution.h"
#include "ui/view_model/sides.h"

namespace foretrain::ui {

// Each moment of a rank's step belongs to one of these.
enum class TimePart : std::uint8_t {
  // compute: a class counts where none of the classes before it runs
  kGemm,
  kAttention,
  kMemoryBound,
  // communication with no compute beside it
  kTpComm,
  kCpComm,
  kEpComm,
  kDpComm,
  kPpComm,
  kCopy,  // copies with neither beside them
  // nothing on the device, by cause (traces/metrics/idle.h)
  kInputWait,
  kPeerWait,
  kHostWait,
  kDrain,
  // what a rank's step is shorter than that of the slowest rank
  kUneven,
};
inline constexpr int kTimePartCount = 14;

// "GEMM", "tp exposed", "waiting for inputs".
std::string_view Name(TimePart part);
// What the name stands for, in one sentence.
std::string_view Explain(TimePart part);

// One step summed over ranks, so that it stays in whole nanoseconds: the parts sum to
// `ranks` * `step_ns`.
struct StepParts {
  std::int64_t step_ns = 0;  // the longest window of any rank
  std::int64_t ranks = 0;
  std::array<std::int64_t, kTimePartCount> rank_ns{};

  std::int64_t Of(TimePart part) const { return rank_ns[static_cast<std::size_t>(part)]; }
  // Mean over ranks.
  double Seconds(TimePart part) const;
};

// The parts of the chosen step of each side; nothing where the run is missing or has no step.
//
//   ranks  that count: of those, the ranks of which both runs know the step
//
// Exclusive class times and idle causes are those of traces/metrics. O(rank steps).
std::array<std::optional<StepParts>, 2> PartsOf(const SidePair& sides,
                                                const std::vector<int>& ranks);

// One step of the way from the predicted to the measured step time.
struct WaterfallBar {
  std::string name;
  std::string explained;
  double from_s = 0.0;  // where the bars before it ended
  double to_s = 0.0;
  double error_s = 0.0;  // one standard deviation; 0: none known

  double DeltaS() const { return to_s - from_s; }
};

// Bars start at `predicted_s`, each where the one before it ends, and the last ends at
// `measured_s`.
struct Waterfall {
  double predicted_s = 0.0;
  double measured_s = 0.0;
  std::vector<WaterfallBar> bars;
};

// By what the time is spent on: a bar for each part that either step has, in the order of TimePart.
Waterfall WaterfallOf(const StepParts& predicted, const StepParts& measured);

// By whose work made the step longer (sim/compare/attribution.h), and what that does not explain.
Waterfall WaterfallOf(const Attribution& attribution);

}  // namespace foretrain::ui
