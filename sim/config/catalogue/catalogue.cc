#include "sim/config/catalogue/catalogue.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/embedded.h"
#include "base/text.h"
#include "base/units.h"
#include "sim/config/plan/plan.h"
#include "sim/config/rules/refuse.h"
#include "sim/embedded_data.h"

namespace foretrain {
namespace {

// The entry's name as tables and messages show it.
std::string_view Written(const GpuEntry& gpu) { return gpu.device.name; }
std::string_view Written(const ModelEntry& model) { return model.title; }

template <class Entry>
bool IsCalled(const Entry& entry, std::string_view lower) {
  if constexpr (requires { entry.driver_name; }) {
    if (ToLower(entry.driver_name) == lower) return true;
  }
  return ToLower(Written(entry)) == lower ||
         std::find(entry.aliases.begin(), entry.aliases.end(), lower) != entry.aliases.end();
}

template <class Entry>
std::vector<std::string_view> AllNames(const std::vector<Entry>& entries) {
  std::vector<std::string_view> names;
  for (const Entry& entry : entries) {
    names.push_back(entry.name);
    names.insert(names.end(), entry.aliases.begin(), entry.aliases.end());
  }
  return names;
}

// Finds an entry by its exact name, else by a unique alias or shown name. An exact name wins,
// because aliases may be shared. `kind` and `command` are for messages: "GPU", "foretrain
// clusters".
template <class Entry>
Result<Entry> Find(const std::vector<Entry>& entries, std::string_view name, std::string_view kind,
                   std::string_view command) {
  const std::string lower = ToLower(Trim(name));
  std::vector<const Entry*> found;
  for (const Entry& entry : entries) {
    if (entry.name == lower) return entry;
    if (IsCalled(entry, lower)) found.push_back(&entry);
  }
  if (found.size() == 1) return *found[0];
  if (found.empty()) {
    const std::string hint = DidYouMean(lower, AllNames(entries));
    return Refuse("{} \"{}\" is not in the catalogue{} `{}` lists all", kind, Printable(name),
                  hint.empty() ? "." : hint, command);
  }
  std::vector<std::string> targets;
  targets.reserve(found.size());
  for (const Entry* entry : found) targets.push_back(entry->name);
  return Refuse("{} \"{}\" may be any of {}; use one of these names", kind, Printable(name),
                Join(targets, ", "));
}

// Removes a leading count such as "64x" from `text` and returns its digits; `nullopt` if there is
// none.
std::optional<std::string_view> TakeCount(std::string_view& text) {
  const std::size_t digits = text.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string_view::npos ||
      (text[digits] != 'x' && text[digits] != 'X')) {
    return std::nullopt;
  }
  const std::string_view count = text.substr(0, digits);
  text.remove_prefix(digits + 1);
  return count;
}

// Extents of `axes` axes whose product is `devices`, as equal as possible, the largest first. Each
// extent is the largest divisor not above the root of the remaining product.
std::vector<int> NearlyCubic(int devices, int axes) {
  std::vector<int> extents;
  for (int left = axes; left > 1; --left) {
    int extent = static_cast<int>(std::floor(std::pow(devices, 1.0 / left) + 1e-9));
    while (extent > 1 && devices % extent != 0) --extent;
    extents.push_back(std::max(extent, 1));
    devices /= extents.back();
  }
  extents.push_back(devices);
  std::reverse(extents.begin(), extents.end());
  return extents;
}

// Derives what follows from the device's links, and notes it as an assumption.
void FillLinks(ClusterSpec& cluster, std::vector<std::string>& assumptions) {
  DeviceSpec& device = cluster.device;
  const std::int64_t devices = std::int64_t{cluster.nodes} * cluster.devices_per_node;
  if (cluster.nodes < 1 || cluster.devices_per_node < 1 || devices > kMaxRanks) return;
  if (device.torus_axes > 0) {
    cluster.torus = NearlyCubic(cluster.Devices(), device.torus_axes);
    assumptions.push_back(fmt::format("a torus of {}", fmt::join(cluster.torus, " x ")));
  }
  if (device.link_devices > 0 && device.link_devices < cluster.devices_per_node) {
    assumptions.push_back(
        fmt::format("links join only {} of the {} GPUs of a node, others meet through PCIe",
                    device.link_devices, cluster.devices_per_node));
  }
  if (device.link_devices > cluster.devices_per_node && cluster.nodes > 1) {
    const int domain = device.link_devices;
    if (cluster.Devices() > domain) {
      device.link_devices = EvenShareOfDomain(cluster.Devices(), domain, cluster.devices_per_node);
    }
    if (device.link_devices < domain) {
      assumptions.push_back(
          fmt::format("{} GPUs of each link domain of {} are used", device.link_devices, domain));
    }
    assumptions.push_back(fmt::format("links join {} GPUs of {} nodes", device.link_devices,
                                      CeilDiv(device.link_devices, cluster.devices_per_node)));
  }
}

}  // namespace

