// A stored run as an HTML page: reads it and its counterpart, and computes what the page shows.
#pragma once

#include <optional>
#include <string>

#include "app/runs/stored_runs.h"
#include "base/result.h"

namespace foretrain {

struct ReportedRun {
  RunId run = 0;
  std::optional<RunId> against{};  // shown in the comparison
  std::string page{};
};

// The page of run `run`, compared with `against` (0: as LoadPair). Without a forecast the page has
// no comparison; if the two cannot be compared, it says why.
//
//   step  shown in detail; -1: the one with the median time
//
// Errors: those of the store; kInvalidArgument, a run without a complete step, or no such step.
Result<ReportedRun> ReportRun(const StoreReader& reader, RunId run, RunId against, int step);

}  // namespace foretrain
