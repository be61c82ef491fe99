#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <optional>
#include <utility>

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
#include "sim/learn/learn.h"
#include "sim/validate/learn_runs.h"
#include "sim/validate/predict_run.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxTableBytes = 64 * kMiB;
constexpr std::int64_t kMaxThreads = 256;
constexpr std::int64_t kMaxLearnedRows = 1'000'000;

// Forecasts every row of the tables and scores the errors. With --learn even or odd the rows are
// split: constants are learned from one half and scored on the other, so that no row is scored with
// constants that it shaped. With --learn N each group of rows is learned from its first N.
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
    arguments.Option("--learn", learn_, "N|even|odd|all",
                     "Learn from the first N rows of each model and number of GPUs, or from rows "
                     "with even or odd ids, and score the others; all: learn from and score all");
    arguments.Option("--profile", profile_, "FILE",
                     "With --learn even, odd or all: write the learned profile of the table's "
                     "largest machine");
    arguments.Flag("--pairs", pairs_,
                   "Also score how often pairs of plans are ordered as forecast");
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
    std::vector<RunPrediction> predictions;
    std::vector<LearnedScore> learned;
    if (const std::optional<std::size_t> first = FirstRows()) {
      FT_TRY(LearnByGroup(*first, sources, runs, predictions, learned));
    } else {
      if (!learn_.empty()) FT_TRY(Learn(runs, sources));
      predictions = PredictAll(runs, sources);
    }
    if (StopSignal() != 0) return ExitOfSignal(StopSignal());
    if (!out_.empty()) {
      PosixFileSystem files;
      FT_TRY(WriteFileAtomically(files, out_, PredictionsCsv(runs, predictions)));
    }
    std::vector<PairScore> pairs;
    if (pairs_) {
      const auto steps = UncertainSteps(runs, sources, Threads(), [] { return StopSignal() != 0; });
      if (StopSignal() != 0) return ExitOfSignal(StopSignal());
      pairs = ScorePairs(runs, steps, CovarianceOf(DeviceProfile()));
    }
    const ValidationReport report(runs, predictions,
                                  static_cast<std::size_t>(std::max<std::int64_t>(0, worst_)),
                                  std::move(learned), std::move(pairs));
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
      out[row] = PredictRun(runs[row], sources, learned_ ? &*learned_ : nullptr);
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

  // The number of rows of each group to learn from; `nullopt` if --learn is no number.
  std::optional<std::size_t> FirstRows() const {
    const auto number = ParseInt("--learn", learn_, 1, kMaxLearnedRows);
    if (!number.has_value()) return std::nullopt;
    return static_cast<std::size_t>(*number);
  }

  // Learns from the first rows of each group, and keeps the scored rows in `runs`.
  Result<void> LearnByGroup(std::size_t first, const CaseSources& sources,
                            std::vector<PublishedRun>& runs,
                            std::vector<RunPrediction>& predictions,
                            std::vector<LearnedScore>& scores) const {
    if (!profile_.empty()) {
      return Fail(ErrorCode::kInvalidArgument, "--profile: --learn " + learn_ +
                                                   " makes a profile for each group; give --learn "
                                                   "all");
    }
    const std::vector<RunGroup> groups = RunGroupsOf(runs, sources, first);
    if (groups.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("--learn {}: no model and number of GPUs has {} rows with a measured "
                              "step and a whole plan; learn from fewer",
                              learn_, std::max(first + 1, kSmallestRunGroup)));
    }
    std::vector<GroupForecasts> forecasts(groups.size());
    std::atomic<std::size_t> done = 0;
    std::mutex printing;
    std::optional<Error> error;
    ForEachInParallel(groups.size(), Threads(), [&](std::size_t g) {
      if (StopSignal() != 0) return;
      auto of = LearnGroup(groups[g], runs, sources);
      const std::lock_guard lock(printing);
      if (!of.has_value()) {
        error = of.error();
        return;
      }
      forecasts[g] = std::move(*of);
      if (!json_ && ++done % 10 == 0)
        std::fprintf(stderr, "%zu of %zu groups\n", +done, groups.size());
    });
    if (error.has_value()) return tl::unexpected<Error>(*error);
    if (StopSignal() != 0) return {};
    scores = ScoreLearned(groups, forecasts, runs);
    std::vector<PublishedRun> scored;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const std::size_t row : groups[g].scored) scored.push_back(runs[row]);
      predictions.insert(predictions.end(), forecasts[g].after.begin(), forecasts[g].after.end());
    }
    runs = std::move(scored);
    return {};
  }

  // Learns the constants, and keeps in `runs` the rows to score.
  Result<void> Learn(std::vector<PublishedRun>& runs, const CaseSources& sources) {
    if (learn_ != "even" && learn_ != "odd" && learn_ != "all") {
      return Fail(ErrorCode::kInvalidArgument,
                  "--learn " + Printable(learn_) + ": give a number of rows, even, odd or all");
    }
    std::vector<PublishedRun> learned, scored;
    for (const PublishedRun& run : runs) {
      if (Learns(run)) learned.push_back(run);
      if (!Learns(run) || learn_ == "all") scored.push_back(run);
    }
    auto result = LearnFromRuns(learned, sources, Threads(), [] { return StopSignal() != 0; });
    if (!result.has_value() && StopSignal() != 0) return {};
    FT_ASSIGN(learned_, std::move(result));
    std::fputs(LearnedText(*learned_).c_str(), stderr);
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
    ApplyLearned(*learned_, of.preset, profile);
    profile.assumptions = "learned from " + std::to_string(learned_->runs) + " measured runs";
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
  std::optional<Learned> learned_;
  bool pairs_ = false;
  std::int64_t worst_ = 10;
  std::int64_t threads_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakeValidate() { return std::make_unique<Validate>(); }

}  // namespace foretrain