// Our own small models come before the published ones, so that listings start with them.
Result<Catalogue> BuiltInCatalogue() {
  const auto text = [](std::string_view path) {
    const EmbeddedFile* file = FindEmbedded(sim_data::Files(), path);
    FT_CHECK(file != nullptr);
    return file->text;
  };
  constexpr std::string_view kGpus = "sim/config/catalogue/hardware.csv";
  constexpr std::string_view kNodes = "sim/config/catalogue/reference_nodes.csv";
  constexpr std::string_view kOwnModels = "sim/config/catalogue/builtin_models.csv";
  constexpr std::string_view kModels = "sim/config/catalogue/models.csv";
  Catalogue catalogue;
  FT_ASSIGN(catalogue.gpus, ParseGpus(text(kGpus), kGpus));
  FT_TRY(AddReferenceNodes(text(kNodes), kNodes, catalogue.gpus));
  FT_ASSIGN(catalogue.models, ParseModels(text(kOwnModels), kOwnModels));
  FT_ASSIGN(const std::vector<ModelEntry> published, ParseModels(text(kModels), kModels));
  catalogue.models.insert(catalogue.models.end(), published.begin(), published.end());
  return catalogue;
}

Result<GpuEntry> FindGpu(const Catalogue& catalogue, std::string_view name) {
  return Find(catalogue.gpus, name, "GPU", "foretrain clusters");
}

Result<ModelEntry> FindModel(const Catalogue& catalogue, std::string_view name) {
  return Find(catalogue.models, name, "model", "foretrain models");
}

double DefaultNetwork(const GpuEntry& gpu) {
  if (gpu.device.torus_axes > 0) return 0;
  return gpu.node.network_bytes_per_s > 0 ? gpu.node.network_bytes_per_s : kUsualNetworkBytesPerS;
}

std::int64_t DefaultHostMemory(const GpuEntry& gpu, int devices) {
  const std::int64_t share = gpu.node.host_bytes > 0 ? gpu.node.host_bytes : kUsualHostBytes;
  return std::min<std::int64_t>(kMaxProduct, share * devices);
}

void AssumeHostMemory(ClusterSpec& cluster) {
  if (cluster.is_cpu || cluster.host_memory_bytes > 0) return;
  cluster.host_memory_bytes = kUsualHostBytes * cluster.devices_per_node;
  if (!cluster.assumptions.empty()) cluster.assumptions += "; ";
  cluster.assumptions +=
      fmt::format("host memory {} a node (not stated)", FormatBytes(cluster.host_memory_bytes));
}

// A torus device has no network, so no default is filled in for it.
Result<ClusterSpec> MakeCluster(const GpuEntry& gpu, int nodes, int devices_per_node,
                                double network_bytes_per_s, std::int64_t host_memory_bytes) {
  if (!gpu.unusable.empty()) {
    return Fail(
        ErrorCode::kUnsupported,
        fmt::format("{} cannot be planned for: {}. Give the cluster as a JSON file with the rates",
                    gpu.device.name, gpu.unusable));
  }
  ClusterSpec cluster;
  cluster.device = gpu.device;
  cluster.nodes = nodes;
  cluster.devices_per_node = devices_per_node;
  cluster.name = fmt::format("{}x{}x{}", nodes, devices_per_node, gpu.device.name);
  cluster.network_bytes_per_s = network_bytes_per_s;
  std::vector<std::string> assumptions;
  if (network_bytes_per_s == 0 && gpu.device.torus_axes == 0) {
    cluster.network_bytes_per_s = DefaultNetwork(gpu);
    assumptions.push_back(
        fmt::format("network {} GB/s per GPU and direction ({})", cluster.network_bytes_per_s / 1e9,
                    gpu.node.network_bytes_per_s > 0 ? gpu.node.name : "no reference node known"));
  }
  cluster.host_memory_bytes = host_memory_bytes;
  if (host_memory_bytes == 0 && devices_per_node >= 1 && devices_per_node <= kMaxRanks) {
    cluster.host_memory_bytes = DefaultHostMemory(gpu, devices_per_node);
    assumptions.push_back(
        fmt::format("host memory {} a node ({})", FormatBytes(cluster.host_memory_bytes),
                    gpu.node.host_bytes > 0 ? gpu.node.name : "no reference node known"));
  }
  FillLinks(cluster, assumptions);
  cluster.assumptions = Join(assumptions, "; ");
  FT_TRY(ValidateCluster(cluster));
  return cluster;
}

// Counts before the GPU's name decide the form: two are nodes and devices, one is devices of one
// node.
Result<ClusterSpec> ParseCluster(std::string_view text, const Catalogue& catalogue) {
  std::string_view gpu_name = Trim(text);
  const auto first = TakeCount(gpu_name);
  const auto second = first ? TakeCount(gpu_name) : std::nullopt;
  const std::string shown = Printable(text);
  std::int64_t nodes = 1, devices = 1;
  const auto read = [&](std::string_view what, std::optional<std::string_view> count,
                        std::int64_t& value) -> Result<void> {
    if (!count) return {};
    FT_ASSIGN(value,
              ParseInt(fmt::format("cluster \"{}\": {}", shown, what), *count, 1, kMaxRanks));
    return {};
  };
  FT_TRY(read("nodes", second ? first : std::nullopt, nodes));
  FT_TRY(read("GPUs of a node", second ? second : first, devices));
  auto gpu = FindGpu(catalogue, gpu_name);
  if (!gpu) {
    return Refuse("cluster \"{}\": {}. Write NODESxGPUSxGPU, such as 2x8xA100-80GB-SXM, or local",
                  shown, gpu.error().message);
  }
  auto cluster = MakeCluster(*gpu, static_cast<int>(nodes), static_cast<int>(devices));
  if (!cluster) {
    return Fail(cluster.error().code,
                fmt::format("cluster \"{}\": {}", shown, cluster.error().message));
  }
  return cluster;
}

}  // namespace foretrain
