// The input of a search for plans as the user fills it in (model, machine, batch and constraints),
// and the request it resolves to. Leaves out searching (plan_search.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"
#include "sim/config/catalogue/catalogue.h"
#include "sim/search/space/space.h"
#include "ui/run_view.h"
#include "ui/view_model/planning/hardware.h"
#include "ui/view_model/planning/trainers.h"

namespace foretrain::ui {

// This machine's CPU, if the program that opens the desktop knows it.
struct LocalMachine {
  MachineRates rates;
  std::string origin;  // displayed origin of its rates: "measured 2026-11-20 (FILE)"
};

inline constexpr std::string_view kLocal = "local";

// Values that the search must use for one plan field: "4", "1,2,4", "zb-h1".
struct Constraint {
  std::string field;  // PlanField::name
  std::string text;

  bool operator==(const Constraint&) const = default;
};

struct PlanSetup {
  std::string model = "llama3-8b";    // name in the catalogue, or path of a config.json
  std::optional<ModelSpec> spec{};    // the model itself, where `model` is only its name
  std::string gpu = "h100-80gb-sxm";  // name in the catalogue, or kLocal
  int nodes = 1;
  int devices_per_node = 8;
  std::map<std::string, double>
      other_rates{};              // by HardwareField::name, in its unit: not the catalogue's
  std::int64_t sequence = 0;      // 0: DefaultSequence
  std::int64_t global_batch = 0;  // 0: DefaultBatch
  std::vector<Constraint> constraints{};
  std::string trainer{kOwnTrainer};  // whose plans are searched; a CPU runs foretrain's own
  int simulated = 4;                 // plans in a round of simulations

  bool operator==(const PlanSetup&) const = default;
};

// A resolved setup: everything that a search needs.
struct PlanRequest {
  PlanSetup setup;
  ModelSpec model;
  MachineRates machine;  // from the catalogue or the profile
  ClusterSpec cluster;   // with the setup's changed parameters
  CostModel costs;       // of `cluster`
  std::string origin;    // of its rates
  SearchSpace space;
};

// Resolves a setup. `files` reads a config.json.
//
// Errors: kInvalidArgument with the cause and the remedy: an unknown or unsupported model or GPU,
// counts or parameters out of range, or a constraint with a value that its field does not have.
Result<PlanRequest> Resolve(const PlanSetup& setup, const Catalogue& catalogue,
                            const std::optional<LocalMachine>& local, FileSystem& files);

// The model named by the text: a catalogue name, or a path (contains '/' or ends in .json).
Result<ModelSpec> ResolveModelText(const std::string& text, const Catalogue& catalogue,
                                   FileSystem& files);

// Sets the machine from text: kLocal, NODESxGPUSxGPU, GPUSxGPU (one node) or GPU (one device).
// Errors: kInvalidArgument if a count is out of range.
Result<void> SetCluster(const std::string& text, PlanSetup& setup);

// Names that contain `filter`, ignoring case: models that can be planned, and GPUs that clusters
// can be made of. An empty filter matches all.
std::vector<std::string> ModelNames(const Catalogue& catalogue, std::string_view filter);
std::vector<std::string> GpuNames(const Catalogue& catalogue, std::string_view filter);

// The search that the plan of a run came from: its model, machine, sequence and batch. A machine
// that is no entry of the catalogue is left as in `setup`.
PlanSetup SetupOf(const RunSetting& run, const Catalogue& catalogue, PlanSetup setup);

// Adds the options of a suggestion ("--zero 3 --recompute full") to the setup's constraints or
// sequence. Returns false and changes nothing if it contains anything else ("16 devices").
bool Follow(std::string_view change, PlanSetup& setup);

// The command that runs the same search.
std::string CommandOf(const PlanSetup& setup);

}  // namespace foretrain::ui
