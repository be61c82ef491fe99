// Scores of forecasts against published runs: time, rank order, memory, feasibility, choice of
// plan, and the noise of the sources. Leaves out the forecasts and printing.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "sim/validate/predict_run.h"
#include "sim/validate/run_table.h"

namespace foretrain {

// A figure that may be without data.
struct Score {
  double value = 0;
  int count = 0;  // of rows, or pairs of rows, behind it; 0: there is none
};

// Of the rows of one family, or of all families together, each counted once (`family` empty).
//
// p predicted, t measured seconds of the rows that have both:
//   time_mape            mean |p / t - 1|
//   time_max             largest |p / t - 1|
//   time_median_abs_log  median |ln(p / t)|
//   time_bias            mean ln(p / t): above 0, forecasts are too slow
//   interval_coverage    share of rows whose t lies in the forecast's interval, made to hold 0.9
//   kendall_tau          (concordant - discordant) / pairs, over pairs of rows of a sweep that
//                        differ in measured seconds a token; a forecast tie counts for neither. A
//                        sweep: one model shape, sequence, precision, device and number of devices
//   memory_mape          mean |p / t - 1| of peak memory
//   memory_median        median of the same
//   fits_balanced_accuracy  mean of the shares of rows that ran and are said to fit and of rows
//                        that did not and are said not to; where one kind is missing, the other's
struct FamilyScore {
  std::string family;
  int rows = 0, predicted = 0, refused = 0;
  int open = 0;        // predicted rows with a plan field that a search chose
  bool barred = true;  // false: more than half of the rows are such
  Score time_mape, time_max, time_median_abs_log, time_bias, interval_coverage, kendall_tau;
  Score memory_mape, memory_median, fits_balanced_accuracy;
};

// Choice of the fastest plan in groups of one model, heads, devices, batch and sequence with at
// least three measured plans. Of equals the one listed first is chosen.
struct PlanChoice {
  std::string family;
  int groups = 0;
  int hits = 0;            // groups whose fastest plan is also forecast to be it
  double mean_regret = 0;  // mean over groups of t(chosen) / t(fastest) - 1
  double worst_regret = 0;
};

// The fastest plans by forecast, at most three, of those of a sweep that are said to fit, against
// what the source says of their memory. Sweeps as for kendall_tau, with at least three plans of
// which one at least ran out of memory.
struct FittingChoice {
  std::string family, model;
  int plans = 0;          // of the sweep
  int out_of_memory = 0;  // of these, that did not fit
  std::vector<std::size_t> chosen;
  int chosen_out_of_memory = 0;
};

// Rows that state one plan more than once: how far a source is from itself.
struct Repeats {
  std::vector<std::size_t> rows;
  double spread = 0;  // largest over smallest measured seconds, minus one
  double error = 0;   // mean |p / t - 1| of the rows
};

// `predictions` are as `runs`. O(n log n + pairs of a sweep).
std::vector<FamilyScore> ScoreFamilies(std::span<const PublishedRun> runs,
                                       std::span<const RunPrediction> predictions);
std::vector<PlanChoice> ScorePlanChoice(std::span<const PublishedRun> runs,
                                        std::span<const RunPrediction> predictions);
std::vector<FittingChoice> ScoreFittingChoice(std::span<const PublishedRun> runs,
                                              std::span<const RunPrediction> predictions);
std::vector<Repeats> FindRepeats(std::span<const PublishedRun> runs,
                                 std::span<const RunPrediction> predictions);

// Over barred families with a figure, each counted once: the median of their medians of
// |ln(p / t)|, and the mean of the others.
FamilyScore ScoreAll(std::span<const FamilyScore> families);

// Numbers of the rows with the largest |ln(p / t)|, worst first.
std::vector<std::size_t> WorstRows(std::span<const PublishedRun> runs,
                                   std::span<const RunPrediction> predictions, std::size_t count);

double Median(std::vector<double> values);  // of at least one

}  // namespace foretrain
