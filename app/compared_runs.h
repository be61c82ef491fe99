// Two stored runs joined, with the gap attributed where the program can be compiled again.
#pragma once

#include <memory>
#include <optional>

#include "app/report.h"
#include "app/stored_runs.h"

namespace foretrain {

struct ComparedRuns {
  StoredRun predicted;
  StoredRun measured;
  std::unique_ptr<Attribution> attribution;  // none: `view.notes` says why
  ComparisonView view;                       // borrows the attribution

  // Whether one of them was imported: it has no program.
  bool HasTrace() const {
    return predicted.info.kind == RunKind::kImported || measured.info.kind == RunKind::kImported;
  }
  double StepError() const { return view.measured.time_s / view.predicted.time_s - 1; }
};

// Loads and joins run `run` with `against` (0: as LoadPair). The steady step of the forecast stands
// against measured step `step` or, without one, the median step of the measurement, its first left
// out.
//
// Errors: those of the store; kInvalidArgument, a run without a forecast or without complete steps.
Result<ComparedRuns> CompareRuns(const StoreReader& reader, RunId run, RunId against,
                                 std::optional<int> step = std::nullopt);

// Why step `step` of `measured` took another time than its forecast: its program is compiled again
// and replayed with measured work.
//
//   predicted  without a timeline will do
//   measured   with the windows and spans of `step` at least
//
// Errors: kUnsupported, a sentence on why the gap cannot be attributed.
Result<Attribution> AttributeStep(const StoreReader& reader, const StoredRun& predicted,
                                  const StoredRun& measured, int step);

}  // namespace foretrain
