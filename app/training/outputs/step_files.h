// Files that follow a training step by step, for other programs: lines of JSON and TensorBoard's
// events.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "app/training/outputs/tensorboard.h"
#include "base/clock.h"
#include "base/io/file_system.h"
#include "base/result.h"
#include "runtime/run/run_sink.h"
#include "traces/run.h"

namespace foretrain {

// Where to write; empty: not at all.
struct StepFilePaths {
  std::string lines;        // a file
  std::string tensorboard;  // a folder; it is created
};

// Forecasts of a run; 0: unknown.
struct StepForecast {
  double step_s = 0;
  double evaluation_s = 0;
  std::int64_t resident_bytes = 0;  // memory of this process while it trains
};

// A step or an evaluation as an object on one line, without its newline: its fields as docs/json.md
// lists them. A `run` of 0 and forecasts of 0 are left out.
std::string StepLine(const StepReport& report, RunId run, const StepForecast& predicted);
std::string StepLine(const EvaluationReport& report, RunId run, const StepForecast& predicted);

// Checks before any work that the files can be made. Errors: kIo, naming option, path and problem.
Result<void> CheckStepFiles(const StepFilePaths& paths);

// The files of one training, written at once at each step. Not thread-safe.
class StepFiles {
 public:
  // Opens the files. Lines are added to those of an earlier training; a last line without its
  // newline, of a training that was killed, is dropped. Each training has its own file of events.
  //
  //   files, clock  borrowed
  //
  // Errors: those of the file system.
  static Result<std::unique_ptr<StepFiles>> Open(FileSystem& files, Clock& clock,
                                                 const StepFilePaths& paths);

  // Errors: those of the file system. After an error no file is written any more.
  Result<void> Add(const StepReport& report, RunId run, const StepForecast& predicted);
  Result<void> Add(const EvaluationReport& report, RunId run, const StepForecast& predicted);

 private:
  explicit StepFiles(Clock& clock) : clock_(clock) {}
  Result<void> Write(const std::string& line, std::int64_t step,
                     std::span<const TensorBoardScalar> scalars);
  double Now() const;  // seconds since 1970

  Clock& clock_;
  std::unique_ptr<WritableFile> lines_, events_;  // null: not asked for, or failed
};

}  // namespace foretrain
