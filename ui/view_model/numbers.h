// The numbers over the picture: each predicted and measured, and how far they are apart. Leaves out
// how they are computed (traces/metrics).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/metrics/metrics.h"
#include "ui/run_view.h"

namespace foretrain::ui {

enum class Tone : std::uint8_t {
  kPlain,
  kMore,   // measured above the forecast
  kLess,   // below
  kAmber,  // a reason to doubt the figures
};

struct Number {
  std::string name{};       // "step time"
  std::string predicted{};  // "182 ms"; empty where unknown
  std::string measured{};
  std::string error{};  // "+3.9 %", or "+1.2 pt" between two shares
  Tone tone = Tone::kPlain;
  bool quality = false;  // says how far the others can be trusted
};

// What the join of the two runs found.
struct PairingCounts {
  std::int64_t pairs = 0;
  std::int64_t predicted_alone = 0;
  std::int64_t measured_alone = 0;
  std::int64_t drift_ns = 0;  // of the rank that ended the step farthest from its forecast
};

// Step time, tokens/s, MFU, exposed communication, overlap, bubble, idle and peak device memory,
// as far as known, then coverage, unpaired ops, drift, dropped and invalid records, recording
// overhead, clock error and emulation. Either run may be null.
std::vector<Number> NumbersOf(const RunView* predicted, const Metrics* predicted_metrics,
                              const RunView* measured, const Metrics* measured_metrics,
                              const PairingCounts& pairing);

}  // namespace foretrain::ui
