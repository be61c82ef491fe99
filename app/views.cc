#include "app/views.h"

#include <filesystem>
#include <utility>

#include "app/trace_store.h"
#include "base/file_system.h"
#include "base/text.h"
#include "base/units.h"
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
  RunView view = RunViewOf(std::move(run), MetricOptionsFor(stored.context, stored.plan, warmup));
  view.model = stored.context.model.name;
  view.label =
      "run " + std::to_string(id) + ": " + stored.context.model.name + " " + Describe(stored.plan);
  return view;
}

Result<std::unique_ptr<OpenedStore>> Load(const StoreReader& reader, const StoreRequest& request) {
  auto opened = std::make_unique<OpenedStore>();
  std::error_code error;
  const auto path = std::filesystem::absolute(request.path, error);
  opened->path = error ? request.path : path.lexically_normal().string();
  FT_ASSIGN(opened->runs, reader.ListRuns());
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
  if (pair.measured && pair.measured->info.kind == RunKind::kImported) {
    // A trace beside a forecast is taken for a training of its plan.
    std::optional<MetricOptions> options;
    if (input.predicted) options = input.predicted->metrics;
    if (options) options->warmup_steps = 0;
    input.measured = RunViewOf(*std::move(pair.measured), options);
  } else if (pair.measured) {
    FT_ASSIGN(input.measured, ViewOf(reader, *std::move(pair.measured)));
  }
  return input;
}

struct DesktopStores::Current {
  StoreReader reader;
  std::int64_t version = 0;  // of the data, when they were read
  StoreRequest request{};    // with the run that is shown
};

DesktopStores::DesktopStores() = default;
DesktopStores::~DesktopStores() = default;

std::string DesktopStores::Doing() const {
  const std::lock_guard lock(doing_mutex_);
  return doing_;
}

// The store itself, or that of a trace.
Result<std::string> DesktopStores::PathOf(const std::string& path) {
  PosixFileSystem files;
  const Result<bool> trace = LooksLikeTrace(files, path);
  if (!trace.has_value() || !*trace) return path;  // opening it says what is wrong
  const auto say = [this](std::string text) {
    const std::lock_guard lock(doing_mutex_);
    doing_ = std::move(text);
  };
  ImportOptions options;
  options.progress = [&](const ImportProgress& progress) {
    say("Importing: " + progress.what + ", " + FormatPercent(progress.share));
    return !ending_;
  };
  Result<std::string> store = StoreOfTrace(path, options);
  say("");
  return store;
}

Result<std::unique_ptr<OpenedStore>> DesktopStores::Open(const StoreRequest& request) {
  StoreRequest store = request;
  FT_ASSIGN(store.path, PathOf(request.path));
  FT_ASSIGN(StoreReader reader, StoreReader::Open(store.path));
  auto next = std::make_unique<Current>(Current{std::move(reader), 0, store});
  FT_ASSIGN(next->version, next->reader.DataVersion());
  FT_ASSIGN(std::unique_ptr<OpenedStore> opened, Load(next->reader, next->request));
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
  FT_ASSIGN(std::unique_ptr<OpenedStore> opened, Load(current_->reader, current_->request));
  current_->version = now;
  return opened;
}

}  // namespace foretrain
