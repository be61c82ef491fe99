// The comparison of a run with its forecast, or of two runs, as text for a terminal and as JSON.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/report/memory_report.h"
#include "sim/compare/attribution.h"
#include "sim/compare/join.h"
#include "sim/compare/structure/pair_by_structure.h"
#include "traces/metrics/metrics.h"
#include "traces/timeline.h"

namespace foretrain {

class JsonWriter;

// A forecast against a measurement, or two measurements.
struct ComparisonView {
  std::string title;
  // Titles of the columns: "run 2" if neither is a forecast.
  std::string predicted_name = "predicted", measured_name = "measured";
  StepMetrics predicted, measured;
  std::vector<NamedPeak> predicted_peaks, measured_peaks;
  RunJoin join;
  std::optional<StructuralPairs> structure;  // of a trace and a forecast
  const Attribution* attribution = nullptr;  // null if the program is unknown
  std::vector<std::string> notes;
  double machine_drift = 0;  // 0: not measured
  int layers = 0;            // names blocks
};
std::string ComparisonText(const ComparisonView& view);
// One line of a gap: "gemm", "slow rank 3".
struct GapCause {
  std::string name;
  double seconds = 0;  // positive: it made the step longer
};
// The causes of a gap, largest first, without the unexplained part.
std::vector<GapCause> GapCauses(const Attribution& attribution);

// "+1.20 ms", "-3.0 %"; no sign if it is shown as zero.
std::string SignedSeconds(double seconds);
std::string SignedPercent(double fraction);

// Op names of the two timelines.
struct ComparedNames {
  const std::map<OpId, std::string>& predicted;
  const std::map<OpId, std::string>& measured;
};
// The classes of ops, the ops that differ most, those that one side alone has, and the gap by
// class.
std::string ComparisonDetails(const ComparisonView& view, const ComparedNames& names);
void WriteComparison(JsonWriter& json, const ComparisonView& view, const ComparedNames& names);

}  // namespace foretrain
