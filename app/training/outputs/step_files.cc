#include "app/training/outputs/step_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "app/cli/output_file.h"
#include "base/json/json.h"
#include "base/text.h"
#include "base/units.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxLinesBytes = std::int64_t{1} << 30;  // 250 B a line: 4 million steps

std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Opens the file for appending. The old lines are copied to a new file, which then takes the old
// one's name, so that a reader sees whole lines at any moment.
Result<std::unique_ptr<WritableFile>> OpenLines(FileSystem& files, const std::string& path) {
  FT_ASSIGN(const FileInfo info, files.Stat(path));
  if (info.kind == FileKind::kMissing) return files.Create(path);
  FT_ASSIGN(std::string text, ReadFile(files, path, kMaxLinesBytes));
  const std::size_t end = text.rfind('\n');
  text.resize(end == std::string::npos ? 0 : end + 1);
  const std::string copy = fmt::format("{}.{}.new", path, getpid());
  FT_ASSIGN(auto file, files.Create(copy));
  Result<void> replaced = file->Append(BytesOf(text));
  if (replaced.has_value()) replaced = files.Rename(copy, path);
  if (replaced.has_value()) return file;
  (void)files.Remove(copy);
  return tl::unexpected<Error>(std::move(replaced).error());
}

// TensorBoard looks for "tfevents" in a name and reads the files of a folder in the order of their
// names.
Result<std::unique_ptr<WritableFile>> OpenEvents(FileSystem& files, const std::string& folder,
                                                 double time_s) {
  FT_TRY(files.CreateDirectories(folder));
  FT_ASSIGN(auto file,
            files.Create(fmt::format("{}/events.out.tfevents.{:010d}.foretrain.{}", folder,
                                     static_cast<std::int64_t>(time_s), getpid())));
  FT_TRY(file->Append(BytesOf(TensorBoardHeader(time_s))));
  return file;
}

}  // namespace

std::string StepLine(const StepReport& report, RunId run, const StepForecast& predicted) {
  JsonWriter json;
  json.BeginObject().Field("step", report.step).Field("loss", report.loss);
  json.Field("step_time_s", report.seconds);
  if (predicted.step_s > 0) json.Field("predicted_step_time_s", predicted.step_s);
  json.Field("tokens_per_s", report.tokens_per_s).Field("learning_rate", report.learning_rate);
  json.Field("resident_bytes", report.resident_bytes);
  if (predicted.resident_bytes > 0) {
    json.Field("predicted_resident_bytes", predicted.resident_bytes);
  }
  if (report.gradient_norm) json.Field("gradient_norm", *report.gradient_norm);
  if (report.usual_loss) json.Field("usual_loss", *report.usual_loss);
  if (report.skipped) json.Field("skipped", true);
  if (run != 0) json.Field("run", run);
  return json.EndObject().Take();
}

std::string StepLine(const EvaluationReport& report, RunId run, const StepForecast& predicted) {
  JsonWriter json;
  json.BeginObject().Field("step", report.step).Field("evaluation_loss", report.loss);
  json.Field("evaluation_s", report.seconds);
  if (predicted.evaluation_s > 0) json.Field("predicted_evaluation_s", predicted.evaluation_s);
  if (run != 0) json.Field("run", run);
  return json.EndObject().Take();
}

// A folder that is missing is created later, so the nearest one above it that exists is checked.
Result<void> CheckStepFiles(const StepFilePaths& paths) {
  FT_TRY(CheckOutputFile("--metrics", paths.lines));
  if (paths.tensorboard.empty()) return {};
  PosixFileSystem files;
  const std::string where = "--tensorboard: " + Printable(paths.tensorboard, 512) + ": ";
  std::string folder = paths.tensorboard;
  for (;;) {
    FT_ASSIGN(const FileInfo info, files.Stat(folder));
    if (info.kind == FileKind::kDirectory) break;
    if (info.kind != FileKind::kMissing) {
      return Fail(ErrorCode::kIo,
                  where + Printable(folder, 512) + " is no folder; name one to make or to use");
    }
    folder = ParentFolder(folder);
  }
  if (access(folder.c_str(), W_OK) == 0) return {};
  return Fail(ErrorCode::kIo, where + "files cannot be made in " + Printable(folder, 512) +
                                  "; name another folder");
}

Result<std::unique_ptr<StepFiles>> StepFiles::Open(FileSystem& files, Clock& clock,
                                                   const StepFilePaths& paths) {
  std::unique_ptr<StepFiles> opened(new StepFiles(clock));
  if (!paths.lines.empty()) {
    FT_ASSIGN(opened->lines_, OpenLines(files, paths.lines));
  }
  if (!paths.tensorboard.empty()) {
    FT_ASSIGN(opened->events_, OpenEvents(files, paths.tensorboard, opened->Now()));
  }
  return opened;
}

Result<void> StepFiles::Add(const StepReport& report, RunId run, const StepForecast& predicted) {
  std::vector<TensorBoardScalar> scalars;
  const auto add = [&scalars](std::string_view tag, double value) {
    scalars.push_back({tag, static_cast<float>(value)});
  };
  add("train/loss", report.loss);
  if (report.gradient_norm) add("train/gradient_norm", *report.gradient_norm);
  add("train/learning_rate", report.learning_rate);
  add("speed/step_time_s", report.seconds);
  if (predicted.step_s > 0) add("speed/predicted_step_time_s", predicted.step_s);
  add("speed/tokens_per_s", report.tokens_per_s);
  add("memory/resident_bytes", static_cast<double>(report.resident_bytes));
  return Write(StepLine(report, run, predicted), report.step, scalars);
}

Result<void> StepFiles::Add(const EvaluationReport& report, RunId run,
                            const StepForecast& predicted) {
  const TensorBoardScalar scalar{"evaluation/loss", static_cast<float>(report.loss)};
  return Write(StepLine(report, run, predicted), report.step, std::span(&scalar, 1));
}

Result<void> StepFiles::Write(const std::string& line, std::int64_t step,
                              std::span<const TensorBoardScalar> scalars) {
  Result<void> written;
  if (lines_ != nullptr) written = lines_->Append(BytesOf(line + "\n"));
  if (written.has_value() && events_ != nullptr) {
    written = events_->Append(BytesOf(TensorBoardStep(Now(), step, scalars)));
  }
  if (!written.has_value()) lines_ = nullptr, events_ = nullptr;
  return written;
}

double StepFiles::Now() const { return SecondsFromNs(clock_.RealtimeNs()); }

}  // namespace foretrain
