// State of a training run: its input, its output so far, and how it ended. Leaves out the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sim/config/plan/plan.h"
#include "ui/run_progress.h"
#include "ui/training_process.h"

namespace foretrain::ui {

// The user's input, as it stands in the fields.
struct RunForm {
  std::string model{};
  std::string data{};
  std::string steps = "50";
  std::string ranks{};         // empty: the machine's default
  std::string device = "cpu";  // "cpu", "cuda"
  std::string store{};
  std::string options{};  // of the plan and anything else, as on the command line
  std::string save{};     // folder of its checkpoints; empty: none
  // Folder of checkpoints to go on from, with the options of the run that saved them; only steps,
  // store, save and options count then. Empty: a new run.
  std::string resume{};
};

// Splits a command line into words at blanks. '...' and "..." group characters, and a backslash
// takes the next character literally. Errors: kInvalidArgument if a quote is not closed.
Result<std::vector<std::string>> SplitWords(std::string_view text);

// Joins words into a shell command line, quoted if necessary.
std::string JoinWords(const std::vector<std::string>& words);

// The arguments of `train` for the form; empty fields are left out. Progress is printed as JSON
// lines. Errors: kInvalidArgument if the options cannot be split or a required field is empty.
Result<std::vector<std::string>> ArgumentsOf(const RunForm& form);

// Options that reproduce `plan` on the command line: those that differ from their default, and
// always dp, whose default depends on the ranks.
std::string OptionsOf(const Plan& plan);

struct StepLine {
  std::int64_t step = 0;
  double loss = 0.0;
  double seconds = 0.0;
  double tokens_per_s = 0.0;
  std::optional<double> gradient_norm{};
  double predicted_s = 0.0;                   // forecast of `seconds`; 0: unknown
  std::int64_t predicted_resident_bytes = 0;  // of the process; 0: unknown
};

// Maximum number of lines kept, the last ones.
inline constexpr std::size_t kMaxLines = 200;
// Maximum bytes of a line; longer lines are cut.
inline constexpr std::size_t kMaxLineBytes = 2000;

// Output of `train --json` so far.
class TrainingLog {
 public:
  // Adds a piece of a stream, cut anywhere. Lines that are not JSON of a step are kept as text.
  void AddOutput(std::string_view text);
  void AddErrors(std::string_view text);
  // Ends the streams: also processes an unfinished last line.
  void Close();

  // A log of steps that another process has recorded.
  void SetSteps(std::vector<StepLine> steps) { steps_ = std::move(steps); }

  const std::vector<StepLine>& steps() const { return steps_; }
  const std::deque<std::string>& lines() const { return lines_; }
  // Ids of the stored run and its forecast, from the last line; nullopt before that.
  std::optional<std::int64_t> run() const { return run_; }
  std::optional<std::int64_t> forecast() const { return forecast_; }
  // The run's own error message; empty if it printed none.
  const std::string& error() const { return error_; }

 private:
  void TakeOutput(const std::string& line);
  void Keep(const std::string& line);

  std::string output_, errors_;  // the unfinished last line of each stream
  std::vector<StepLine> steps_;
  std::deque<std::string> lines_;
  std::optional<std::int64_t> run_, forecast_;
  std::string error_;
};

enum class RunPhase : std::uint8_t {
  kReady,     // nothing was started
  kStarting,  // no step has ended yet
  kTraining,
  kStopping,
  kDone,     // all steps are done
  kStopped,  // stopped by the user
  kFailed,
};
// "not started", "training", "failed", ...
std::string_view Name(RunPhase phase);

// Why the run ended: its own message if it printed one, otherwise the meaning of its exit code or
// signal.
std::string ReasonOf(const TrainingLog& log, const TrainingEnd& end);

// State and metrics of the run.
struct RunModel {
  RunPhase phase = RunPhase::kReady;
  TrainingLog log{};
  std::int64_t wanted_steps = 0;               // 0 if unknown
  std::vector<std::int64_t> resident_bytes{};  // one per reading, at most kMaxReadings
  std::int64_t peak_resident_bytes = 0;
  std::string reason{};  // why it ended, or why it did not start
  RunId followed = 0;    // the stored run, if another process records it

  bool IsGoing() const {
    return phase == RunPhase::kStarting || phase == RunPhase::kTraining ||
           phase == RunPhase::kStopping;
  }
  // Whether a stored run exists for comparison.
  bool CanCompare() const { return !IsGoing() && (followed != 0 || log.run().has_value()); }
  // Fraction of the wanted steps that are done, in [0, 1].
  double Progress() const;
  // Over the steps after the first, which warms up; nullopt before the second.
  std::optional<double> MedianStepS() const;
  std::optional<double> SecondsLeft() const;
  std::optional<double> TokensPerS() const;  // median, as above
  // Forecasts that the run itself prints with its steps; nullopt before the first, or without one.
  std::optional<double> PredictedTokensPerS() const;
  std::optional<double> PredictedResidentBytes() const;
};

// "3.1 % under forecast", "0.4 % over forecast", "as forecast" below 0.05 %. Both are > 0.
std::string AgainstForecast(double value, double forecast);

inline constexpr std::size_t kMaxReadings = 4096;  // beyond this every second reading is dropped

void Start(const RunForm& form, RunModel& model);
void FailToStart(const Error& error, RunModel& model);
void Take(const TrainingNews& news, RunModel& model);

// The state of a run that another process records, in place of the one before. The number of
// wanted steps is not known.
RunModel ModelOf(const RunProgress& progress);

// The newest run that is being recorded; 0 if there is none.
RunId RunningOf(const std::vector<RunInfo>& runs);

// A curve folded into columns of pixels: minimum and maximum of each column, and its first and last
// value.
struct CurveColumn {
  int column = 0;
  double low = 0.0;
  double high = 0.0;
  double first = 0.0;
  double last = 0.0;
};
// Spreads `values` over `columns` (> 0): the first value lies in the first column, and the last of
// `expected` values would lie in the last. Columns without values and values that are not finite
// are left out. O(values).
std::vector<CurveColumn> FoldCurve(std::span<const double> values, std::size_t expected,
                                   int columns);

}  // namespace foretrain::ui
