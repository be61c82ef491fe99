#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <thread>

#include "app/commands/commands.h"
#include "app/stop_signal.h"
#include "app/validation_report.h"
#include "base/file_system.h"
#include "base/text.h"
#include "base/units.h"
#include "sim/validate/predict_run.h"
#include "sim/validate/score.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxTableBytes = 64 * kMiB;
constexpr std::int64_t kMaxThreads = 256;

class Validate final : public Command {
 public:
  std::string_view Name() const override { return "validate"; }
  std::string_view Summary() const override {
    return "Forecast each published run of a table; errors by source";
  }

  void Declare(Arguments& arguments) override {
    arguments.Positionals("FILE.csv", files_, "Tables of published runs");
    arguments.Section("Output");
    arguments.Option("--out", out_, "FILE",
                     "Write a row a run: forecast time, memory, whether it fits");
    arguments.Option("--worst", worst_, "N", "Rows with the largest error of time to show");
    arguments.Option("--families", families_, "A,B", "Only these families");
    arguments.Option("--threads", threads_, "N", "Rows forecast at once; 0: one a core");
    DeclareJson(arguments);
    arguments.Footer(
        "  foretrain validate tests/data/validation/published-runs.csv --out predictions.csv");
  }

  Result<Exit> Run() override {
    const StopSignals signals;
    if (files_.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "FILE.csv is missing: name a table of published runs, such as "
                  "tests/data/validation/published-runs.csv");
    }
    FT_ASSIGN(const std::vector<PublishedRun> runs, ReadRuns());
    FT_ASSIGN(const CaseSources sources, BuiltInCaseSources());
    const std::vector<RunPrediction> predictions = PredictAll(runs, sources);
    if (StopSignal() != 0) return ExitOfSignal(StopSignal());
    if (!out_.empty()) {
      PosixFileSystem files;
      FT_TRY(WriteFileAtomically(files, out_, PredictionsCsv(runs, predictions)));
    }
    const ValidationReport report(runs, predictions,
                                  static_cast<std::size_t>(std::max<std::int64_t>(0, worst_)));
    std::fputs((json_ ? report.Json() + "\n" : report.Text()).c_str(), stdout);
    return Exit::kDone;
  }

 private:
  Result<std::vector<PublishedRun>> ReadRuns() const {
    PosixFileSystem files;
    std::vector<PublishedRun> runs;
    const std::vector<std::string_view> chosen = Split(families_, ',');
    for (const std::string& path : files_) {
      FT_ASSIGN(const std::string text, ReadFile(files, path, kMaxTableBytes));
      FT_ASSIGN(const std::vector<PublishedRun> more, ParsePublishedRuns(text, path));
      for (const PublishedRun& run : more) {
        if (families_.empty() ||
            std::find(chosen.begin(), chosen.end(), run.family) != chosen.end()) {
          runs.push_back(run);
        }
      }
    }
    if (runs.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "no row is left: the tables have none" +
                      (families_.empty() ? std::string() : " of --families " + families_));
    }
    return runs;
  }

  // Rows are dealt to threads one by one; each is a pure function of the row.
  std::vector<RunPrediction> PredictAll(const std::vector<PublishedRun>& runs,
                                        const CaseSources& sources) const {
    std::vector<RunPrediction> out(runs.size());
    std::atomic<std::size_t> next = 0, done = 0;
    std::mutex printing;
    const auto work = [&] {
      for (std::size_t row = next++; row < runs.size() && StopSignal() == 0; row = next++) {
        out[row] = PredictRun(runs[row], sources);
        ShowProgress(++done, runs.size(), printing);
      }
    };
    const auto count =
        static_cast<std::size_t>(threads_ > 0 ? std::min(threads_, kMaxThreads)
                                              : std::max(1U, std::thread::hardware_concurrency()));
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 1; i < count; ++i) threads.emplace_back(work);
      work();
    }
    return out;
  }

  void ShowProgress(std::size_t done, std::size_t of, std::mutex& printing) const {
    if (json_ || (done % 100 != 0 && done != of)) return;
    const std::lock_guard lock(printing);
    std::fprintf(stderr, "%zu of %zu runs\n", done, of);
  }

  std::vector<std::string> files_;
  std::string out_, families_;
  std::int64_t worst_ = 10;
  std::int64_t threads_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakeValidate() { return std::make_unique<Validate>(); }

}  // namespace foretrain
