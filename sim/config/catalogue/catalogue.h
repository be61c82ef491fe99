// Catalogues of accelerators and models, and look-up by the names that people type. The built-in
// tables are part of the program; others come as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/config/cluster/cluster_spec.h"
#include "sim/config/model/model_spec.h"

namespace foretrain {

// Default of `train` and `demo` without --model.
inline constexpr std::string_view kDefaultModel = "gpt-10m";

// The node that a GPU is usually sold or rented in; its values stand for those that a user does not
// give. 0: not known.
struct ReferenceNode {
  std::string name;  // "DGX H100"; empty: none is known
  int devices = 0;
  int adapters = 0;
  double network_bytes_per_s = 0;  // of one device's share of the adapters, per direction
  std::int64_t host_bytes = 0;     // of one device's share
};

struct GpuEntry {
  std::string name;  // lower-case, unique
  std::vector<std::string> aliases;
  std::string driver_name;  // as the device's driver calls it: "NVIDIA H100 PCIe"; empty: unknown
  std::string architecture;
  DeviceSpec device;
  std::int64_t l2_bytes = 0;
  std::string compute_capability;       // "9.0", "gfx942"
  double measured_bf16_flop_per_s = 0;  // best matrix product that the source measured; 0: unknown
  std::string notes;
  ReferenceNode node;
  std::string unusable;  // reason why no cluster can be made of it; empty if one can
};

struct ModelEntry {
  std::string name;  // lower-case, unique
  std::vector<std::string> aliases;
  std::string title;  // "Llama-3/3.1 8B"
  std::string family;
  ModelSpec spec;                   // its name is `name`
  bool described = false;           // the spec is valid and covers the whole row
  double published_parameters = 0;  // 0: not published
  double active_parameters = 0;     // per token, if less than all; 0: all
  std::string unsupported;  // lacking features of ModelSpec or blocks; empty if it can be planned
  std::string source;
};

struct Catalogue {
  std::vector<GpuEntry> gpus;
  std::vector<ModelEntry> models;
};

// Parses accelerators from CSV with the columns of sim/config/catalogue/hardware.csv. Required are
// name, gpu, bf16_tflops and fp16_tflops (dense), mem_gb, mem_gb_per_s,
// gpu_link_gb_per_s_per_direction and pcie_gb_per_s_per_direction. mem_gb counts 2^30 bytes, as
// memory is sold; rates count 10^9. Other columns may be missing. `file` is for messages.
//
// Errors: kCorruptInput or kInvalidArgument, naming file, line and column: bad CSV, a missing
// column, a bad or repeated name, a bad number. O(bytes).
Result<std::vector<GpuEntry>> ParseGpus(std::string_view text, std::string_view file);

// Sets `node` of the GPUs that the table names, from CSV with the columns of
// sim/config/catalogue/reference_nodes.csv. Devices of a node share its adapters and its host
// memory evenly.
//
// Errors: as ParseGpus; kInvalidArgument for a GPU that `gpus` lacks or that has two rows.
Result<void> AddReferenceNodes(std::string_view text, std::string_view file,
                               std::vector<GpuEntry>& gpus);

// Parses models from CSV with the columns of sim/config/catalogue/models.csv. A model with parts
// that ModelSpec lacks (encoders, other norms, positions or features) is kept, with the reason in
// `unsupported`. Defaults of missing cells: qkv_bias as `biases`; norm_bias 1 for layernorm;
// activation swiglu if gated_mlp is 1, else gelu; rope_theta 10000; norm_epsilon 1e-5.
//
// Errors: as ParseGpus, and a supported model that ValidateModel refuses.
Result<std::vector<ModelEntry>> ParseModels(std::string_view text, std::string_view file);

// The built-in tables; our own small models come first.
Result<Catalogue> BuiltInCatalogue();

// Finds an entry by its name, else by an alias, its shown name or the driver's name, ignoring case.
//
// Errors: kInvalidArgument if there is no such entry (with the nearest names), or if an alias has
// several (they are listed). O(entries).
Result<GpuEntry> FindGpu(const Catalogue& catalogue, std::string_view name);
Result<ModelEntry> FindModel(const Catalogue& catalogue, std::string_view name);

// Network rate of a GPU where the user gives none, in bytes per second, device and direction: that
// of its reference node, else kUsualNetworkBytesPerS. 0 for devices of a torus.
double DefaultNetwork(const GpuEntry& gpu);
inline constexpr double kUsualNetworkBytesPerS = 12.5e9;  // 100 Gb a device

// Host memory of a node with `devices` such GPUs where the user gives none, in bytes: each device's
// share of its reference node, else kUsualHostBytes.
std::int64_t DefaultHostMemory(const GpuEntry& gpu, int devices);
inline constexpr std::int64_t kUsualHostBytes = std::int64_t{64} << 30;  // of one device

// Gives nodes of accelerators whose host memory is not known kUsualHostBytes a device, noted in
// `assumptions`: a plan must not count on memory without end.
void AssumeHostMemory(ClusterSpec& cluster);

// A cluster of `nodes` nodes with `devices_per_node` devices `gpu` each. Values that are not given
// are filled in and noted in `assumptions`. Examples are host memory, PCIe between GPUs that no
// bridge joins, and the extents of a torus, as equal as possible.
//
//   network_bytes_per_s  per GPU and direction; 0: DefaultNetwork
//   host_memory_bytes    of a node; 0: DefaultHostMemory
//
// Errors: kUnsupported if the catalogue does not know the GPU's rates; kInvalidArgument as
// ValidateCluster.
Result<ClusterSpec> MakeCluster(const GpuEntry& gpu, int nodes, int devices_per_node,
                                double network_bytes_per_s = 0, std::int64_t host_memory_bytes = 0);

// Parses NODESxGPUSxGPU, GPUSxGPU (one node) or GPU (one device), such as "64x8xA100-80GB-SXM",
// ignoring case. The rest is as in MakeCluster.
//
// Errors: kInvalidArgument for a count outside [1, kMaxRanks], more than kMaxRanks devices, or an
// unknown GPU; kUnsupported as MakeCluster.
Result<ClusterSpec> ParseCluster(std::string_view text, const Catalogue& catalogue);

// A model and remarks about how it was read.
struct ResolvedModel {
  ModelSpec model;
  std::vector<std::string> notes;  // for people: ignored fields of a config.json, and assumptions
};

// Resolves a user's model: a JSON object (a Hugging Face config.json if it has "model_type", else a
// ModelSpec), or the name of a catalogue entry.
//
//   text    the name, or the contents of a file
//   origin  for messages: the file, or the option such as "--model"
//
// Errors: as ModelFromJson, ModelFromHuggingFace and FindModel; kUnsupported, with the reason, for
// an entry that cannot be planned.
Result<ResolvedModel> ResolveModel(std::string_view text, std::string_view origin,
                                   const Catalogue& catalogue);

}  // namespace foretrain
