#include <cstdio>

#include "app/cli/output_file.h"
#include "app/commands/commands.h"
#include "app/runs/stored_runs.h"
#include "base/io/file_system.h"
#include "base/json/json.h"
#include "traces/chrome_trace.h"

namespace foretrain {
namespace {

// Writes the forecast first and the measured run after it, so that a viewer shows the forecast
// above. The output file is checked before the store is read, because reading a long run takes
// time.
class Export final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    arguments.Option("--store", store_, "FILE", "Store with the runs");
    arguments.Option("--run", run_, "N", "Run to write; 0: the newest measured one");
    arguments.Option("--against", against_, "N",
                     "Run to show above it in the trace; 0: its forecast");
    arguments.Option("--out", out_, "FILE", "Chrome JSON trace to write");
    DeclareJson(arguments);
    arguments.Footer("Open the file at https://ui.perfetto.dev or chrome://tracing.");
  }

  // Both runs are read before the file is made, so that a wrong number leaves no file.
  Result<Exit> Run() override {
    FT_TRY(CheckOutputFile("--out", out_));
    FT_ASSIGN(const StoreReader reader, StoreReader::Open(store_));
    FT_ASSIGN(const RunPair pair, LoadPair(reader, run_, against_));
    std::vector<RunId> runs;
    if (pair.predicted) runs.push_back(pair.predicted->info.id);
    if (pair.measured) runs.push_back(pair.measured->info.id);
    PosixFileSystem files;
    FT_TRY(ExportChromeTrace(reader, runs, files, out_));
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
  std::string store_ = kDefaultStore;
  std::string out_ = "trace.json";
  std::int64_t run_ = 0;
  std::int64_t against_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakeExport() { return std::make_unique<Export>(); }

}  // namespace foretrain
