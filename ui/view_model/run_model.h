// A training run that is going on: what it is told, what it says, and how it ended in words. Leaves
// out the process and drawing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/spec/plan.h"
#include "ui/training_process.h"

namespace foretrain::ui {

// What the user sets; texts as they stand in the fields.
struct RunForm {
  std::string model{};
  std::string data{};
  std::string steps = "50";
  std::string ranks{};         // empty: as the machine has
  std::string device = "cpu";  // "cpu", "cuda"
  std::string store{};
  std::string options{};  // of the plan and anything else, as on the command line
};

// Words of a command line: separated by blanks, together inside '...' or "...", a backslash takes
// the next character as it is. Errors: kInvalidArgument, a quote that does not end.
Result<std::vector<std::string>> SplitWords(std::string_view text);

// The words as a shell takes them, quoted where they must be.
std::string JoinWords(const std::vector<std::string>& words);

// `train` with the form's options, those that are empty left out; its progress as JSON lines.
// Errors: kInvalidArgument, an option line that cannot be split, or a field that cannot be left
// empty.
Result<std::vector<std::string>> ArgumentsOf(const RunForm& form);

// A form from the options of a plan ("--model gpt-10m --dp 2 --ranks 2"): those that have a field
// of their own fill it.
RunForm FormOf(std::string_view options, RunForm form);

// The options that give `plan` again on the command line: those that differ from the defaults, and
// dp, which left out takes the ranks that are left.
std::string OptionsOf(const Plan& plan);

struct StepLine {
  std::int64_t step = 0;
  double loss = 0.0;
  double seconds = 0.0;
  double tokens_per_s = 0.0;
  std::optional<double> gradient_norm{};
};

// The last lines of a run, at most.
inline constexpr std::size_t kMostLines = 200;
// Bytes of a line; what is longer is cut.
inline constexpr std::size_t kMostLineBytes = 2000;

// What `train --json` has said so far.
class TrainingLog {
 public:
  // Pieces of a stream, cut anywhere. Lines that are no JSON of a step are kept as text.
  void AddOutput(std::string_view text);
  void AddErrors(std::string_view text);
  // Takes what stands behind the last line break too: nothing more comes.
  void Close();

  const std::vector<StepLine>& steps() const { return steps_; }
  const std::deque<std::string>& lines() const { return lines_; }
  // Of the run that was stored, from its last line.
  std::optional<std::int64_t> run() const { return run_; }
  std::optional<std::int64_t> forecast() const { return forecast_; }
  // The sentence with which it failed; empty where it has not said one.
  const std::string& error() const { return error_; }

 private:
  void TakeOutput(const std::string& line);
  void Keep(std::string line);

  std::string output_, errors_;  // a line that has not ended
  std::vector<StepLine> steps_;
  std::deque<std::string> lines_;
  std::optional<std::int64_t> run_, forecast_;
  std::string error_;
};

enum class RunPhase : std::uint8_t {
  kReady,     // nothing was started
  kStarting,  // no step has ended
  kTraining,
  kStopping,
  kDone,     // all steps
  kStopped,  // as asked
  kFailed,
};
// "training", "out of memory", ...
std::string_view Name(RunPhase phase);

// How it ended: the run's own sentence where it has one, else what its exit code or signal mean.
std::string ReasonOf(const TrainingLog& log, const TrainingEnd& end);

// The state of the run and its figures.
struct RunModel {
  RunPhase phase = RunPhase::kReady;
  TrainingLog log{};
  std::int64_t wanted_steps = 0;               // 0: unknown
  std::vector<std::int64_t> resident_bytes{};  // one a reading, kMostReadings at most
  std::int64_t peak_resident_bytes = 0;
  std::string reason{};  // of an end; or why it did not start

  bool IsGoing() const {
    return phase == RunPhase::kStarting || phase == RunPhase::kTraining ||
           phase == RunPhase::kStopping;
  }
  // Whether a stored run can be compared.
  bool CanCompare() const { return !IsGoing() && log.run().has_value(); }
  // Steps done of those wanted, in [0, 1].
  double Progress() const;
  // Of the steps after the first, which warms up; nothing before the second.
  std::optional<double> MedianStepS() const;
  std::optional<double> SecondsLeft() const;
  std::optional<double> TokensPerS() const;  // median, likewise
};

inline constexpr std::size_t kMostReadings = 4096;  // every second one is dropped beyond

void Start(const RunForm& form, RunModel& model);
void FailToStart(const Error& error, RunModel& model);
void Take(const TrainingNews& news, RunModel& model);

// A curve in columns of pixels: the lowest and the highest value of each, and what it starts and
// ends with.
struct CurveColumn {
  int column = 0;
  double low = 0.0;
  double high = 0.0;
  double first = 0.0;
  double last = 0.0;
};
// `values` over `columns` (> 0) of which the first value lies in the first and the last of
// `expected` ones in the last; columns without values and values that are not finite are left out.
// O(values).
std::vector<CurveColumn> FoldCurve(std::span<const double> values, std::size_t expected,
                                   int columns);

}  // namespace foretrain::ui
