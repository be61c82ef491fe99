// Joins two stored runs op by op and, if the program can be compiled again, attributes the gap.
#pragma once

#include <memory>
#include <optional>

#include "app/report/comparison_report.h"
#include "app/runs/stored_runs.h"

namespace foretrain {

struct ComparedRuns {
  StoredRun predicted;
  StoredRun measured;
  std::unique_ptr<Attribution> attribution;  // null: `view.notes` says why
  ComparisonView view;                       // borrows the attribution

  // Whether one of the runs is an imported trace, which has no program.
  bool HasTrace() const {
    return predicted.info.kind == RunKind::kImported || measured.info.kind == RunKind::kImported;
  }
  ComparedNames Names() const { return {predicted.timeline.op_names, measured.timeline.op_names}; }
  double StepError() const { return view.measured.time_s / view.predicted.time_s - 1; }
};

// Loads runs `run` and `against` (0: as LoadPair) and joins them. The forecast's steady step is
// compared with measured step `step`, by default with the median step after the first.
//
// Errors: those of the store; kInvalidArgument, a run without a forecast or without complete steps.
Result<ComparedRuns> CompareRuns(const StoreReader& reader, RunId run, RunId against,
                                 std::optional<int> step = std::nullopt);

// The same with a forecast that is in no store. Its number is 0.
Result<ComparedRuns> CompareWithForecast(const StoreReader& reader, RunId run,
                                         const ForecastContext& context, const Forecast& forecast);

// Attributes the difference between step `step` of `measured` and its forecast. Compiles the
// program again and replays it with measured work.
//
//   predicted  without a timeline will do
//   measured   with the windows and spans of `step` at least
//
// Errors: kUnsupported, a sentence on why the gap cannot be attributed.
Result<Attribution> AttributeStep(const StoreReader& reader, const StoredRun& predicted,
                                  const StoredRun& measured, int step);

}  // namespace foretrain
