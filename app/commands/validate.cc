#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <optional>

#include "app/cli/output_file.h"
#include "app/cli/stop_signal.h"
#include "app/commands/commands.h"
#include "app/forecast/kernel_validation.h"
#include "app/report/validation_report.h"
#include "base/io/file_system.h"
#include "base/parallel.h"
#include "base/text.h"
#include "base/units.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/cost/profile/profile_json.h"
#include "sim/validate/fit_profile.h"
#include "sim/validate/predict_run.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxTableBytes = 64 * kMiB;
constexpr std::int64_t kMaxThreads = 256;

// Forecasts every row of the tables and scores the errors. With --learn even or odd the rows are
// split: constants are fitted to one half and scored on the other, so that no row is scored with
// constants that it shaped.
class Validate final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    arguments.Positionals("FILE.csv", files_, "Tables of published runs");
    arguments.Section("Output");
    arguments.Option("--out", out_, "FILE",
                     "Write one row for each run: forecast time, memory, whether it fits");
    arguments.Option("--worst", worst_, "N",
                     "Number of rows to show, those with the largest time errors");
    arguments.Option("--families", families_, "A,B", "Only these families");
    arguments.Option("--learn", learn_, "even|odd|all",
                     "Fit the device profile's constants to the rows with even or odd ids and "
                     "score the others; all: fit and score all rows");
    arguments.Option("--profile", profile_, "FILE",
                     "With --learn: write the fitted profile of the table's largest machine");
    arguments.Option("--threads", threads_, "N", "Rows to forecast at once; 0: one for each core");
    arguments.Option("--kernels", kernels_, "FILE,...",
                     "Forecast tables of measured kernels (.csv or .csv.gz) instead of runs; with "
                     "--learn all, --profile names a folder for one profile a device");
    DeclareJson(arguments);
    arguments.Footer(
        "  foretrain validate tests/data/validation/published-runs.csv --out predictions.csv\n"
        "  foretrain validate --kernels gemm.csv.gz --out forecasts.csv");
  }

  // Output files are checked first. A signal ends the work without a report: scores of a part of
  // the rows would mislead.
  Result<Exit> Run() override {
    if (!kernels_.empty()) {
      if (!files_.empty() || !families_.empty()) {
        return Fail(ErrorCode::kInvalidArgument,
                    "--kernels takes neither FILE.csv nor --families: leave them out");
      }
      return ValidateKernels(
          {.files = kernels_, .out = out_, .learn = learn_, .profile = profile_, .json = json_});
    }
    FT_TRY(CheckOutputFile("--out", out_));
    FT_TRY(CheckOutputFile("--profile", profile_));
    const StopSignals signals;
    if (files_.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "FILE.csv is missing: name a table of published runs, such as "
                  "tests/data/validation/published-runs.csv");
    }
    FT_ASSIGN(std::vector<PublishedRun> runs, ReadRuns());
    FT_ASSIGN(const CaseSources sources, BuiltInCaseSources());
    if (!learn_.empty()) {
      FT_TRY(Learn(runs, sources));
      if (StopSignal() != 0) return ExitOfSignal(StopSignal());
    }
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
  // Rows of all files in order, only those of --families if given. An empty choice is an error, not
  // an empty report.
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
  // The main thread works too.
  std::vector<RunPrediction> PredictAll(const std::vector<PublishedRun>& runs,
                                        const CaseSources& sources) const {
    std::vector<RunPrediction> out(runs.size());
    std::atomic<std::size_t> done = 0;
    std::mutex printing;
    // Rows take very different times, so each thread takes the next row when it is free.
    ForEachInParallel(runs.size(), Threads(), [&](std::size_t row) {
      if (StopSignal() != 0) return;
      out[row] = PredictRun(runs[row], sources, fit_ ? &*fit_ : nullptr);
      ShowProgress(++done, runs.size(), printing);
    });
    return out;
  }

  int Threads() const {
    return threads_ > 0 ? static_cast<int>(std::min(threads_, kMaxThreads)) : HardwareThreads();
  }

  // Whether the profile is fitted to the row.
  bool Learns(const PublishedRun& run) const {
    if (learn_ == "all") return true;
    const std::string& id = run.id;
    // The last digit of the id splits the rows about evenly and the same way in each run.
    const bool odd = !id.empty() && (id.back() - '0') % 2 != 0;
    return odd == (learn_ == "odd");
  }

  // Fits the constants, and keeps in `runs` the rows to score.
  Result<void> Learn(std::vector<PublishedRun>& runs, const CaseSources& sources) {
    if (learn_ != "even" && learn_ != "odd" && learn_ != "all") {
      return Fail(ErrorCode::kInvalidArgument,
                  "--learn " + Printable(learn_) + ": give even, odd or all");
    }
    std::vector<PublishedRun> learned, scored;
    for (const PublishedRun& run : runs) {
      if (Learns(run)) learned.push_back(run);
      if (!Learns(run) || learn_ == "all") scored.push_back(run);
    }
    FT_ASSIGN(const ProfileFit fit,
              FitProfile(learned, sources, Threads(), [] { return StopSignal() != 0; }));
    fit_ = fit;
    std::fputs(FitText(fit).c_str(), stderr);
    runs = std::move(scored);
    return profile_.empty() ? Result<void>() : WriteProfile(learned, sources);
  }

  // The profile of the machine with the most devices among the rows.
  Result<void> WriteProfile(const std::vector<PublishedRun>& runs, const CaseSources& sources) {
    const auto largest = std::max_element(
        runs.begin(), runs.end(),
        [](const PublishedRun& a, const PublishedRun& b) { return a.gpus < b.gpus; });
    FT_ASSIGN(const RunCase of, CaseOf(*largest, sources));
    DeviceProfile profile = DeriveProfile(of.cluster, of.system);
    ApplyFit(*fit_, profile);
    profile.assumptions = "learned from " + std::to_string(fit_->rows) + " measured runs";
    PosixFileSystem files;
    return WriteFileAtomically(files, profile_, ProfileToJson(profile));
  }

  // One line for each hundred rows. The lock keeps lines of several threads apart.
  void ShowProgress(std::size_t done, std::size_t of, std::mutex& printing) const {
    if (json_ || (done % 100 != 0 && done != of)) return;
    const std::lock_guard lock(printing);
    std::fprintf(stderr, "%zu of %zu runs\n", done, of);
  }

  std::vector<std::string> files_;
  std::string out_, families_, learn_, profile_, kernels_;
  std::optional<ProfileFit> fit_;
  std::int64_t worst_ = 10;
  std::int64_t threads_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakeValidate() { return std::make_unique<Validate>(); }

}  // namespace foretrain
