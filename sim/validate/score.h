// Scores forecasts against published runs: time, rank order, memory, feasibility, choice of plan,
// and the noise of the sources.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "sim/validate/predict_run.h"
#include "sim/validate/run_table.h"

namespace foretrain {

// A value that may have no data.
struct Score {
  double value = 0;
  int count = 0;  // number of rows, or pairs of rows; 0: no value
};

// Scores of one family, or of all families together with each counted once (`family` is then
// empty).
//
// p is the predicted and t the measured time of the rows that have both:
//   time_mape            mean |p / t - 1|
//   time_max             largest |p / t - 1|
//   time_median_abs_log  median |ln(p / t)|
//   time_bias            mean ln(p / t); above 0: forecasts are too slow
//   interval_coverage    share of rows with t in the forecast's interval, which should hold 0.9.
//   kendall_tau          (concordant - discordant) / pairs, over pairs of rows of a sweep with
//                        different measured seconds per token. A tie in the forecast counts for
//                        neither. A sweep has one model shape, sequence, precision, device and
//                        number of devices
//   memory_mape          mean |p / t - 1| of peak memory
//   memory_median        median |p / t - 1| of peak memory
//   fits_balanced_accuracy  mean of two shares: rows that ran and are forecast to fit, and rows
//                        that failed and are forecast not to fit. One share alone if the other has
//                        no rows
struct FamilyScore {
  std::string family;
  int rows = 0, predicted = 0, refused = 0;
  int open = 0;        // predicted rows with a plan field that a search chose
  bool barred = true;  // counts in ScoreAll; false: more than half of the predicted rows are open
  Score time_mape, time_max, time_median_abs_log, time_bias, interval_coverage, kendall_tau;
  Score memory_mape, memory_median, fits_balanced_accuracy;
};

// Choice of the fastest plan. A group has one model, heads, devices, batch and sequence, and at
// least three measured plans. Of equal forecasts, the first is chosen.
struct PlanChoice {
  std::string family;
  int groups = 0;
  int hits = 0;            // groups whose fastest plan also has the fastest forecast
  double mean_regret = 0;  // mean over groups of t(chosen) / t(fastest) - 1
  double worst_regret = 0;
};

// The up to three fastest plans of a sweep that are forecast to fit, compared with the source's
// statement of memory. Sweeps as for kendall_tau, with at least three plans, of which at least one
// ran out of memory.
struct FittingChoice {
  std::string family, model;
  int plans = 0;          // plans in the sweep
  int out_of_memory = 0;  // plans in the sweep that did not fit
  std::vector<std::size_t> chosen;
  int chosen_out_of_memory = 0;
};

// Rows that state one plan more than once: the noise of a source.
struct Repeats {
  std::vector<std::size_t> rows;
  double spread = 0;  // largest / smallest measured seconds, minus 1
  double error = 0;   // mean |p / t - 1| of the rows
};

// Scores per family. `predictions` is in the order of `runs`. O(n log n + pairs of a sweep).
std::vector<FamilyScore> ScoreFamilies(std::span<const PublishedRun> runs,
                                       std::span<const RunPrediction> predictions);
std::vector<PlanChoice> ScorePlanChoice(std::span<const PublishedRun> runs,
                                        std::span<const RunPrediction> predictions);
std::vector<FittingChoice> ScoreFittingChoice(std::span<const PublishedRun> runs,
                                              std::span<const RunPrediction> predictions);
std::vector<Repeats> FindRepeats(std::span<const PublishedRun> runs,
                                 std::span<const RunPrediction> predictions);

// Combines the barred families that have the score, each counted once. Takes the median of medians,
// the largest time_max, and the mean of the others.
FamilyScore ScoreAll(std::span<const FamilyScore> families);

// Row numbers with the largest |ln(p / t)|, worst first.
std::vector<std::size_t> WorstRows(std::span<const PublishedRun> runs,
                                   std::span<const RunPrediction> predictions, std::size_t count);

double Median(std::vector<double> values);  // needs at least one value

}  // namespace foretrain
