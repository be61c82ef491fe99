#include "sim/config/cluster/cluster_json.h"

#include "base/checked.h"
#include "base/json/json.h"
#include "sim/config/plan/plan.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

constexpr double kFastest = 1e21;  // largest rate that a file may give, per second

// Reads a device given field by field. A rate that is left out is 0, which means unknown.
DeviceSpec ReadDevice(JsonFields& fields) {
  DeviceSpec device;
  const auto rate = [&](std::string_view name) { return fields.NumberOr(name, 0, 0, kFastest); };
  const auto count = [&](std::string_view name, int otherwise, int low, int high) {
    return static_cast<int>(fields.IntegerOr(name, otherwise, low, high));
  };
  device.name = fields.String("name", 200);
  device.fp32_flop_per_s = rate("fp32_flop_per_s");
  device.tf32_flop_per_s = rate("tf32_flop_per_s");
  device.bf16_flop_per_s = rate("bf16_flop_per_s");
  device.fp16_flop_per_s = rate("fp16_flop_per_s");
  device.fp8_flop_per_s = rate("fp8_flop_per_s");
  device.fp4_flop_per_s = rate("fp4_flop_per_s");
  device.memory_bytes = fields.Integer("memory_bytes", 1, kMaxProduct);
  device.memory_bytes_per_s = rate("memory_bytes_per_s");
  device.link_bytes_per_s = rate("link_bytes_per_s");
  device.link_peer_bytes_per_s = rate("link_peer_bytes_per_s");
  device.link_devices = count("link_devices", 0, 0, kMaxRanks);
  device.link_reduces = fields.BoolOr("link_reduces", false);
  device.torus_axes = count("torus_axes", 0, 0, 3);
  device.pcie_bytes_per_s = rate("pcie_bytes_per_s");
  device.devices_per_pcie_switch = count("devices_per_pcie_switch", 1, 1, kMaxRanks);
  device.multiprocessors = count("multiprocessors", 0, 0, kMaxRanks);
  device.peer_access = fields.BoolOr("peer_access", true);
  device.source = fields.StringOr("source", "", std::size_t{64} << 10);
  return device;
}

// Tiers are checked for order and size by ValidateCluster, together with the other fields.
std::vector<NetworkTier> ReadTiers(JsonFields& fields) {
  std::vector<NetworkTier> tiers;
  for (JsonFields& of : fields.ObjectsOr("network_tiers")) {
    NetworkTier tier;
    tier.nodes = static_cast<int>(of.Integer("nodes", 1, kMaxRanks));
    tier.bytes_per_s = of.Number("bytes_per_s", 0, kFastest);
    // Finish refuses unknown fields, so that the first error is reported.
    if (const auto read = of.Finish(); !read) return {};
    tiers.push_back(tier);
  }
  return tiers;
}

// Reads the network between nodes and devices.
void ReadNetwork(JsonFields& fields, ClusterSpec& cluster) {
  const auto count = [&](std::string_view name, int otherwise) {
    return static_cast<int>(fields.IntegerOr(name, otherwise, 0, kMaxRanks));
  };
  cluster.network_bytes_per_s =
      fields.NumberOr("network_bytes_per_s", cluster.network_bytes_per_s, 0, kFastest);
  cluster.adapters_per_node = count("adapters_per_node", cluster.adapters_per_node);
  cluster.network_tiers = ReadTiers(fields);
  cluster.network_reduces = fields.BoolOr("network_reduces", cluster.network_reduces);
  if (fields.Has("torus")) cluster.torus.clear();
  for (const std::int64_t extent : fields.IntegersOr("torus", 1, kMaxRanks)) {
    cluster.torus.push_back(static_cast<int>(extent));
  }
  cluster.link_latency_s = fields.NumberOr("link_latency_s", cluster.link_latency_s, 0, 1e3);
  cluster.network_latency_s =
      fields.NumberOr("network_latency_s", cluster.network_latency_s, 0, 1e3);
  std::vector<std::string_view> algorithms;
  for (int i = 0; i < kCollectiveAlgorithmCount; ++i) {
    algorithms.push_back(Name(static_cast<CollectiveAlgorithm>(i)));
  }
  cluster.collectives = static_cast<CollectiveAlgorithm>(
      fields.ChoiceOr("collectives", static_cast<std::size_t>(cluster.collectives), algorithms));
  cluster.parameter_servers = count("parameter_servers", cluster.parameter_servers);
}

// The default cluster of the GPU `name`; the file's other fields are then applied to it.
Result<ClusterSpec> FromNamedGpu(JsonFields& fields, std::string_view name,
                                 const Catalogue& catalogue) {
  const auto count = [&](std::string_view field) {
    return static_cast<int>(fields.IntegerOr(field, 1, 1, kMaxRanks));
  };
  const auto placed = [&](const Error& error) {
    return Fail(error.code, fmt::format("{}: device: {}", fields.Where(), error.message));
  };
  const auto gpu = FindGpu(catalogue, name);
  if (!gpu) return placed(gpu.error());
  const int nodes = count("nodes"), devices = count("devices_per_node");
  const double network = fields.NumberOr("network_bytes_per_s", 0, 0, kFastest);
  if (!fields.ok()) return ClusterSpec{};  // the caller's Finish reports the error
  auto cluster = MakeCluster(*gpu, nodes, devices, network);
  if (!cluster && cluster.error().code == ErrorCode::kUnsupported) return placed(cluster.error());
  if (!cluster) return Refuse("{}: {}", fields.Where(), cluster.error().message);
  return cluster;
}

}  // namespace

