#include <unistd.h>

#include <cstdio>

#include "app/cli/stop_signal.h"
#include "app/commands/commands.h"
#include "app/report/report.h"
#include "app/runs/stored_runs.h"
#include "base/json/json.h"
#include "traces/import/import.h"

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

// Stores traces as runs. If the import is stopped while traces are read, nothing is stored.
class Import final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    arguments.Positionals(
        "TRACE", traces_,
        "Chrome JSON (.json, .json.gz) or Nsight's .sqlite; one file for each rank");
    arguments.Option("--store", store_, "FILE", "Store to add the run to");
    arguments.Option("--name", name_, "TEXT", "Label of the run; default: the files' names");
    arguments.Option(
        "--step-name", step_name_, "TEXT",
        "Prefix of the annotations that mark steps; default: ProfilerStep# and similar ones");
    arguments.Option("--patterns", patterns_, "FILE",
                     "Names of ops to know besides the built-in ones, as rows of CSV: "
                     "where,text,class,what (docs/import.md)");
    arguments.Option("--forecast", forecast_, "N", "Run of the store to compare it with");
    DeclareJson(arguments);
    arguments.Footer(
        "Traces: torch.profiler's export_chrome_trace, `nsys export --type sqlite`, `foretrain "
        "export`.\nThen: foretrain analyze --run N, foretrain compare --run N --against M, "
        "foretrain "
        "view.");
  }

  // An error while a signal is pending counts as stopped: the reader fails because its callback
  // told it to.
  Result<Exit> Run() override {
    if (traces_.empty()) {
      return Fail(ErrorCode::kInvalidArgument, "import takes the path of at least one trace");
    }
    const StopSignals signals;
    PosixFileSystem files;
    // Ctrl-C cancels through the progress callback, which the reader calls often.
    ProgressLine line(json_);
    ImportOptions options{.label = name_, .step_name = step_name_, .patterns = patterns_};
    options.progress = [&line](const ImportProgress& progress) {
      line.Show(progress);
      return StopSignal() == 0;
    };
    // The forecast's run is looked up before the traces are read, so that a wrong number fails at
    // once.
    if (forecast_ != 0) {
      FT_ASSIGN(const StoreReader reader, StoreReader::Open(store_));
      FT_TRY(reader.FindRun(forecast_));
      options.forecast = forecast_;
    }
    Result<std::vector<ImportedRun>> runs = ImportAll(files, options);
    if (!runs.has_value() && StopSignal() != 0) return ExitOfSignal(StopSignal());
    if (!runs.has_value()) return Fail(runs.error().code, runs.error().message);
    json_ ? PrintJson(*runs) : Print(*runs);
    return Exit::kDone;
  }

 private:
  // Traces are read before the store is made: a bad one leaves none behind.
  Result<std::vector<ImportedRun>> ImportAll(FileSystem& files, const ImportOptions& options) {
    FT_ASSIGN(std::vector<TraceRun> read, ReadTraces(files, traces_, options));
    FT_ASSIGN(const std::unique_ptr<Store> store, Store::Open(store_));
    std::vector<ImportedRun> runs;
    for (TraceRun& run : read) {
      FT_ASSIGN(ImportedRun stored, StoreTrace(*store, std::move(run), options));
      runs.push_back(std::move(stored));
    }
    FT_TRY(store->Close());
    return runs;
  }

  // Notes say what a trace lacks, so that a missing metric has a reason.
  void Print(const std::vector<ImportedRun>& runs) const {
    for (const ImportedRun& run : runs) {
      std::printf("run %lld in %s: %s, %s spans, %d rank%s, %lld step%s\n",
                  static_cast<long long>(run.id), store_.c_str(), run.label.c_str(),
                  FormatCount(run.spans).c_str(), run.ranks, run.ranks == 1 ? "" : "s",
                  static_cast<long long>(run.steps), run.steps == 1 ? "" : "s");
      if (run.totals.invalid > 0) {
        std::printf("  %s events have no usable time and are left out\n",
                    FormatCount(run.totals.invalid).c_str());
      }
      for (const std::string& note : run.notes) std::printf("  %s\n", note.c_str());
    }
  }

  // `invalid` counts events without a usable time.
  void PrintJson(const std::vector<ImportedRun>& runs) const {
    JsonWriter json;
    json.BeginObject().Field("schema", 1).Field("store", store_).Name("runs").BeginArray();
    for (const ImportedRun& run : runs) {
      json.BeginObject().Field("run", run.id).Field("label", run.label);
      json.Field("ranks", run.ranks).Field("steps", run.steps).Field("spans", run.spans);
      json.Field("invalid", run.totals.invalid).Field("notes", run.notes).EndObject();
    }
    std::puts(json.EndArray().EndObject().Take().c_str());
  }

  std::vector<std::string> traces_;
  std::string store_ = kDefaultStore;
  std::string name_;
  std::string step_name_;
  std::string patterns_;
  std::int64_t forecast_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakeImport() { return std::make_unique<Import>(); }

}  // namespace foretrain
