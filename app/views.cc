#include "app/views.h"

#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include "app/long_run.h"
#include "app/run_models.h"
#include "app/trace_store.h"
#include "base/file_system.h"
#include "base/text.h"
#include "base/units.h"
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
  RunView view = RunViewOf(std::move(run), MetricOptionsFor(stored.context, stored.plan, warmup));
  view.groups = CommunicationGroupsOf(stored.plan);
  view.model = stored.context.model.name;
  view.label =
      "run " + std::to_string(id) + ": " + stored.context.model.name + " " + Describe(stored.plan);
  return view;
}

// What tells a file from another that took its name, and from itself cut short.
struct FileMark {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t size_bytes = 0;

  bool IsLaterOf(const FileMark& before) const {
    return device == before.device && inode == before.inode && size_bytes >= before.size_bytes;
  }
};

Result<FileMark> MarkOf(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) == 0) {
    return FileMark{found.st_dev, found.st_ino, found.st_size};
  }
  const bool gone = errno == ENOENT || errno == ENOTDIR;
  return Fail(ErrorCode::kIo, Printable(path, 512) + ": " +
                                  (gone ? "the file is gone" : std::strerror(errno)) +
                                  "; what is shown was read before");
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
  FileMark mark{};           // of the file, when it was opened
  std::int64_t version = 0;  // of the data, when they were read
  StoreRequest request{};    // with the run that is shown
  std::vector<RunInfo> runs{};
  std::map<RunId, std::string> models{};  // OpenedStore::models of `runs`
  std::array<std::optional<LongRun>, 2> long_runs{};  // [side]; none where they are read whole
  std::array<std::vector<Stretch>, 2> stretches{};    // of the long runs, as last read

  bool IsLong() const { return long_runs[0].has_value() || long_runs[1].has_value(); }

  // Reads the runs anew: whole, or of long ones all but spans.
  Result<std::unique_ptr<OpenedStore>> Load();
  Result<std::unique_ptr<OpenedStore>> ReadStretches();

 private:
  Result<void> LoadLong(std::size_t side, RunId id);
  std::unique_ptr<OpenedStore> Opened() const;
};

std::unique_ptr<OpenedStore> DesktopStores::Current::Opened() const {
  auto opened = std::make_unique<OpenedStore>();
  std::error_code error;
  const auto path = std::filesystem::absolute(request.path, error);
  opened->path = error ? request.path : path.lexically_normal().string();
  opened->runs = runs;
  opened->models = models;
  opened->run = request.run;
  opened->against = request.against;
  return opened;
}

Result<void> DesktopStores::Current::LoadLong(std::size_t side, RunId id) {
  FT_ASSIGN(StoredRun run, reader.LoadRun(id, {.spans = false}));
  std::vector<MetricValue> figures = run.metrics;
  FT_ASSIGN(RunView view, ViewOf(reader, std::move(run)));
  view.figures = std::move(figures);
  FT_ASSIGN(SpanSums sums, reader.LoadSums(id));
  view.sums = std::make_shared<const SpanSums>(std::move(sums));
  long_runs[side].emplace(id, std::move(view));
  return {};
}

Result<std::unique_ptr<OpenedStore>> DesktopStores::Current::Load() {
  FT_ASSIGN(runs, reader.ListRuns());
  FT_TRY(AddModelNames(reader, runs, models));
  FT_ASSIGN(const RunChoice choice, ChoosePair(reader, request.run, request.against));
  // The run that is shown stays the same when newer ones come.
  request.run = choice.measured.has_value() ? choice.measured->id : choice.predicted->id;
  std::int64_t spans = 0;
  for (const auto& run : {choice.predicted, choice.measured}) spans += run ? run->spans : 0;
  long_runs = {};
  if (spans <= kMostWholeSpans) {
    stretches = {};
    std::unique_ptr<OpenedStore> opened = Opened();
    FT_ASSIGN(RunPair pair, LoadPair(reader, request.run, request.against));
    FT_ASSIGN(opened->input, CompareInputOf(reader, std::move(pair)));
    return opened;
  }
  if (choice.predicted.has_value()) FT_TRY(LoadLong(0, choice.predicted->id));
  if (choice.measured.has_value()) FT_TRY(LoadLong(1, choice.measured->id));
  return ReadStretches();
}

Result<std::unique_ptr<OpenedStore>> DesktopStores::Current::ReadStretches() {
  std::unique_ptr<OpenedStore> opened = Opened();
  for (const std::size_t side : {0, 1}) {
    if (!long_runs[side].has_value()) continue;
    auto& view = side == 0 ? opened->input.predicted : opened->input.measured;
    FT_ASSIGN(view, long_runs[side]->With(reader, stretches[side]));
  }
  return opened;
}

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
  auto next = std::make_unique<Current>(Current{.reader = std::move(reader), .request = store});
  FT_ASSIGN(next->mark, MarkOf(store.path));
  FT_ASSIGN(next->version, next->reader.DataVersion());
  FT_ASSIGN(std::unique_ptr<OpenedStore> opened, next->Load());
  current_ = std::move(next);
  return opened;
}

Result<std::unique_ptr<OpenedStore>> DesktopStores::Read(
    const std::array<std::vector<Stretch>, 2>& stretches) {
  if (current_ == nullptr || !current_->IsLong()) {
    return Fail(ErrorCode::kAborted, "no long run is open");
  }
  current_->stretches = stretches;
  return current_->ReadStretches();
}

Result<std::unique_ptr<OpenedStore>> DesktopStores::Newer() {
  if (current_ == nullptr) return nullptr;
  FT_ASSIGN(const FileMark mark, MarkOf(current_->request.path));
  // Another file under this name, or this one cut short: our connection knows nothing of that.
  if (!mark.IsLaterOf(current_->mark)) return Open(current_->request);
  PosixFileSystem files;
  FT_TRY(files.Open(current_->request.path));
  FT_ASSIGN(const std::int64_t now, current_->reader.DataVersion());
  if (now == current_->version) return nullptr;
  FT_ASSIGN(std::unique_ptr<OpenedStore> opened, current_->Load());
  current_->mark = mark;
  current_->version = now;
  return opened;
}

}  // namespace foretrain
