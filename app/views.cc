#include "app/views.h"

#include <array>
#include <filesystem>
#include <map>
#include <utility>

#include "app/run_models.h"
#include "base/file_system.h"
#include "base/text.h"
#include "sim/cost/communication_groups.h"
#include "ui/stored_run.h"

namespace foretrain {
namespace {

Result<RunView> ViewOf(const StoreReader& reader, StoredRun run) {
  if (run.info.kind == RunKind::kImported) return RunViewOf(std::move(run));  // without specs
  FT_ASSIGN(const StoredContext stored, ContextOf(reader, run));
  // A forecast is its last, steady step; a run is all but its first.
  const bool forecast = run.info.kind == RunKind::kPredicted;
  const int steps = run.info.last_step.value_or(0);
  const RunId id = run.info.id;
  const int warmup = forecast ? steps : WarmupSteps(run.timeline);
  RunView view =
      RunViewOf(std::move(run), MetricOptionsFor(stored.context, stored.plan, warmup));
  view.groups = CommunicationGroupsOf(stored.plan);
  view.model = stored.context.model.name;
  view.label =
      "run " + std::to_string(id) + ": " + stored.context.model.name + " " + Describe(stored.plan);
  return view;
}

// A text is no store. Chrome's and others' traces are JSON.
Result<void> RefuseTrace(const std::string& path) {
  PosixFileSystem files;
  FT_ASSIGN(const std::unique_ptr<ReadableFile> file, files.Open(path));
  std::array<std::byte, 1> first{};
  FT_ASSIGN(const std::int64_t read, file->ReadAt(0, first));
  const char c = static_cast<char>(first[0]);
  if (read < 1 || (c != '{' && c != '[' && c != '\x1f')) return {};
  return Fail(ErrorCode::kUnsupported,
              Printable(path, 512) +
                  ": is no store but, by its first byte, a trace in JSON or packed with gzip; "
                  "foretrain writes such traces (`foretrain export`) and reads stores alone, which "
                  "`foretrain train` and `foretrain predict` make");
}

// `models`: names that are known already; those of new runs are added.
Result<std::unique_ptr<OpenedStore>> Load(const StoreReader& reader, const StoreRequest& request,
                                          std::map<RunId, std::string>& models) {
  auto opened = std::make_unique<OpenedStore>();
  std::error_code error;
  const auto path = std::filesystem::absolute(request.path, error);
  opened->path = error ? request.path : path.lexically_normal().string();
  FT_ASSIGN(opened->runs, reader.ListRuns());
  FT_TRY(AddModelNames(reader, opened->runs, models));
  opened->models = models;
  FT_ASSIGN(RunPair pair, LoadPair(reader, request.run, request.against));
  opened->against = request.against;
  opened->run = pair.measured ? pair.measured->info.id : pair.predicted->info.id;
  FT_ASSIGN(opened->input, CompareInputOf(reader, std::move(pair)));
  return opened;
}

}  // namespace

Result<CompareInput> CompareInputOf(const StoreReader& reader, RunPair pair) {
  CompareInput input;
  if (pair.predicted) {
    FT_ASSIGN(input.predicted, ViewOf(reader, *std::move(pair.predicted)));
  }
  if (pair.measured) {
    FT_ASSIGN(input.measured, ViewOf(reader, *std::move(pair.measured)));
  }
  return input;
}

struct DesktopStores::Current {
  StoreReader reader;
  std::int64_t version = 0;  // of the data, when they were read
  StoreRequest request{};    // with the run that is shown
  std::map<RunId, std::string> models{};
};

DesktopStores::DesktopStores() = default;
DesktopStores::~DesktopStores() = default;

Result<std::unique_ptr<OpenedStore>> DesktopStores::Open(const StoreRequest& request) {
  FT_TRY(RefuseTrace(request.path));
  FT_ASSIGN(StoreReader reader, StoreReader::Open(request.path));
  auto next = std::make_unique<Current>(Current{std::move(reader), 0, request, {}});
  FT_ASSIGN(next->version, next->reader.DataVersion());
  FT_ASSIGN(std::unique_ptr<OpenedStore> opened, Load(next->reader, next->request, next->models));
  // The run that is shown stays the same when newer ones come.
  next->request.run = opened->run;
  current_ = std::move(next);
  return opened;
}

Result<std::unique_ptr<OpenedStore>> DesktopStores::Newer() {
  if (current_ == nullptr) return nullptr;
  PosixFileSystem files;
  FT_ASSIGN(const FileInfo info, files.Stat(current_->request.path));
  if (info.kind == FileKind::kMissing) {
    return Fail(ErrorCode::kIo, Printable(current_->request.path, 512) +
                                    ": the file is gone; what is shown was read before");
  }
  FT_ASSIGN(const std::int64_t now, current_->reader.DataVersion());
  if (now == current_->version) return nullptr;
  FT_ASSIGN(std::unique_ptr<OpenedStore> opened, Load(current_->reader, current_->request, current_->models));
  current_->version = now;
  return opened;
}

}  // namespace foretrain
