// What `validate` prints and writes: scores by family as text or JSON, and a row a run as CSV.
// Leaves out the scores themselves: sim/validate/score.h.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "sim/validate/score.h"

namespace foretrain {

// What a fit moved, a constant a line.
std::string FitText(const ProfileFit& fit);

// Borrows both spans, which are as long as each other, for its life.
class ValidationReport {
 public:
  ValidationReport(std::span<const PublishedRun> runs, std::span<const RunPrediction> predictions,
                   std::size_t worst);

  std::string Text() const;
  // {"schema", "rows", "predicted", "refused", "summary", "families", "plan_choice",
  // "fitting_choice", "repeats", "worst", "filled"}; figures without data are null.
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
};

// "id,predicted_time_s,predicted_memory_gib,fits,refused_reason,low_s,high_s", a line a run in the order of the
// tables; fits is 0 or 1; of a refused run only id and reason are filled.
std::string PredictionsCsv(std::span<const PublishedRun> runs,
                           std::span<const RunPrediction> predictions);

}  // namespace foretrain
