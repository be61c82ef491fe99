// Files that follow a training step by step, for other programs: lines of JSON and TensorBoard's
// events.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

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

// A step as an object on one line, without its newline: the fields of a step that docs/json.md
// lists.
//
//   run               of the store; 0 is left out
//   predicted_step_s  forecast step time; 0 (unknown) is left out
std::string StepLine(const StepReport& report, RunId run, double predicted_step_s);

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
  Result<void> Add(const StepReport& report, RunId run, double predicted_step_s);

 private:
  explicit StepFiles(Clock& clock) : clock_(clock) {}
  Result<void> AddEvent(const StepReport& report, double predicted_step_s);
  double Now() const;  // seconds since 1970

  Clock& clock_;
  std::unique_ptr<WritableFile> lines_, events_;  // null: not asked for, or failed
};

}  // namespace foretrain
