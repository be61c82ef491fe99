// A store, or SQL (behind a first line of "--") that changes a whole one as no recorder would: if
// it opens, it is listed and loaded whole and in parts, or refused with a sentence, and the metrics
// of the loaded data are consistent. In builds with the desktop, its view model is built of each
// run, and of each pair that follow one another. Then the file is opened for recording: a run is
// added, renamed and deleted, and every run that could be loaded before is loaded again with the
// same spans.
#include <sqlite3.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"
#include "base/units.h"
#include "tests/fuzz/fuzz.h"
#include "traces/kernels/kernel_table.h"
#include "traces/metrics/metrics.h"
#include "traces/store.h"

#if FORETRAIN_HAVE_UI
#include "ui/stored_run.h"
#include "ui/view_model/runs/compare_model.h"
#include "ui/view_model/runs/sides.h"
#endif

namespace {

using namespace foretrain;

// SQLite takes a path: a file that is removed with the process.
class TempFile {
 public:
  TempFile() : path_((std::filesystem::temp_directory_path() / "store-XXXXXX").string()) {
    file_ = mkstemp(path_.data());
    FT_CHECK(file_ >= 0);
  }
  ~TempFile() {
    close(file_);
    unlink(path_.c_str());
  }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;

  // A log beside the file belongs to the input before.
  void Fill(std::string_view bytes) const {
    for (const char* end : {"-wal", "-shm", "-journal"}) unlink((path_ + end).c_str());
    FT_CHECK(ftruncate(file_, 0) == 0);
    FT_CHECK(pwrite(file_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int file_ = -1;
};

#if FORETRAIN_HAVE_UI
// Builds the model of a run beside the one before it.
void View(StoredRun run, CompareInput& input) {
  input.predicted = std::move(input.measured);
  input.measured = RunViewOf(std::move(run));
  const ui::CompareModel model = ui::BuildCompareModel(input, ui::FactsOf(input), {});
  for (const PairedOp& pair : model.pairs) FT_CHECK(pair.predicted || pair.measured);
}
#endif

constexpr std::string_view kSqlMark = "--\n";

template <class T>
void ExpectReason(const Result<T>& result) {
  FT_CHECK(result.has_value() || !result.error().message.empty());
}

// Stores a run with rows in each table: two ranks, two steps.
void StoreRun(Store& store, RunKind kind) {
  RunSetup setup{.kind = kind, .label = "whole", .world = 2};
  setup.specs = {.model_json = "{}",
                 .hardware_json = "{}",
                 .plan_json = "{}",
                 .program_hash = 7,
                 .program = "blocks"};
  const auto run = store.BeginRun(setup);
  FT_CHECK(run.has_value());
  Timeline timeline;
  timeline.world = setup.world;
  for (std::int16_t rank = 0; rank < 2; ++rank) {
    for (std::int32_t step = 0; step < 2; ++step) {
      const std::int64_t begin = std::int64_t{100} * step;
      const std::int64_t start = begin + rank;
      timeline.spans.push_back({.start_ns = start,
                                .end_ns = start + 40,
                                .op = 4096 + step,
                                .bytes = 64,
                                .ready_ns = start - 5,
                                .step = step,
                                .rank = rank});
      timeline.memory.push_back({.time_ns = start, .bytes = 1024, .rank = rank});
      timeline.steps.push_back(
          {.start_ns = begin, .end_ns = begin + 50, .step = step, .rank = rank});
    }
  }
  timeline.op_names = {{4096, "mlp.up"}, {4097, "mlp.down"}};
  const std::vector<Counter> counters = {{"loss", -1, 1, 0, 2.5},
                                         {"resident_bytes", -1, 1, 0, 1 << 20}};
  const std::vector<MetricValue> metrics = {{.name = "step_time_s", .value = 5e-8}};
  KernelTable kernels;
  kernels.rows.push_back({.name = "gemm", .calls = 2, .total_ns = 80});
  kernels.ops[4096] = {0};
  FT_CHECK((*run)->AddTimeline(timeline).has_value());
  FT_CHECK((*run)->AddCounters(counters).has_value());
  FT_CHECK((*run)->AddMetrics(metrics).has_value());
  FT_CHECK((*run)->AddClock({1, 100, 200, 5}).has_value());
  FT_CHECK((*run)->AddNote("a note").has_value());
  FT_CHECK((*run)->Attach(kKernelsAttachment, KernelsToJson(kernels)).has_value());
  FT_CHECK((*run)->Finish(RunStatus::kFinished).has_value());
}

// The bytes of a store of two runs.
std::string WholeStore() {
  const TempFile file;
  {
    const auto store = Store::Open(file.path());
    FT_CHECK(store.has_value());
    StoreRun(**store, RunKind::kPredicted);
    StoreRun(**store, RunKind::kMeasured);
    FT_CHECK((*store)->Close().has_value());
  }
  PosixFileSystem files;
  const auto bytes = ReadFile(files, file.path(), kMiB);
  FT_CHECK(bytes.has_value());
  return *bytes;
}

// Runs the statements up to the first that fails, or until they have taken about a second.
void Change(const std::string& path, const std::string& sql) {
  sqlite3* raw = nullptr;
  FT_CHECK(sqlite3_open(path.c_str(), &raw) == SQLITE_OK);
  const std::unique_ptr<sqlite3, int (*)(sqlite3*)> database(raw, sqlite3_close);
  sqlite3_limit(raw, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_limit(raw, SQLITE_LIMIT_LENGTH, 1 << 20);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1, nullptr);
  int left = 100;
  sqlite3_progress_handler(
      raw, 10'000, [](void* calls) { return --*static_cast<int*>(calls) < 0 ? 1 : 0; }, &left);
  sqlite3_exec(raw, "PRAGMA max_page_count = 256; PRAGMA journal_mode = DELETE", nullptr, nullptr,
               nullptr);
  sqlite3_exec(raw, sql.c_str(), nullptr, nullptr, nullptr);
}

// The second half of a run's time, and its first step on one rank.
void LoadParts(const StoreReader& reader, const Timeline& whole, RunId id) {
  if (whole.spans.empty()) return;
  const std::int64_t end = whole.spans.back().end_ns;
  const std::int64_t middle = whole.spans.front().start_ns / 2 + end / 2;
  LoadOptions options{.window_ns = std::pair(middle, end)};
  const auto window = reader.LoadRun(id, options);
  ExpectReason(window);
  if (window.has_value()) FT_CHECK(window->timeline.spans.size() <= whole.spans.size());
  const auto sums = reader.LoadSums(id);
  ExpectReason(sums);
  if (sums.has_value()) {
    options.sums = &*sums;
    ExpectReason(reader.LoadRun(id, options));
  }
  const std::int32_t step = whole.spans.front().step;
  const auto steps =
      reader.LoadRun(id, {.steps = std::pair(step, step), .ranks = {whole.spans.front().rank}});
  ExpectReason(steps);
  if (!steps.has_value()) return;
  for (const Span& span : steps->timeline.spans) FT_CHECK(span.step == step);
}

using SpansByRun = std::map<RunId, std::vector<Span>>;

// The spans of each run that can be loaded.
SpansByRun ReadAll(const std::string& path) {
  SpansByRun loaded;
  const auto reader = StoreReader::Open(path);
  ExpectReason(reader);
  if (!reader.has_value()) return loaded;
  const auto runs = reader->ListRuns();
  if (!runs.has_value()) return loaded;
#if FORETRAIN_HAVE_UI
  CompareInput shown;
#endif
  for (const RunInfo& info : *runs) {
    auto run = reader->LoadRun(info.id);
    ExpectReason(run);
    if (!run.has_value()) continue;
    const Metrics metrics = ComputeMetrics(run->timeline);
    for (const RankStep& step : metrics.rank_steps) {
      FT_CHECK(step.classes.Sum() == step.end_ns - step.start_ns);
    }
    LoadParts(*reader, run->timeline, info.id);
    loaded[info.id] = run->timeline.spans;
#if FORETRAIN_HAVE_UI
    View(*std::move(run), shown);
#endif
  }
  return loaded;
}

// Adds a run of one span, renames it and deletes it. A file that is no store is left as it is.
void Record(const std::string& path) {
  const auto store = Store::Open(path);
  ExpectReason(store);
  if (!store.has_value()) return;
  const auto recorder = (*store)->BeginRun({.label = "added"});
  ExpectReason(recorder);
  if (!recorder.has_value()) return;
  std::vector<Span> spans{{.start_ns = 1, .end_ns = 2}};
  ExpectReason((*recorder)->Add(spans));
  ExpectReason((*recorder)->Finish(RunStatus::kFinished));
  ExpectReason((*store)->Close());
  const RunId id = (*recorder)->id();
  ExpectReason(RenameRun(path, id, "renamed"));
  ExpectReason(DeleteRun(path, id));
}

bool Same(const std::vector<Span>& a, const std::vector<Span>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(Span)) == 0);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const TempFile file;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (input.starts_with(kSqlMark)) {
    static const std::string whole = WholeStore();
    file.Fill(whole);
    Change(file.path(), std::string(input));
  } else {
    file.Fill(input);
  }
  const SpansByRun before = ReadAll(file.path());
  Record(file.path());
  const SpansByRun after = ReadAll(file.path());
  for (const auto& [id, spans] : before) {
    const auto again = after.find(id);
    FT_CHECK(again != after.end() && Same(again->second, spans));
  }
  return 0;
}
