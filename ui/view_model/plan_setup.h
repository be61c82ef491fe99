// What a search for plans is asked: model, machine, batch and constraints, as a person fills them
// in, and what they come to. Leaves out widgets and searching (plan_search.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/result.h"
#include "sim/search/space.h"
#include "sim/spec/catalogue.h"
#include "ui/view_model/hardware.h"

namespace foretrain::ui {

// This machine's CPU, where whoever opens the desktop knows it.
struct LocalMachine {
  MachineRates rates;
  std::string origin;  // "measured 2026-11-20 (FILE)": of its rates, for people
};

inline constexpr std::string_view kLocal = "local";

// One field of the plan that is not left to the search: "4", "1,2,4", "zb-h1".
struct Constraint {
  std::string field;  // PlanField::name
  std::string text;

  bool operator==(const Constraint&) const = default;
};

struct PlanSetup {
  std::string model = "llama3-8b";  // name of the catalogue, or path of a config.json
  std::string gpu = "h100-80gb-sxm";  // name of the catalogue, or kLocal
  int nodes = 1;
  int devices_per_node = 8;
  std::map<std::string, double> figures{};  // by HardwareField::name, in its unit: not the catalogue's
  std::int64_t sequence = 0;      // 0: what the model was made for, up to 1024
  std::int64_t global_batch = 0;  // 0: DefaultBatch
  std::vector<Constraint> constraints{};
  int simulated = 4;  // plans at least

  bool operator==(const PlanSetup&) const = default;
};

// What a setup comes to: all that a search takes.
struct PlanRequest {
  PlanSetup setup;
  ModelSpec model;
  MachineRates machine;  // as the catalogue or the profile has it
  ClusterSpec cluster;   // with the setup's figures
  CostModel costs;       // of `cluster`
  std::string origin;    // of its rates
  SearchSpace space;
};

// `files`: where a config.json is read.
//
// Errors: kInvalidArgument, naming what is wrong and the remedy: an unknown or unsupported model or
// GPU, counts or figures out of range, a constraint that is no value of its field.
Result<PlanRequest> Resolve(const PlanSetup& setup, const Catalogue& catalogue,
                            const std::optional<LocalMachine>& local, FileSystem& files);

// The model that the text says: a name of the catalogue, or a path (with a '/' or of a .json).
Result<ModelSpec> ResolveModelText(const std::string& text, const Catalogue& catalogue,
                                   FileSystem& files);

// Sets the machine to what the text spells: kLocal, NODESxGPUSxGPU, GPUSxGPU (one node) or GPU (one
// device). Errors: kInvalidArgument, counts that are none.
Result<void> SetCluster(const std::string& text, PlanSetup& setup);

// Names whose letters contain those of `filter`, in any case: of models that can be planned, of GPUs
// that clusters can be made of. An empty filter takes all.
std::vector<std::string> ModelNames(const Catalogue& catalogue, std::string_view filter);
std::vector<std::string> GpuNames(const Catalogue& catalogue, std::string_view filter);

// Adds what the option texts of an advice say ("--zero 3 --recompute full") to the setup: to
// constraints, sequence and batch. False where it says something else ("16 devices").
bool Follow(std::string_view change, PlanSetup& setup);

// The command that searches the same.
std::string CommandOf(const PlanSetup& setup);

}  // namespace foretrain::ui
