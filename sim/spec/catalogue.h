// The catalogues of accelerators and models, and the look-up of both by the names that people type.
// Leaves out files: the built-in tables are part of the program, others come as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/spec/cluster_spec.h"
#include "sim/spec/model_spec.h"

namespace foretrain {

inline constexpr std::string_view kDefaultModel =
    "gpt-10m";  // of `train` and `demo` without --model

struct GpuEntry {
  std::string name;  // lower-case, unique
  std::vector<std::string> aliases;
  std::string architecture;
  DeviceSpec device;
  std::int64_t l2_bytes = 0;
  std::string compute_capability;       // "9.0", "gfx942"
  double measured_bf16_flop_per_s = 0;  // best matrix product that the source measured; 0: unknown
  std::string notes;
  std::string unusable;  // why no cluster can be made of it; empty: it can
};

struct ModelEntry {
  std::string name;  // lower-case, unique
  std::vector<std::string> aliases;
  std::string title;  // "Llama-3/3.1 8B"
  std::string family;
  ModelSpec spec;                   // its name is `name`
  bool described = false;           // the spec is valid and says all that the row does
  double published_parameters = 0;  // 0: not published
  double active_parameters = 0;     // of a token, where that is less; 0: all
  std::string unsupported;  // what ModelSpec has not or no block computes; empty: can be planned
  std::string source;
};

struct Catalogue {
  std::vector<GpuEntry> gpus;
  std::vector<ModelEntry> models;
};

// The accelerators in `text`, CSV with the columns of sim/spec/catalogue/hardware.csv: name, gpu,
// arch, the *_tflops (dense), mem_gb (of 2^30 bytes, as memories are sold), mem_gb_per_s,
// gpu_link_gb_per_s_per_direction and pcie_gb_per_s_per_direction (of 10^9 bytes); the others may
// be missing. `file` is for messages.
//
// Errors: kCorruptInput or kInvalidArgument, naming file, line and column: bad CSV, a missing
// column, a bad or repeated name, a figure that is none. O(bytes).
Result<std::vector<GpuEntry>> ParseGpus(std::string_view text, std::string_view file);

// The models in `text`, CSV with the columns of sim/spec/catalogue/models.csv. A model with parts
// that ModelSpec has not (encoders, other norms, positions or features) is kept, with the reason in
// `unsupported`. Without the columns qkv_bias, norm_bias, activation,
// rope_theta, norm_epsilon: as `biases`; 1 for layernorm; swiglu where gated_mlp is 1, else gelu;
// 10000; 1e-5.
//
// Errors: as ParseGpus, and a supported model that ValidateModel refuses.
Result<std::vector<ModelEntry>> ParseModels(std::string_view text, std::string_view file);

// The tables that are part of the program; the small models of our own come first.
Result<Catalogue> BuiltInCatalogue();

// The entry called `name`: by its name, else by an alias or its written form, in any case.
//
// Errors: kInvalidArgument, no such entry (with the nearest names), or an alias of several (they
// are listed). O(entries).
Result<GpuEntry> FindGpu(const Catalogue& catalogue, std::string_view name);
Result<ModelEntry> FindModel(const Catalogue& catalogue, std::string_view name);

// Bytes per second of the network, per device and direction, that is assumed for a GPU of this
// written name: 12.5e9 for V100 (EDR InfiniBand), 25e9 for A100 (HDR), 50e9 for H100, H200 and
// B200 (NDR), else 12.5e9.
double DefaultNetwork(std::string_view gpu);

// A cluster of `nodes` nodes with `devices_per_node` of `gpu` each. What is not given is filled in
// and noted in `assumptions`: PCIe between pairs where a bridge joins only these, and extents of a
// torus, as near to each other as can be.
//
//   network_bytes_per_s  per GPU and direction; 0: DefaultNetwork
//
// Errors: kUnsupported, a GPU whose rates the catalogue does not know; kInvalidArgument, as
// ValidateCluster.
Result<ClusterSpec> MakeCluster(const GpuEntry& gpu, int nodes, int devices_per_node,
                                double network_bytes_per_s = 0);

// The cluster that `text` spells: NODESxGPUSxGPU, GPUSxGPU (one node) or GPU (one device), such as
// "64x8xA100-80GB-SXM", in any case; the rest as MakeCluster.
//
// Errors: kInvalidArgument, a count outside [1, kMaxRanks], more than kMaxRanks devices, an unknown
// GPU; kUnsupported, as MakeCluster.
Result<ClusterSpec> ParseCluster(std::string_view text, const Catalogue& catalogue);

// A model and what its reading left out.
struct ResolvedModel {
  ModelSpec model;
  std::vector<std::string>
      notes;  // for people: fields of a config.json that were ignored, what was assumed
};

// The model that `text` is: a JSON object (a Hugging Face config.json where it has "model_type",
// else a ModelSpec), or the name of a catalogue entry.
//
//   text    the name, or what a file holds
//   origin  for messages: the file, or the option such as "--model"
//
// Errors: as ModelFromJson, ModelFromHuggingFace and FindModel; kUnsupported, an entry that cannot
// be planned, with reason.
Result<ResolvedModel> ResolveModel(std::string_view text, std::string_view origin,
                                   const Catalogue& catalogue);

}  // namespace foretrain
