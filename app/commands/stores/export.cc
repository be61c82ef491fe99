#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "app/cli/output_file.h"
#include "app/commands/commands.h"
#include "app/runs/stored_runs.h"
#include "base/io/file_system.h"
#include "base/json/json.h"
#include "sim/cost/network/communication_groups.h"
#include "traces/export/chrome_trace.h"
#include "traces/export/kineto_trace.h"

namespace foretrain {
namespace {

enum class Form : std::uint8_t { kPerfetto, kKineto };

// Writes the forecast first and the measured run after it, so that a viewer shows the forecast
// above; in Kineto's form one run, a file for each rank. The output file is checked before the
// store is read, because reading a long run takes time.
class Export final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    arguments.Option("--store", store_, "FILE", "Store with the runs");
    arguments.Option("--run", run_, "N", "Run to write; 0: the newest measured one");
    arguments.Option("--against", against_, "N",
                     "Run to show above it in the trace; 0: its forecast");
    arguments.Choice(
        "--form", form_, {{"perfetto", Form::kPerfetto}, {"kineto", Form::kKineto}},
        "perfetto: both runs in one file; kineto: the run as PyTorch's profiler writes "
        "it, a file for each rank");
    arguments.Option("--out", out_, "FILE",
                     "Chrome JSON trace to write; with --form kineto a folder");
    DeclareJson(arguments);
    arguments.Footer(
        "Open the file at https://ui.perfetto.dev or chrome://tracing. Folders in Kineto's form "
        "are "
        "for tools such as HolisticTraceAnalysis.");
  }

  // Runs are read before a file is made, so that a wrong number leaves no file.
  Result<Exit> Run() override {
    const bool kineto = form_ == Form::kKineto;
    if (kineto && against_ != 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--against with --form kineto: it holds one run; leave --against out");
    }
    if (!kineto) FT_TRY(CheckOutputFile("--out", out_));
    FT_ASSIGN(const StoreReader reader, StoreReader::Open(store_));
    FT_ASSIGN(const std::vector<RunId> runs, kineto ? WriteKineto(reader) : WritePerfetto(reader));
    if (json_) {
      JsonWriter json;
      json.BeginObject().Field("schema", 1).Field("out", out_).Name("runs").BeginArray();
      for (const RunId run : runs) json.Integer(run);
      std::puts(json.EndArray().EndObject().Take().c_str());
    } else {
      std::printf("wrote %s\n", out_.c_str());
    }
    return Exit::kDone;
  }

 private:
  Result<std::vector<RunId>> WritePerfetto(const StoreReader& reader) const {
    FT_ASSIGN(const RunPair pair, LoadPair(reader, run_, against_));
    std::vector<RunId> runs;
    if (pair.predicted) runs.push_back(pair.predicted->info.id);
    if (pair.measured) runs.push_back(pair.measured->info.id);
    PosixFileSystem files;
    FT_TRY(ExportChromeTrace(reader, runs, files, out_));
    return runs;
  }

  // A trace that was imported has no plan, so its collectives name no groups.
  Result<std::vector<RunId>> WriteKineto(const StoreReader& reader) const {
    FT_ASSIGN(const RunPair pair, LoadPair(reader, run_, 0));
    const StoredRun& run = pair.measured ? *pair.measured : *pair.predicted;
    CommunicationGroups groups;
    if (run.info.kind != RunKind::kImported) {
      FT_ASSIGN(const StoredContext stored, ContextOf(reader, run));
      groups = CommunicationGroupsOf(stored.plan);
    }
    PosixFileSystem files;
    FT_TRY(WriteKinetoTraces(run.timeline, groups, files, out_));
    return std::vector<RunId>{run.info.id};
  }

  std::string store_ = kDefaultStore;
  Form form_ = Form::kPerfetto;
  std::string out_ = "trace.json";
  std::int64_t run_ = 0;
  std::int64_t against_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakeExport() { return std::make_unique<Export>(); }

}  // namespace foretrain
