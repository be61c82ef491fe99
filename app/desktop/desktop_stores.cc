#include "app/desktop/desktop_stores.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <utility>

#include "app/desktop/trace_cache.h"
#include "app/desktop/views.h"
#include "app/runs/stored_runs.h"
#include "base/io/file_system.h"
#include "base/text.h"
#include "base/units.h"
#include "sim/config/model/model_json.h"
#include "traces/import/import.h"
#include "traces/store.h"

namespace foretrain {
namespace {

namespace fs = std::filesystem;

// If two runs have more spans than this together, they are read in stretches.
constexpr std::int64_t kMaxWholeSpans = 500'000;

// A stored run that is too long to be read whole: the sums of all its spans, and the spans of the
// stretches that are looked at.
class LongRun {
 public:
  // `view`: the run without spans, with its sums.
  LongRun(RunId id, RunView view) : id_(id), view_(std::move(view)) {}

  // The run with the spans and memory samples of `stretches`, which are sorted and do not touch.
  // The kMaxKept stretches used last stay in memory. Errors: those of LoadRun.
  Result<RunView> With(const StoreReader& reader, const std::vector<Stretch>& stretches);

 private:
  static constexpr std::size_t kMaxKept = 6;

  struct Part {
    Stretch stretch{};
    std::vector<Span> spans{};
    std::vector<MemorySample> memory{};
  };

  Result<const Part*> PartOf(const StoreReader& reader, const Stretch& stretch);

  RunId id_;
  RunView view_;
  std::vector<Part> parts_;  // the one used last at the end
};

// A small cache, the stretch used last at the end: panning back and forth reads nothing again.
Result<const LongRun::Part*> LongRun::PartOf(const StoreReader& reader, const Stretch& stretch) {
  const auto known = std::find_if(parts_.begin(), parts_.end(),
                                  [&](const Part& part) { return part.stretch == stretch; });
  if (known != parts_.end()) {
    std::rotate(known, known + 1, parts_.end());
    return &parts_.back();
  }
  FT_ASSIGN(StoredRun run,
            reader.LoadRun(id_, {.window_ns = std::pair(stretch.start_ns, stretch.end_ns),
                                 .counters = false,
                                 .kernels = false,
                                 .sums = view_.sums.get()}));
  // The reader reserves memory for whole batches.
  run.timeline.spans.shrink_to_fit();
  run.timeline.memory.shrink_to_fit();
  if (parts_.size() == kMaxKept) parts_.erase(parts_.begin());
  parts_.push_back({stretch, std::move(run.timeline.spans), std::move(run.timeline.memory)});
  return &parts_.back();
}

// Joins the parts and sorts them once. O(n log n) in the spans of the stretches.
Result<RunView> LongRun::With(const StoreReader& reader, const std::vector<Stretch>& stretches) {
  RunView view = view_;
  view.loaded = stretches;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    FT_ASSIGN(const Part* const part, PartOf(reader, stretches[i]));
    const std::vector<MemorySample>& memory = part->memory;
    view.timeline.memory.insert(view.timeline.memory.end(), memory.begin(), memory.end());
    for (const Span& span : part->spans) {
      // A span that reaches from one stretch into the next was read with the first.
      const bool twice = i > 0 && span.start_ns < stretches[i - 1].end_ns;
      if (!twice) view.timeline.spans.push_back(span);
    }
  }
  SortTimeline(view.timeline);  // stretches of several ranks interleave
  return view;
}

// Tells a file from another file of the same name, and from itself cut short.
struct FileMark {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t size_bytes = 0;

