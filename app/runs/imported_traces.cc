#include "app/runs/imported_traces.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include "app/cli/stop_signal.h"
#include "app/runs/inferred_plans.h"
#include "base/io/file_system.h"
#include "base/text.h"
#include "sim/infer/infer_plan.h"
#include "traces/store.h"

namespace foretrain {
namespace {

// A progress line on a terminal, redrawn at each tenth.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet) : shown_(!quiet && isatty(STDERR_FILENO) == 1) {}
  ~ProgressLine() {
    if (drawn_) std::fputs("\r\033[K", stderr);
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Show(const ImportProgress& progress) {
    const int percent = static_cast<int>(progress.share * 100);
    // Called far more often than the text changes.
    if (!shown_ || (progress.what == what_ && percent == percent_)) return;
    what_ = progress.what;
    percent_ = percent;
    drawn_ = true;
    std::fprintf(stderr, "\r\033[K%s: %d %%", what_.c_str(), percent_);
  }

 private:
  bool shown_;
  bool drawn_ = false;
  std::string what_;
  int percent_ = -1;
};

bool IsTrace(std::string_view name) {
  return name.ends_with(".json") || name.ends_with(".json.gz") || name.ends_with(".sqlite") ||
         name.ends_with(".pickle") || name.ends_with(".et");
}

}  // namespace

Result<std::vector<std::string>> TracesAt(const std::string& path) {
  PosixFileSystem files;
  std::error_code none;
  if (!std::filesystem::is_directory(path, none)) return std::vector<std::string>{path};
  FT_ASSIGN(std::vector<std::string> names, files.List(path));
  // Beside execution traces lies JSON of the simulators that read them.
  const auto is_graph = [](const std::string& name) { return name.ends_with(".et"); };
  const bool graphs = std::any_of(names.begin(), names.end(), is_graph);
  std::erase_if(names,
                [&](const std::string& name) { return graphs ? !is_graph(name) : !IsTrace(name); });
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return std::pair(a.size(), a) < std::pair(b.size(), b);
  });
  if (names.empty()) {
    return Fail(
        ErrorCode::kInvalidArgument,
        Printable(path) + ": has no trace: no .json, .json.gz, .sqlite, .pickle or .et file");
  }
  for (std::string& name : names) name = (std::filesystem::path(path) / name).string();
  return names;
}

Result<std::vector<std::string>> TracesIn(std::string_view text) {
  std::vector<std::string> traces;
  for (const std::string_view part : Split(text, ',')) {
    FT_ASSIGN(const std::vector<std::string> at, TracesAt(std::string(Trim(part))));
    traces.insert(traces.end(), at.begin(), at.end());
  }
  return traces;
}

// Ctrl-C cancels through the progress callback, which the reader calls often.
Result<std::vector<ImportedRun>> ImportTraces(const std::vector<std::string>& traces,
                                              const std::string& store, ImportOptions options,
                                              bool quiet) {
  PosixFileSystem files;
  ProgressLine line(quiet);
  options.progress = [&line](const ImportProgress& progress) {
    line.Show(progress);
    return StopSignal() == 0;
  };
  FT_ASSIGN(std::vector<TraceRun> read, ReadTraces(files, traces, options));
  FT_ASSIGN(const std::unique_ptr<Store> opened, Store::Open(store));
  std::vector<ImportedRun> runs;
  for (TraceRun& run : read) {
    // Memory alone tells no plan.
    if (!run.own && !run.timeline.spans.empty()) {
      run.attachments.emplace(kInferredPlanAttachment,
                              ToJson(InferPlan(run.timeline, run.communication)));
    }
    FT_ASSIGN(ImportedRun stored, StoreTrace(*opened, std::move(run), options));
    runs.push_back(std::move(stored));
  }
  FT_TRY(opened->Close());
  return runs;
}

}  // namespace foretrain
