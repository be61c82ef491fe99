// Splits a step's time into exclusive parts, and its error into the same parts. Parts sum to the
// step, so their differences sum to the difference of the steps. Leaves out single ops
// (op_groups.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/compare/attribution.h"
#include "ui/view_model/runs/sides.h"

namespace foretrain::ui {

// Each moment of a rank's step belongs to exactly one part.
enum class TimePart : std::uint8_t {
  // compute: a class counts if none of the classes before it runs
  kGemm,
  kAttention,
  kMemoryBound,
  // communication not overlapped with compute
  kTpComm,
  kCpComm,
  kEpComm,
  kDpComm,
  kPpComm,
  kCopy,  // copies overlapped with neither
  // nothing on the device, by cause (traces/metrics/idle.h)
  kInputWait,
  kPeerWait,
  kHostWait,
  kDrain,
  // time by which a rank's step is shorter than the slowest rank's
  kUneven,
};
inline constexpr int kTimePartCount = 14;

// "GEMM", "tp exposed", "dependency wait".
std::string_view Name(TimePart part);
// Meaning of the part in one sentence.
std::string_view Explain(TimePart part);

// One step summed over ranks, in whole nanoseconds: the parts sum to `ranks` * `step_ns`.
struct StepParts {
  std::int64_t step_ns = 0;  // longest window of any rank
  std::int64_t ranks = 0;
  std::array<std::int64_t, kTimePartCount> rank_ns{};

  std::int64_t Of(TimePart part) const { return rank_ns[static_cast<std::size_t>(part)]; }
  // Mean over ranks.
  double Seconds(TimePart part) const;
};

// The parts of the chosen step of each side; nullopt if the run is missing or has no step.
//
//   ranks  ranks to include; those whose step some present run does not know are skipped
//
// Class times and idle causes come from traces/metrics. O(rank steps).
std::array<std::optional<StepParts>, 2> PartsOf(const SidePair& sides,
                                                const std::vector<int>& ranks);

// One bar on the path from the predicted to the measured step time.
struct WaterfallBar {
  std::string name;
  std::string explained;
  double from_s = 0.0;  // end of the previous bar
  double to_s = 0.0;
  double error_s = 0.0;  // one standard deviation; 0 if unknown

  double DeltaS() const { return to_s - from_s; }
};

// The first bar starts at `predicted_s`, each starts at the end of the one before it, and the last
// ends at `measured_s`.
struct Waterfall {
  double predicted_s = 0.0;
  double measured_s = 0.0;
  std::vector<WaterfallBar> bars;
};

// By kind of time: one bar for each part that either step has, in the order of TimePart.
Waterfall WaterfallOf(const StepParts& predicted, const StepParts& measured);

// By cause (sim/compare/attribution.h), and a last bar for the unexplained rest.
Waterfall WaterfallOf(const Attribution& attribution);

}  // namespace foretrain::ui
