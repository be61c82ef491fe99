// A store: if it opens, it is listed and loaded, or refused with a sentence, and the metrics of the
// loaded data are consistent. In builds with the desktop, its view model is built of each run, and
// of each pair that follow one another.
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>

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

  void Fill(const std::uint8_t* data, std::size_t size) const {
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

void ReadAll(const std::string& path) {
  const auto reader = StoreReader::Open(path);
  if (!reader.has_value()) {
    FT_CHECK(!reader.error().message.empty());
    return;
  }
  const auto runs = reader->ListRuns();
  if (!runs.has_value()) return;
#if FORETRAIN_HAVE_UI
  CompareInput shown;
#endif
  for (const RunInfo& info : *runs) {
    auto run = reader->LoadRun(info.id);
    if (!run.has_value()) {
      FT_CHECK(!run.error().message.empty());
      continue;
    }
    const Metrics metrics = ComputeMetrics(run->timeline);
    for (const RankStep& step : metrics.rank_steps) {
      FT_CHECK(step.classes.Sum() == step.end_ns - step.start_ns);
    }
#if FORETRAIN_HAVE_UI
    View(*std::move(run), shown);
#endif
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const TempFile file;
  file.Fill(data, size);
  ReadAll(file.path());
  return 0;
}
