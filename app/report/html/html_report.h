// A run as one HTML page that needs neither a server nor a network: its metrics, the time of its
// queues, its memory, its comparison with a forecast or another run, and tables of ops and kernels.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/report/comparison_report.h"
#include "traces/metrics/metrics.h"
#include "traces/run.h"

namespace foretrain {

// All pointers are borrowed.
struct HtmlReport {
  const StoredRun* run = nullptr;
  std::string title{};  // model and plan, or the label of a trace
  const Metrics* metrics = nullptr;
  StepMetrics shown{};  // of the step in the tables, which is shown in detail
  std::vector<std::string> notes{};
  // The run's forecast or another run, and how they compare; null: there is none.
  const StoredRun* against = nullptr;
  const ComparisonView* comparison = nullptr;
  int layers = 0;  // decoder layers, to name blocks; 0: unknown
};

// The page. Its size does not grow with the run: at most kDrawnRectangles rectangles, kDrawnRanks
// ranks and kDrawnMoments moments of memory a rank (about 5 MiB). Texts are escaped, and a policy
// in the page forbids everything but its own script and style.
inline constexpr int kDrawnRectangles = 60'000;  // and as many for the comparison
inline constexpr int kDrawnRanks = 64;
inline constexpr int kDrawnMoments = 400;
std::string HtmlPage(const HtmlReport& report);

}  // namespace foretrain
