#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/stop_signal.h"
#include "app/commands/commands.h"
#include "app/report/report.h"
#include "app/runs/imported_traces.h"
#include "app/runs/inferred_plans.h"
#include "app/runs/stored_runs.h"
#include "base/json/json.h"
#include "traces/import/import.h"

namespace foretrain {
namespace {

// Stores traces as runs. If the import is stopped while traces are read, nothing is stored.
class Import final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    arguments.Positionals(
        "TRACE", traces_,
        "Chrome JSON (.json, .json.gz), Nsight's .sqlite, PyTorch's memory snapshots (.pickle) or "
        "Chakra's execution traces (.et), one file for each rank; or a folder with the traces of "
        "one run");
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
        "Traces: torch.profiler's export_chrome_trace, torch.cuda.memory._dump_snapshot, `nsys "
        "export --type sqlite`, `foretrain export`.\nThen: foretrain analyze --run N, foretrain "
        "compare --run N --against M, "
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
    ImportOptions options{.label = name_, .step_name = step_name_, .patterns = patterns_};
    // The forecast's run is looked up before the traces are read, so that a wrong number fails at
    // once.
    if (forecast_ != 0) {
      FT_ASSIGN(const StoreReader reader, StoreReader::Open(store_));
      FT_TRY(reader.FindRun(forecast_));
      options.forecast = forecast_;
    }
    std::vector<std::string> traces;
    for (const std::string& path : traces_) {
      FT_ASSIGN(const std::vector<std::string> at, TracesAt(path));
      traces.insert(traces.end(), at.begin(), at.end());
    }
    const auto runs = ImportTraces(traces, store_, std::move(options), /*quiet=*/json_);
    if (!runs.has_value() && StopSignal() != 0) return ExitOfSignal(StopSignal());
    if (!runs.has_value()) return Fail(runs.error().code, runs.error().message);
    // The plan is read back from the store, as `analyze` reads it.
    FT_ASSIGN(const StoreReader reader, StoreReader::Open(store_));
    json_ ? PrintJson(reader, *runs) : Print(reader, *runs);
    return Exit::kDone;
  }

 private:
  // Notes say what a trace lacks, so that a missing metric has a reason.
  void Print(const StoreReader& reader, const std::vector<ImportedRun>& runs) const {
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
      const auto plan = InferredPlanOf(reader, run.id);
      if (plan) std::fputs(TextOf(*plan).c_str(), stdout);
    }
  }

  // `invalid` counts events without a usable time.
  void PrintJson(const StoreReader& reader, const std::vector<ImportedRun>& runs) const {
    JsonWriter json;
    json.BeginObject().Field("schema", 1).Field("store", store_).Name("runs").BeginArray();
    for (const ImportedRun& run : runs) {
      json.BeginObject().Field("run", run.id).Field("label", run.label);
      json.Field("ranks", run.ranks).Field("steps", run.steps).Field("spans", run.spans);
      json.Field("invalid", run.totals.invalid).Field("notes", run.notes);
      if (const auto plan = InferredPlanOf(reader, run.id))
        Write(json.Name("inferred_plan"), *plan);
      json.EndObject();
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
