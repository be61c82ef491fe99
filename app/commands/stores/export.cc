#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "app/cli/output_file.h"
#include "app/commands/commands.h"
#include "app/runs/execution_traces.h"
#include "app/runs/paired_trace.h"
#include "app/runs/reported_run.h"
#include "app/runs/stored_runs.h"
#include "base/io/file_system.h"
#include "base/json/json.h"
#include "sim/cost/network/communication_groups.h"
#include "traces/export/kineto_trace.h"
#include "traces/export/memory/memory_snapshot.h"

namespace foretrain {
namespace {

enum class Form : std::uint8_t { kPerfetto, kKineto, kHtml, kSnapshot, kChakra };

// Writes the forecast first and the measured run after it, so that a viewer shows the forecast
// above; in Kineto's form one run, a file for each rank. The output file is checked before the
// store is read, because reading a long run takes time.
class Export final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    arguments.Option("--store", store_, "FILE", "Store with the runs");
    arguments.Option("--run", run_, "N", "Run to write; 0: the newest measured one");
    arguments.Option("--against", against_, "N",
                     "Run to show above it, or to compare it with; 0: its forecast");
    arguments.Choice("--form", form_,
                     {{"perfetto", Form::kPerfetto},
                      {"kineto", Form::kKineto},
                      {"html", Form::kHtml},
                      {"snapshot", Form::kSnapshot},
                      {"chakra", Form::kChakra}},
                     "perfetto: both runs in one trace, steps and ops joined; kineto: the run as "
                     "PyTorch's profiler "
                     "writes it, a file for each rank; html: a page with time, memory, comparison "
                     "and tables, which needs no network; snapshot: device memory as PyTorch's "
                     "allocator records it; chakra: a step as execution traces, a file for each "
                     "rank");
    arguments.Option("--out", out_, "FILE",
                     "File or, with --form kineto and chakra, folder to write; default: "
                     "trace.json, traces, report.html, memory.pickle, execution");
    arguments.Option("--step", step_, "N",
                     "Step that --form html shows in detail and --form chakra writes; -1: the "
                     "median one, of a forecast the last");
    DeclareJson(arguments);
    arguments.Footer(
        "Open a trace at https://ui.perfetto.dev or chrome://tracing, a page in any browser, "
        "and a snapshot at https://pytorch.org/memory_viz. Folders in Kineto's form are for tools "
        "such as HolisticTraceAnalysis, those "
        "of chakra for simulators such as ASTRA-sim.");
  }

  // Runs are read before a file is made, so that a wrong number leaves no file.
  Result<Exit> Run() override {
    if (const char* const one = NameOfOne(); one != nullptr && against_ != 0) {
      return Fail(ErrorCode::kInvalidArgument, std::string("--against with --form ") + one +
                                                   ": it holds one run; leave --against out");
    }
    if (step_ < -1 || step_ > std::numeric_limits<std::int32_t>::max()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--step: " + std::to_string(step_) + " is no step; -1 takes the median one");
    }
    if (step_ >= 0 && form_ != Form::kHtml && form_ != Form::kChakra) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--step " + std::to_string(step_) +
                      " needs --form html or chakra: the other forms hold all steps");
    }
    if (out_.empty()) out_ = DefaultOut();
    const bool folder = form_ == Form::kKineto || form_ == Form::kChakra;
    if (!folder) FT_TRY(CheckOutputFile("--out", out_));
    FT_ASSIGN(const StoreReader reader, StoreReader::Open(store_));
    FT_ASSIGN(const std::vector<RunId> runs, Write(reader));
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
  // The form's name if it holds one run; else null.
  const char* NameOfOne() const {
    switch (form_) {
      case Form::kKineto:
        return "kineto";
      case Form::kSnapshot:
        return "snapshot";
      case Form::kChakra:
        return "chakra";
      default:
        return nullptr;
    }
  }

  const char* DefaultOut() const {
    switch (form_) {
      case Form::kKineto:
        return "traces";
      case Form::kHtml:
        return "report.html";
      case Form::kSnapshot:
        return "memory.pickle";
      case Form::kChakra:
        return "execution";
      default:
        return "trace.json";
    }
  }

  Result<std::vector<RunId>> Write(const StoreReader& reader) const {
    switch (form_) {
      case Form::kKineto:
        return WriteKineto(reader);
      case Form::kHtml:
        return WriteHtml(reader);
      case Form::kSnapshot:
        return WriteSnapshot(reader);
      case Form::kChakra:
        return WriteChakra(reader);
      default:
        return WritePerfetto(reader);
    }
  }

  Result<std::vector<RunId>> WriteChakra(const StoreReader& reader) const {
    PosixFileSystem files;
    FT_ASSIGN(const RunId run,
              WriteExecutionTraces(reader, run_, static_cast<int>(step_), files, out_));
    return std::vector<RunId>{run};
  }

  // The number of layers names blocks; a trace has no model.
  Result<std::vector<RunId>> WriteSnapshot(const StoreReader& reader) const {
    FT_ASSIGN(const RunPair pair, LoadPair(reader, run_, 0));
    const StoredRun& run = pair.measured ? *pair.measured : *pair.predicted;
    int layers = 0;
    if (run.info.kind != RunKind::kImported) {
      FT_ASSIGN(const StoredContext stored, ContextOf(reader, run));
      layers = static_cast<int>(stored.context.model.AllLayers());
    }
    PosixFileSystem files;
    FT_TRY(WriteMemorySnapshot(run.timeline, layers, files, out_));
    return std::vector<RunId>{run.info.id};
  }

  Result<std::vector<RunId>> WriteHtml(const StoreReader& reader) const {
    FT_ASSIGN(const ReportedRun report, ReportRun(reader, run_, against_, static_cast<int>(step_)));
    PosixFileSystem files;
    FT_TRY(WriteFileAtomically(files, out_, report.page));
    std::vector<RunId> runs{report.run};
    if (report.against) runs.insert(runs.begin(), *report.against);
    return runs;
  }

  Result<std::vector<RunId>> WritePerfetto(const StoreReader& reader) const {
    PosixFileSystem files;
    return WritePairedTrace(reader, run_, against_, files, out_);
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
  std::string out_;
  std::int64_t run_ = 0;
  std::int64_t against_ = 0;
  std::int64_t step_ = -1;
};

}  // namespace

std::unique_ptr<Command> MakeExport() { return std::make_unique<Export>(); }

}  // namespace foretrain
