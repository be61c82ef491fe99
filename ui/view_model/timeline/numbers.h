// The numbers above the timeline: each predicted and measured, and their difference. They are those
// of the chosen steps. traces/metrics computes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/metrics/metrics.h"
#include "ui/view_model/runs/sides.h"

namespace foretrain::ui {

enum class Tone : std::uint8_t {
  kPlain,
  kWorse,  // than the forecast or baseline: slower, larger, fewer tokens/s
  kBetter,
  kAmber,  // a reason to doubt the metrics
};

struct Number {
  std::string name{};       // "step time"
  std::string predicted{};  // "182 ms"; empty if unknown
  std::string measured{};
  std::string error{};  // "+3.9 %", or "+1.2 pt" between two fractions
  Tone tone = Tone::kPlain;
  bool quality = false;   // describes the quality of the recording
  std::string variant{};  // the same quantity of the whole run, in a sentence; empty if equal
};

// Results of pairing the two runs.
struct PairingCounts {
  std::int64_t pairs = 0;
  std::int64_t predicted_alone = 0;
  std::int64_t measured_alone = 0;
  std::int64_t drift_ns = 0;  // of the rank that ended the step farthest from its forecast
};

// Step time, tokens/s, MFU, exposed communication, overlap, bubble, idle and peak device memory of
// the chosen steps, as far as known; of the whole run where single steps are not known. Then drift,
// unpaired ops, coverage, dropped and invalid records, recording overhead, clock error and
// emulation.
std::vector<Number> NumbersOf(const SidePair& sides, const PairingCounts& pairing);

}  // namespace foretrain::ui
