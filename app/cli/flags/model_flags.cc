// Which model, and on which machine.
#include <algorithm>
#include <fstream>

#include "app/cli/flags/plan_flags.h"
#include "app/cli/hub_cache.h"
#include "base/io/file_system.h"
#include "base/json/json.h"
#include "base/parallel.h"
#include "base/text.h"
#include "base/units.h"
#include "sim/config/cluster/cluster_json.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxSpecBytes = 16 * kMiB;

// A path or a .json name; a catalogue name has neither.
bool LooksLikeFile(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".json");
}

}  // namespace

void ModelFlags::Declare(Arguments& arguments) {
  arguments.Section("Model");
  arguments.Option(
      "--model", model, "NAME|FILE",
      "Catalogue name (`foretrain models`), a Hugging Face folder or config.json, or a model file");
  arguments.Option("--layers,--num-layers", layers, "N", "Override the number of layers");
  arguments.Option("--hidden,--hidden-size", hidden, "N", "Override the hidden size");
  arguments.Option("--heads,--num-attention-heads", heads, "N", "Override the attention heads");
  arguments.Option("--vocab,--vocab-size", vocab, "N",
                   "Override the size of the vocabulary, e.g. for your own tokenizer");
}

// Reads the model, then applies the overrides in an order that keeps it consistent: heads, then the
// hidden size, then the head dimension from both. The result is validated as a whole.
Result<ModelSpec> ModelFlags::Resolve(const Catalogue& catalogue) const {
  std::string text = model;
  std::string origin = option;
  if (!described.empty()) {
    text = described;
    origin = from;
  } else if (LooksLikeFile(model)) {
    PosixFileSystem files;
    origin = model;
    const auto info = files.Stat(model);
    if (info && info->kind == FileKind::kDirectory) origin += "/config.json";
    const bool missing = info && info->kind == FileKind::kMissing;
    if (missing && LooksLikeHubName(model)) {
      FT_ASSIGN(origin, FindInHubCache(files, HubCacheFolder(), model));
    }
    FT_ASSIGN(text, ReadFile(files, origin, kMaxSpecBytes));
    // Else it would be taken for a name.
    if (!Trim(text).starts_with('{')) {
      FT_TRY(ParseJson(text, origin));
      return Fail(ErrorCode::kCorruptInput,
                  origin + ": is no JSON object; give a config.json or a model file");
    }
  }
  FT_ASSIGN(ResolvedModel resolved, ResolveModel(text, origin, catalogue));
  ModelSpec& spec = resolved.model;
  if (layers < 0 || hidden < 0 || heads < 0 || vocab < 0) {
    return Fail(ErrorCode::kInvalidArgument,
                "--layers, --hidden, --heads and --vocab are counts of at least 1");
  }
  if (vocab > 0) spec.vocab = vocab;
  if (layers > 0) spec.layers = layers;
  if (heads > 0) {
    // Multi-head attention stays multi-head; grouped-query attention keeps its number of key-value
    // heads.
    spec.kv_heads = spec.kv_heads == spec.heads ? heads : spec.kv_heads;
    spec.heads = heads;
  }
  if (hidden > 0) {
    // The width of the MLP keeps its proportion.
    for (std::int64_t* width :
         {&spec.ffn_hidden, &spec.expert_ffn_hidden, &spec.shared_ffn_hidden}) {
      *width = *width * hidden / spec.hidden;
    }
    spec.hidden = hidden;
  }
  if (hidden > 0 || heads > 0) {
    if (spec.hidden % spec.heads != 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--heads: " + std::to_string(spec.heads) + " does not divide the hidden size " +
                      std::to_string(spec.hidden) + "; give a divisor of it");
    }
    spec.head_dim = spec.hidden / spec.heads;
  }
  FT_TRY(ValidateModel(spec));
  return spec;
}

