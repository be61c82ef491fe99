// Learns from rows of a table of published runs (sim/learn/learn.h), and scores what was learned on
// other rows.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/learn/learn.h"
#include "sim/validate/predict_run.h"
#include "sim/validate/run_case.h"
#include "sim/validate/run_table.h"
#include "sim/validate/score.h"

namespace foretrain {

// The measured step of a row with the profile derived for it; `nullopt` without a measured time, or
// with a plan that the row leaves open.
std::optional<MeasuredStep> MeasuredStepOf(const PublishedRun& run, const CaseSources& sources);

// Learns from all rows that have a measured step. Errors: those of LearnFrom.
Result<Learned> LearnFromRuns(std::span<const PublishedRun> runs, const CaseSources& sources,
                              int threads, const std::function<bool()>& cancelled = {});

// Rows of a family with one model on one number of devices, in the order of the table.
struct RunGroup {
  std::string family, model;
  int gpus = 0;
  std::vector<std::size_t> learned;  // the first rows
  std::vector<std::size_t> scored;   // the others
};

// The groups with at least kSmallestRunGroup rows that have a measured step, of which the first
// `learned` are learned from and at least one is scored.
std::vector<RunGroup> RunGroupsOf(std::span<const PublishedRun> runs, const CaseSources& sources,
                                  std::size_t learned);
inline constexpr std::size_t kSmallestRunGroup = 4;

// Forecasts of a group's scored rows, before and after learning.
struct GroupForecasts {
  std::vector<RunPrediction> before, after;
};
Result<GroupForecasts> LearnGroup(const RunGroup& group, std::span<const PublishedRun> runs,
                                  const CaseSources& sources);

// Median of |ln(forecast / measured)| of the scored rows of a family; of all families together
// (`family` is then empty) the median over groups of their medians.
struct LearnedScore {
  std::string family;
  int groups = 0, rows = 0;
  double before = 0, after = 0;
};
// `forecasts` is in the order of `groups`. The last score is that of all; no score without groups.
std::vector<LearnedScore> ScoreLearned(std::span<const RunGroup> groups,
                                       std::span<const GroupForecasts> forecasts,
                                       std::span<const PublishedRun> runs);

}  // namespace foretrain
