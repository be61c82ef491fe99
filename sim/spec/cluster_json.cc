#include "sim/spec/cluster_json.h"

#include "base/checked.h"
#include "base/json.h"
#include "sim/spec/plan.h"
#include "sim/spec/refuse.h"

namespace foretrain {
namespace {

constexpr double kFastest = 1e21;  // of any rate, per second

DeviceSpec ReadDevice(JsonFields& fields) {
  DeviceSpec device;
  const auto rate = [&](std::string_view name) { return fields.NumberOr(name, 0, 0, kFastest); };
  device.name = fields.String("name", 200);
  device.fp32_flop_per_s = rate("fp32_flop_per_s");
  device.tf32_flop_per_s = rate("tf32_flop_per_s");
  device.bf16_flop_per_s = rate("bf16_flop_per_s");
  device.fp16_flop_per_s = rate("fp16_flop_per_s");
  device.fp8_flop_per_s = rate("fp8_flop_per_s");
  device.memory_bytes = fields.Integer("memory_bytes", 1, kMaxProduct);
  device.memory_bytes_per_s = rate("memory_bytes_per_s");
  device.link_bytes_per_s = rate("link_bytes_per_s");
  device.pcie_bytes_per_s = rate("pcie_bytes_per_s");
  device.source = fields.StringOr("source", "", std::size_t{64} << 10);
  return device;
}

// The cluster that the GPU named `name` makes by default, to which the other fields are applied.
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
  if (!fields.ok()) return ClusterSpec{};  // the caller's Finish says what was wrong
  auto cluster = MakeCluster(*gpu, nodes, devices, network);
  if (!cluster && cluster.error().code == ErrorCode::kUnsupported) return placed(cluster.error());
  if (!cluster) return Refuse("{}: {}", fields.Where(), cluster.error().message);
  return cluster;
}

}  // namespace

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
  cluster.network_bytes_per_s =
      fields.NumberOr("network_bytes_per_s", cluster.network_bytes_per_s, 0, kFastest);
  cluster.link_latency_s = fields.NumberOr("link_latency_s", cluster.link_latency_s, 0, 1e3);
  cluster.network_latency_s =
      fields.NumberOr("network_latency_s", cluster.network_latency_s, 0, 1e3);
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
      .Field("memory_bytes", device.memory_bytes)
      .Field("memory_bytes_per_s", device.memory_bytes_per_s)
      .Field("link_bytes_per_s", device.link_bytes_per_s)
      .Field("pcie_bytes_per_s", device.pcie_bytes_per_s)
      .Field("source", device.source)
      .EndObject();
  writer.Field("nodes", cluster.nodes)
      .Field("devices_per_node", cluster.devices_per_node)
      .Field("network_bytes_per_s", cluster.network_bytes_per_s)
      .Field("link_latency_s", cluster.link_latency_s)
      .Field("network_latency_s", cluster.network_latency_s)
      .Field("is_cpu", cluster.is_cpu)
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