void ClusterFlags::Declare(Arguments& arguments) {
  arguments.Section("Machine");
  arguments.Option("--cluster", cluster, "SPEC",
                   "local, NODESxGPUSxGPU (64x8xA100-80GB-SXM) or a JSON file");
  arguments.Option("--ranks", ranks, "N", "Ranks of a local cluster; 0: one for each core");
  arguments.Option("--max-memory", max_memory, "SIZE",
                   "Memory that a plan may use on each device, e.g. 72GiB");
  arguments.Option(
      "--device-profile", device_profile, "FILE",
      "Device profile with measured rates; default: the one that `foretrain calibrate` stored");
  DeclareClusterOptions(arguments, options);
}

void DeclareClusterOptions(Arguments& arguments, ClusterOptions& options) {
  arguments.Option("--nic", options.nic, "NxRATE",
                   "Network adapters in a node and the rate of each, e.g. 8x400Gb");
  arguments.Option(
      "--oversubscription", options.oversubscription, "R[@NODES],...",
      "The network is R times slower beyond groups of NODES nodes (default: one node)");
  arguments.Option("--host-memory", options.host_memory, "SIZE", "Memory of a node, e.g. 1TiB");
  arguments.Option("--cpu-cores", options.cpu_cores, "N", "Cores of a node");
  arguments.Option("--pcie", options.pcie, "GENxLANES", "PCIe of a device, e.g. 4x16");
  arguments.Option(
      "--collectives", options.collectives, "NAME",
      "Algorithm of collectives: auto, ring, tree, hierarchical, in-network, parameter-server");
}

// Builds the cluster by name, file or this machine, then refines it by single options. --max-memory
// only lowers the limit.
Result<ClusterSpec> ClusterFlags::Resolve(const Catalogue& catalogue) const {
  ClusterSpec spec;
  if (cluster == "local") {
    const Machine machine = ThisMachine();
    if (ranks < 0 || ranks > kMaxRanks) {
      return Fail(ErrorCode::kInvalidArgument, "--ranks: " + std::to_string(ranks) +
                                                   " is outside 0 to " + std::to_string(kMaxRanks) +
                                                   "; 0 takes one a core");
    }
    const int count = ranks > 0 ? static_cast<int>(ranks) : machine.cores;
    FT_ASSIGN(spec, LocalCluster(machine.cores, machine.memory_bytes, count));
    spec.device.name = machine.name;
  } else if (LooksLikeFile(cluster)) {
    PosixFileSystem files;
    FT_ASSIGN(const std::string text, ReadFile(files, cluster, kMaxSpecBytes));
    FT_ASSIGN(spec, ClusterFromJson(text, cluster, catalogue));
  } else {
    FT_ASSIGN(spec, ParseCluster(cluster, catalogue));
  }
  FT_TRY(RefineCluster(options, spec));
  AssumeHostMemory(spec);
  if (!max_memory.empty()) {
    FT_ASSIGN(const std::int64_t bytes, ParseBytes("--max-memory", max_memory));
    if (bytes < 1) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--max-memory: \"" + max_memory + "\" is nothing; give a size such as 72GiB");
    }
    spec.device.memory_bytes = std::min(spec.device.memory_bytes, bytes);
  }
  return spec;
}

// Reads /proc. Missing entries leave 0 bytes, and "cpu" as the name.
Machine ThisMachine() {
  Machine machine;
  machine.cores = HardwareThreads();
  std::ifstream memory("/proc/meminfo");
  for (std::string key; memory >> key;) {
    std::int64_t value = 0;
    if (key == "MemTotal:" && memory >> value) machine.memory_bytes = value * kKiB;
  }
  std::ifstream processor("/proc/cpuinfo");
  for (std::string line; std::getline(processor, line);) {
    if (!line.starts_with("model name")) continue;
    machine.name = std::string(Trim(std::string_view(line).substr(line.find(':') + 1)));
    break;
  }
  if (machine.name.empty()) machine.name = "cpu";
  return machine;
}

}  // namespace foretrain
