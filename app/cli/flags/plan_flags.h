// Options for model, machine and plan, with the same names in every command. Leaves out what a
// command does with them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli/arguments.h"
#include "base/result.h"
#include "sim/config/catalogue/catalogue.h"
#include "sim/config/cluster/cluster_options.h"
#include "sim/config/cluster/cluster_spec.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/config/plan/preset.h"
#include "sim/search/search.h"

namespace foretrain {

// The model, by catalogue name or file. Options that are given override its shape.
struct ModelFlags {
  std::string model{kDefaultModel};
  std::int64_t layers = 0, hidden = 0, heads = 0, vocab = 0;  // 0: the model's
  const char* option = "--model";                             // the option that errors name
  // A launch file of another trainer that gives the model unless `model` is given (--from).
  std::string from;                           // "megatron:run.sh"; empty: none
  std::string described;                      // the model as JSON; empty: the file names none
  std::vector<const PlanField*> from_fields;  // of the plan that the file gives

  void Declare(Arguments& arguments);
  // Whether any option differs from its default.
  bool Given() const {
    return model != kDefaultModel || layers > 0 || hidden > 0 || heads > 0 || vocab > 0;
  }
  Result<ModelSpec> Resolve(const Catalogue& catalogue) const;
};

// The machine: "local", NODESxGPUSxGPU, or a JSON file.
struct ClusterFlags {
  std::string cluster = "local";
  std::int64_t ranks = 0;      // of a local cluster; 0: one for each core
  std::string max_memory;      // of a device; empty: all of it
  std::string device_profile;  // file; empty: the calibrated one of this machine, else derived
  bool cuda_graphs = false;    // kernels are launched as CUDA graphs
  ClusterOptions options;

  void Declare(Arguments& arguments);
  Result<ClusterSpec> Resolve(const Catalogue& catalogue) const;
};

void DeclareClusterOptions(Arguments& arguments, ClusterOptions& options);

// The plan: a text for each of its fields (PlanFields()), because `plan` takes lists, ranges and
// auto.
struct PlanFlags {
  std::string plan_file;
  std::string preset;
  std::vector<std::string> texts;  // by field; "auto": not given

  PlanFlags();
  void Declare(Arguments& arguments);
  std::string& Text(std::string_view field) { return texts[IndexOf(field)]; }
  const std::string& Text(std::string_view field) const { return texts[IndexOf(field)]; }
  bool Given(std::string_view field) const { return Text(field) != "auto"; }
  std::vector<const PlanField*> GivenFields() const;
  // Product of those of dp, cp, tp and pp that are given as one number; at most kMaxRanks.
  std::int64_t GivenRanks() const;
  // The preset; `nullopt` if none was given. Errors: kInvalidArgument, an unknown preset, or one
  // together with a plan file.
  Result<std::optional<Preset>> ResolvePreset() const;

 private:
  static std::size_t IndexOf(std::string_view field);
};

// Plan::vocab_multiple for GPUs: 128 if rows of 16-bit logits would not be whole words of 16 bytes,
// else 1. GEMMs of such rows take six times as long (docs/performance.md). 1 for vocabularies below
// 1,024.
int GpuVocabMultiple(const ModelSpec& model);

// Sets what foretrain's own runtime prefers on a GPU, unless a flag or a plan file gives it, and
// also where a preset has another value: vocab_multiple as above, logits in the format of
// activations, and all fusions.
void PreferForGpu(const ModelSpec& model, PlanFlags& flags);

// The values that a search over all devices of the cluster may choose from. A given option has its
// own values, an option left at auto those of DefaultSpace.
Result<SearchSpace> ChoicesOf(const PlanFlags& flags, const ModelSpec& model,
                              const ClusterSpec& cluster);

// One plan for `ranks` ranks. Options that are not given have the defaults of Plan. By default dp
// takes the ranks that are left, micro_batch is 1 and the batch is the smallest that fills the
// pipeline.
// --plan FILE starts from that plan, and given options override it. --preset NAME starts from the
// preset's options and spreads the ranks over its degrees.
Result<Plan> PlanOf(const PlanFlags& flags, const ModelSpec& model, int ranks);

// The options that give `plan` again on the command line.
std::string CommandLineOf(const ModelFlags& model, const Plan& plan);

// This machine: cores and memory as the process may use them.
struct Machine {
  int cores = 1;
  std::int64_t memory_bytes = 0;
  std::string name;  // of the processor
};
Machine ThisMachine();

}  // namespace foretrain
