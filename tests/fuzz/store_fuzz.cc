// A store: if it opens, it is listed and loaded whole and in parts, or refused with a sentence, and
// the metrics of the loaded data are consistent. In builds with the desktop, its view model is
// built of each run, and of each pair that follow one another. Then the file is opened for
// recording: a run is added, renamed and deleted, and every run that could be loaded before is
// loaded again with the same spans.
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tests/fuzz/fuzz.h"
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
  void Fill(const std::uint8_t* data, std::size_t size) const {
    for (const char* end : {"-wal", "-shm", "-journal"}) unlink((path_ + end).c_str());
    FT_CHECK(ftruncate(file_, 0) == 0);
    FT_CHECK(pwrite(file_, data, size, 0) == static_cast<ssize_t>(size));
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

template <class T>
void ExpectReason(const Result<T>& result) {
  FT_CHECK(result.has_value() || !result.error().message.empty());
}

// The second half of a run's time and its first step, by all that LoadRun can leave out.
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
  file.Fill(data, size);
  const SpansByRun before = ReadAll(file.path());
  Record(file.path());
  const SpansByRun after = ReadAll(file.path());
  for (const auto& [id, spans] : before) {
    const auto again = after.find(id);
    FT_CHECK(again != after.end() && Same(again->second, spans));
  }
  return 0;
}