// A named GPU gives the defaults first, then the fields of the file override them.
Result<ClusterSpec> ReadCluster(JsonFields& fields, const Catalogue& catalogue) {
  ClusterSpec cluster;
  const JsonValue* const device = fields.Any("device");
  if (device != nullptr && device->kind() == JsonValue::Kind::kString) {
    FT_ASSIGN(cluster, FromNamedGpu(fields, device->AsString(), catalogue));
  } else {
    JsonFields device_fields = fields.Object("device");
    cluster.device = ReadDevice(device_fields);
    FT_TRY(device_fields.Finish());
  }
  const auto whole = [&](std::string_view name, int otherwise, int low) {
    return static_cast<int>(fields.IntegerOr(name, otherwise, low, kMaxRanks));
  };
  cluster.name = fields.StringOr("name", cluster.name, 200);
  cluster.nodes = whole("nodes", cluster.nodes, 1);
  cluster.devices_per_node = whole("devices_per_node", cluster.devices_per_node, 1);
  ReadNetwork(fields, cluster);
  cluster.is_cpu = fields.BoolOr("is_cpu", cluster.is_cpu);
  cluster.cores = whole("cores", cluster.cores, 0);
  cluster.host_memory_bytes =
      fields.IntegerOr("host_memory_bytes", cluster.host_memory_bytes, 0, kMaxProduct);
  cluster.host_bytes_per_s =
      fields.NumberOr("host_bytes_per_s", cluster.host_bytes_per_s, 0, kFastest);
  cluster.nvme_read_bytes_per_s =
      fields.NumberOr("nvme_read_bytes_per_s", cluster.nvme_read_bytes_per_s, 0, kFastest);
  cluster.nvme_write_bytes_per_s =
      fields.NumberOr("nvme_write_bytes_per_s", cluster.nvme_write_bytes_per_s, 0, kFastest);
  cluster.assumptions = fields.StringOr("assumptions", cluster.assumptions);
  FT_TRY(fields.Finish());
  if (const auto valid = ValidateCluster(cluster); !valid) {
    return Refuse("{}: {}", fields.Where(), valid.error().message);
  }
  return cluster;
}

Result<ClusterSpec> ClusterFromJson(std::string_view text, std::string_view file,
                                    const Catalogue& catalogue) {
  FT_ASSIGN(const JsonValue value, ParseJson(text, file));
  JsonFields fields(value, file);
  return ReadCluster(fields, catalogue);
}

namespace {

// Writes the fields that ReadNetwork reads.
void WriteNetwork(JsonWriter& writer, const ClusterSpec& cluster) {
  writer.Field("network_bytes_per_s", cluster.network_bytes_per_s)
      .Field("adapters_per_node", cluster.adapters_per_node)
      .Name("network_tiers")
      .BeginArray();
  for (const NetworkTier& tier : cluster.network_tiers) {
    writer.BeginObject().Field("nodes", tier.nodes).Field("bytes_per_s", tier.bytes_per_s);
    writer.EndObject();
  }
  writer.EndArray().Field("network_reduces", cluster.network_reduces).Name("torus").BeginArray();
  for (const int extent : cluster.torus) writer.Integer(extent);
  writer.EndArray()
      .Field("link_latency_s", cluster.link_latency_s)
      .Field("network_latency_s", cluster.network_latency_s)
      .Field("collectives", Name(cluster.collectives))
      .Field("parameter_servers", cluster.parameter_servers);
}

}  // namespace

// Writes every field, so that reading the text gives the same cluster whatever the catalogue says.
void WriteJson(JsonWriter& writer, const ClusterSpec& cluster) {
  const DeviceSpec& device = cluster.device;
  writer.BeginObject().Field("name", cluster.name).Name("device");
  writer.BeginObject()
      .Field("name", device.name)
      .Field("fp32_flop_per_s", device.fp32_flop_per_s)
      .Field("tf32_flop_per_s", device.tf32_flop_per_s)
      .Field("bf16_flop_per_s", device.bf16_flop_per_s)
      .Field("fp16_flop_per_s", device.fp16_flop_per_s)
      .Field("fp8_flop_per_s", device.fp8_flop_per_s)
      .Field("fp4_flop_per_s", device.fp4_flop_per_s)
      .Field("memory_bytes", device.memory_bytes)
      .Field("memory_bytes_per_s", device.memory_bytes_per_s)
      .Field("link_bytes_per_s", device.link_bytes_per_s)
      .Field("link_peer_bytes_per_s", device.link_peer_bytes_per_s)
      .Field("link_devices", device.link_devices)
      .Field("link_reduces", device.link_reduces)
      .Field("torus_axes", device.torus_axes)
      .Field("pcie_bytes_per_s", device.pcie_bytes_per_s)
      .Field("devices_per_pcie_switch", device.devices_per_pcie_switch)
      .Field("multiprocessors", device.multiprocessors)
      .Field("peer_access", device.peer_access)
      .Field("source", device.source)
      .EndObject();
  writer.Field("nodes", cluster.nodes).Field("devices_per_node", cluster.devices_per_node);
  WriteNetwork(writer, cluster);
  writer.Field("is_cpu", cluster.is_cpu)
      .Field("cores", cluster.cores)
      .Field("host_memory_bytes", cluster.host_memory_bytes)
      .Field("host_bytes_per_s", cluster.host_bytes_per_s)
      .Field("nvme_read_bytes_per_s", cluster.nvme_read_bytes_per_s)
      .Field("nvme_write_bytes_per_s", cluster.nvme_write_bytes_per_s)
      .Field("assumptions", cluster.assumptions)
      .EndObject();
}

std::string ToJson(const ClusterSpec& cluster) {
  JsonWriter writer(2);
  WriteJson(writer, cluster);
  return writer.Take();
}

}  // namespace foretrain