  bool IsLaterOf(const FileMark& before) const {
    return device == before.device && inode == before.inode && size_bytes >= before.size_bytes;
  }
};

// Errors: kIo if the file is gone. The runs already shown stay on screen.
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

// Adds the model names of those measured runs that `names` lacks. Skips a run without a model, or
// with one that cannot be read. O(metrics of a run) for each that is added.
Result<void> AddModelNames(const StoreReader& reader, const std::vector<RunInfo>& runs,
                           std::map<RunId, std::string>& names) {
  for (const RunInfo& run : runs) {
    if (run.kind != RunKind::kMeasured || names.contains(run.id)) continue;
    LoadOptions options;
    options.timeline = false;
    options.counters = false;
    FT_ASSIGN(const StoredRun stored, reader.LoadRun(run.id, options));
    const auto model = ModelFromJson(stored.specs.model_json, "run " + std::to_string(run.id));
    if (model.has_value()) names.emplace(run.id, model->name);
  }
  return {};
}

Result<void> Write(const std::string& path, std::vector<TraceRun> runs,
                   const ImportOptions& options) {
  FT_ASSIGN(const std::unique_ptr<Store> store, Store::Open(path));
  for (TraceRun& run : runs) FT_TRY(StoreTrace(*store, std::move(run), options));
  return store->Close();
}

Result<std::string> StoreOfTrace(const std::string& path, const ImportOptions& options) {
  return CachedStore(path, [&](const std::string& store) -> Result<void> {
    PosixFileSystem files;
    FT_ASSIGN(std::vector<TraceRun> runs, ReadTraces(files, std::span(&path, 1), options));
    return Write(store, std::move(runs), options);
  });
}

}  // namespace

struct DesktopStores::Current {
  StoreReader reader;
  FileMark mark{};           // of the file, when it was opened
  std::int64_t version = 0;  // of the data, when they were read
  StoreRequest request{};    // with the run that is shown
  std::vector<RunInfo> runs{};
  std::map<RunId, std::string> models{};              // OpenedStore::models of `runs`
  std::array<std::optional<LongRun>, 2> long_runs{};  // [side]; absent if the run is read whole
  std::array<std::vector<Stretch>, 2> stretches{};    // of the long runs, as last read

  bool IsLong() const { return long_runs[0].has_value() || long_runs[1].has_value(); }

  // Reads the runs again: whole, or long runs without spans.
  Result<std::unique_ptr<OpenedStore>> Load();
  Result<std::unique_ptr<OpenedStore>> ReadStretches();

 private:
  Result<void> LoadLong(std::size_t side, RunId id);
  std::unique_ptr<OpenedStore> Opened() const;
};

// The parts that long and short runs share; the caller adds `input`.
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

// Reads the run without its spans, and the precomputed sums of them. Spans come later, by
// stretches.
Result<void> DesktopStores::Current::LoadLong(std::size_t side, RunId id) {
  FT_ASSIGN(StoredRun run, reader.LoadRun(id, {.spans = false}));
  std::vector<MetricValue> stored_metrics = run.metrics;
  FT_ASSIGN(RunView view, ViewOf(reader, std::move(run)));
  view.stored_metrics = std::move(stored_metrics);
  FT_ASSIGN(SpanSums sums, reader.LoadSums(id));
  view.sums = std::make_shared<const SpanSums>(std::move(sums));
  long_runs[side].emplace(id, std::move(view));
  return {};
}

// Short runs are read whole. Of long ones only sums and step windows are read here; their spans
// come by stretches, once a view shows them.
Result<std::unique_ptr<OpenedStore>> DesktopStores::Current::Load() {
  FT_ASSIGN(runs, reader.ListRuns());
  FT_TRY(AddModelNames(reader, runs, models));
  FT_ASSIGN(const RunChoice choice, ChoosePair(reader, request.run, request.against));
  // The run that is shown stays the same when newer ones come.
  request.run = choice.measured.has_value() ? choice.measured->id : choice.predicted->id;
  std::int64_t spans = 0;
  for (const auto& run : {choice.predicted, choice.measured}) spans += run ? run->spans : 0;
  long_runs = {};
  if (spans <= kMaxWholeSpans) {
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

// Reads only the stretches that the cache of a long run lacks.
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

// The store itself, or the store of a trace.
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

// The store before stays open until the new one is loaded, so that an error changes nothing.
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

// Errors: kAborted if the run was replaced by a short one meanwhile.
Result<std::unique_ptr<OpenedStore>> DesktopStores::Read(
    const std::array<std::vector<Stretch>, 2>& stretches) {
  if (current_ == nullptr || !current_->IsLong()) {
    return Fail(ErrorCode::kAborted, "no long run is open");
  }
  current_->stretches = stretches;
  return current_->ReadStretches();
}

// Cheap if nothing changed: one stat and one counter of the database. A replaced file is opened
// anew.
Result<std::unique_ptr<OpenedStore>> DesktopStores::Newer() {
  if (current_ == nullptr) return nullptr;
  FT_ASSIGN(const FileMark mark, MarkOf(current_->request.path));
  // Our connection sees neither another file of this name nor that this one was cut short.
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
