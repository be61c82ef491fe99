#include "runtime/checkpoint/saver.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/io/crc32c.h"
#include "base/parallel.h"
#include "base/stop_point.h"
#include "base/units.h"
#include "traces/save_spans.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxIndexBytes = kGiB;

std::string ValueName(std::int64_t step) { return fmt::format("checkpoint {}", step); }

// Both errors in one, if there are two.
Result<void> Both(Result<void> first, Result<void> second) {
  if (first.has_value()) return second;
  if (!second.has_value()) first.error().message += "; " + second.error().message;
  return first;
}

}  // namespace

CheckpointSaver::CheckpointSaver(SaverOptions options, FileSystem& files, Executor& executor,
                                 RunClock& clock, std::function<void(const SaveReport&)> on_saved)
    : options_(std::move(options)),
      files_(files),
      executor_(executor),
      clock_(clock),
      on_saved_(std::move(on_saved)),
      manifest_(options_.manifest) {}

CheckpointSaver::~CheckpointSaver() { Wait(); }

// Memory and folder come first: a run that cannot save should fail before it has trained for hours.
Result<std::unique_ptr<CheckpointSaver>> CheckpointSaver::Make(
    SaverOptions options, FileSystem& files, Executor& executor, RunClock& clock,
    std::function<void(const SaveReport&)> on_saved) {
  FT_CHECK(options.keep >= 1);
  std::unique_ptr<CheckpointSaver> saver(
      new CheckpointSaver(std::move(options), files, executor, clock, std::move(on_saved)));
  const Program& program = executor.program();
  std::vector<std::vector<StatePiece>> saved = SavedPieces(program);
  for (int r = 0; r < executor.ranks(); ++r) {
    const auto place = static_cast<std::size_t>(&executor.Rank(r) - program.ranks.data());
    FT_ASSIGN(Snapshot snapshot, Snapshot::Make(executor.Rank(r).rank, std::move(saved[place])));
    saver->snapshots_.push_back(std::move(snapshot));
  }
  const std::string& folder = saver->options_.folder;
  FT_ASSIGN(const FileInfo before, files.Stat(folder));
  FT_TRY(files.CreateDirectories(folder));
  // Until then a loss of power takes the new folder with all its checkpoints.
  if (before.kind == FileKind::kMissing) FT_TRY(files.SyncDirectory(ParentFolder(folder)));
  if (saver->options_.first_rank == 0) FT_TRY(RemoveUnfinished(files, folder));
  FT_ASSIGN(saver->earlier_, ListCheckpoints(files, folder));
  return saver;
}

Result<void> CheckpointSaver::Save(std::int64_t step, const TrainingTime& time,
                                   std::vector<double> losses) {
  SaveReport report;
  report.step = step;
  report.copy_start_ns = clock_.Now();
  Wait();
  manifest_.step = step;
  manifest_.time = time;
  manifest_.losses = std::move(losses);
  StopPoint("checkpoint.copy");
  for (int r = 0; r < executor_.ranks(); ++r) {
    Snapshot& snapshot = snapshots_[static_cast<std::size_t>(r)];
    const std::int64_t start_ns = clock_.Now();
    FT_TRY(snapshot.Take(executor_.Arena(r)));
    report.bytes += snapshot.bytes();
    report.spans.push_back(SaveSpan(SaveCopyOp(), snapshot.rank(), step - 1, start_ns, clock_.Now(),
                                    snapshot.bytes()));
  }
  report.copy_end_ns = clock_.Now();
  const auto write = [this, report] { Write(report); };
  if (!TryThread(thread_, write)) write();
  return {};
}

void CheckpointSaver::Wait() { thread_.clear(); }

void CheckpointSaver::Write(SaveReport report) {
  report.write_start_ns = clock_.Now();
  Result<std::string> path = Fail(ErrorCode::kResourceExhausted, "no memory to write a checkpoint");
  try {
    path = WriteAll(report);
  } catch (const std::bad_alloc&) {  // the error above
  }
  report.write_end_ns = clock_.Now();
  if (!path.has_value()) {
    report.error = path.error();
  } else if (!path->empty()) {
    report.path = *std::move(path);
    const auto removed = RemoveOldCheckpoints(files_, options_.folder, options_.keep);
    if (!removed.has_value()) report.error = removed.error();
  }
  if (on_saved_) on_saved_(report);
}

// All processes found the same earlier checkpoints, so all choose the same path. Rank 0's process
// writes the manifest once the files of all ranks are whole, and removes those of a save that
// failed.
Result<std::string> CheckpointSaver::WriteAll(SaveReport& report) {
  const std::int64_t step = report.step;
  std::int64_t repeat = 1;
  for (const CheckpointPath& one : earlier_) {
    if (one.step == step) repeat = std::max(repeat, one.repeat + 1);
  }
  const std::string path = CheckpointPathOf(options_.folder, step, repeat);
  Result<void> written = WriteHere(path, report);
  if (options_.first_rank != 0) {
    FT_TRY(options_.processes->Put(options_.first_rank, ValueName(step),
                                   written.has_value() ? "" : written.error().message));
    FT_TRY(written);
    return std::string();
  }
  if (options_.processes != nullptr) written = Both(std::move(written), GatherOthers(step));
  if (written.has_value()) written = WriteManifest(path);
  if (!written.has_value()) {
    (void)RemoveCheckpoint(files_, path);
    return tl::unexpected<Error>(written.error());
  }
  StopPoint("checkpoint.finished");
  return path;
}

Result<void> CheckpointSaver::WriteManifest(const std::string& path) {
  Manifest manifest = manifest_;
  for (const RankProgram& rank : executor_.program().ranks) {
    FT_ASSIGN(const std::string index,
              ReadFile(files_, path + "/" + IndexName(rank.rank), kMaxIndexBytes));
    manifest.indexes.push_back(Crc32c(index));
  }
  manifest.program = executor_.program().hash;
  StopPoint("checkpoint.manifest");
  FT_TRY(WriteFileAtomically(files_, path + "/" + kManifestName, ManifestText(manifest)));
  return files_.SyncDirectory(options_.folder);
}

Result<void> CheckpointSaver::WriteHere(const std::string& path, SaveReport& report) {
  FT_TRY(files_.CreateDirectories(path));
  std::string failed;
  for (const Snapshot& snapshot : snapshots_) {
    const std::int64_t start_ns = clock_.Now();
    const auto written = snapshot.Write(files_, path);
    report.spans.push_back(SaveSpan(SaveWriteOp(), snapshot.rank(), report.step - 1, start_ns,
                                    clock_.Now(), snapshot.bytes()));
    if (written.has_value()) continue;
    failed += fmt::format("{}rank {}: {}", failed.empty() ? "" : "; ", snapshot.rank(),
                          written.error().message);
  }
  if (failed.empty()) return {};
  return Fail(ErrorCode::kIo, failed);
}

// Waits for the other ranks' processes. Errors: all of theirs, by rank.
Result<void> CheckpointSaver::GatherOthers(std::int64_t step) {
  std::string failed;
  for (const RankProgram& rank : executor_.program().ranks) {
    if (rank.rank == 0) continue;
    FT_ASSIGN(const std::string why,
              options_.processes->Get(rank.rank, ValueName(step), [] { return false; }));
    if (!why.empty()) failed += (failed.empty() ? "" : "; ") + why;
  }
  if (failed.empty()) return {};
  return Fail(ErrorCode::kIo, failed);
}

}  // namespace foretrain
