// The numbers above the timeline: each predicted and measured, and their difference. traces/metrics
// computes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/metrics/metrics.h"
#include "ui/run_view.h"

namespace foretrain::ui {

enum class Tone : std::uint8_t {
  kPlain,
  kMore,   // measured above forecast
  kLess,   // measured below forecast
  kAmber,  // a reason to doubt the metrics
};

struct Number {
  std::string name{};       // "step time"
  std::string predicted{};  // "182 ms"; empty if unknown
  std::string measured{};
  std::string error{};  // "+3.9 %", or "+1.2 pt" between two fractions
  Tone tone = Tone::kPlain;
  bool quality = false;  // describes the quality of the recording
};

// Results of pairing the two runs.
struct PairingCounts {
  std::int64_t pairs = 0;
  std::int64_t predicted_alone = 0;
  std::int64_t measured_alone = 0;
  std::int64_t drift_ns = 0;  // of the rank that ended the step farthest from its forecast
};

// Step time, tokens/s, MFU, exposed communication, overlap, bubble, idle and peak device memory, as
// far as known. Then drift, unpaired ops, coverage, dropped and invalid records, recording
// overhead, clock error and emulation. Either run may be null.
std::vector<Number> NumbersOf(const RunView* predicted, const Metrics* predicted_metrics,
                              const RunView* measured, const Metrics* measured_metrics,
                              const PairingCounts& pairing);

}  // namespace foretrain::ui
