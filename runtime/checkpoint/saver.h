// Saves checkpoints while training goes on: copies the state between two steps and writes it from a
// thread of its own.
//
//   step n ── copy ── step n+1 ── step n+2 ── ...
//               └────── write and sync files, then the manifest, remove old checkpoints ──►
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"
#include "runtime/checkpoint/checkpoint_files.h"
#include "runtime/checkpoint/checkpoint_folder.h"
#include "runtime/checkpoint/snapshot.h"
#include "runtime/executor/executor.h"
#include "runtime/processes/id_store.h"
#include "runtime/run/run_clock.h"
#include "traces/timeline.h"

namespace foretrain {

// One save on one process. Times are on the run's clock.
struct SaveReport {
  std::int64_t step = 0;
  std::int64_t bytes = 0;  // of the ranks here
  std::int64_t copy_start_ns = 0;
  std::int64_t copy_end_ns = 0;  // training stood still
  std::int64_t write_start_ns = 0;
  std::int64_t write_end_ns = 0;
  std::vector<Span> spans;  // copies and writes of the ranks here
  // The checkpoint, on rank 0's process; empty if a rank could not write its part.
  std::string path;
  std::optional<Error> error;  // why there is no checkpoint, or an old one could not be removed
};

struct SaverOptions {
  std::string folder;
  int keep = 2;       // newest checkpoints that stay; >= 1
  Manifest manifest;  // step, time and losses are brought up to date at each save
  // If ranks are processes: where they tell rank 0 that their files are whole. Borrowed.
  IdStore* processes = nullptr;
  int first_rank = 0;  // lowest rank of this process
};

class CheckpointSaver {
 public:
  // `on_saved` is called from the writing thread, and may be null; calls do not overlap. `files`,
  // `executor` and `clock` are borrowed.
  //
  // Errors: kResourceExhausted, no memory for a copy of the state; the file system's, if `folder`
  // cannot be made or written.
  static Result<std::unique_ptr<CheckpointSaver>> Make(
      SaverOptions options, FileSystem& files, Executor& executor, RunClock& clock,
      std::function<void(const SaveReport&)> on_saved);
  ~CheckpointSaver();  // waits
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // Between two runs of the executor: copies the state after `step` steps and begins to write it.
  // Waits for the checkpoint before, if it is still being written. Errors: the arena's. A write
  // that fails is no error here: it is reported, and earlier checkpoints stay. If no thread can be
  // made, writes before it returns.
  Result<void> Save(std::int64_t step, const TrainingTime& time = {},
                    std::vector<double> losses = {});

  // Waits until the last checkpoint is written.
  void Wait();

 private:
  CheckpointSaver(SaverOptions options, FileSystem& files, Executor& executor, RunClock& clock,
                  std::function<void(const SaveReport&)> on_saved);
  void Write(SaveReport report);  // body of the thread
  Result<std::string> WriteAll(SaveReport& report);
  Result<void> WriteHere(const std::string& path, SaveReport& report);
  Result<void> WriteManifest(const std::string& path);
  Result<void> GatherOthers(std::int64_t step);

  const SaverOptions options_;
  FileSystem& files_;
  Executor& executor_;
  RunClock& clock_;
  const std::function<void(const SaveReport&)> on_saved_;
  Manifest manifest_;                    // of the newest save; without checksums of indexes
  std::vector<Snapshot> snapshots_;      // of the ranks here
  std::vector<CheckpointPath> earlier_;  // found in the folder before the first save
  std::vector<std::jthread> thread_;     // that writes; at most one
};

}  // namespace foretrain
