// The output of `validate`: scores by family as text or JSON, and one CSV row a run.
// Leaves out the scores themselves: sim/validate/score.h.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "sim/learn/learn.h"
#include "sim/validate/learn_runs.h"
#include "sim/validate/score.h"
#include "sim/validate/score_pairs.h"

namespace foretrain {

// The constants that learning moved, one a line.
std::string LearnedText(const Learned& learned);

// How often pairs of plans are ordered as forecast, by the probability of that (`--pairs`).
std::string PairScoresText(std::span<const PairScore> scores);

// Scores of groups that were learned from by their first rows (`--learn N`).
std::string LearnedScoresText(std::span<const LearnedScore> scores);

// Both spans have the same length and must outlive the report.
class ValidationReport {
 public:
  //   learned  scores of `--learn N`; empty: none
  //   pairs    scores of `--pairs`; empty: none
  ValidationReport(std::span<const PublishedRun> runs, std::span<const RunPrediction> predictions,
                   std::size_t worst, std::vector<LearnedScore> learned = {},
                   std::vector<PairScore> pairs = {});

  std::string Text() const;
  // {"schema", "rows", "predicted", "refused", "summary", "families", "plan_choice",
  // "fitting_choice", "repeats", "worst", "filled", "learned", "pairs"}; scores without data are
  // null.
  std::string Json() const;

 private:
  std::string FamilyTable() const;
  std::string ChoiceTable() const;
  std::string FittingTable() const;
  std::string RepeatTable() const;
  std::string WorstTable() const;
  std::string Refusals() const;
  std::string OpenFields() const;
  void WriteRows(JsonWriter& json) const;

  std::span<const PublishedRun> runs_;
  std::span<const RunPrediction> predictions_;
  std::vector<FamilyScore> families_;
  FamilyScore all_;
  std::vector<PlanChoice> choices_;
  std::vector<FittingChoice> fitting_;
  std::vector<Repeats> repeats_;
  std::vector<std::size_t> worst_;
  std::vector<LearnedScore> learned_;
  std::vector<PairScore> pairs_;
};

// "id,predicted_time_s,predicted_memory_gib,fits,refused_reason,low_s,high_s", one line for each
// run in the order of the tables. `fits` is 0 or 1. A refused run has only its id and the reason.
std::string PredictionsCsv(std::span<const PublishedRun> runs,
                           std::span<const RunPrediction> predictions);

}  // namespace foretrain
