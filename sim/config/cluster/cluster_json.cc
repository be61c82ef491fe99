#include "sim/config/cluster/cluster_json.h"

#include "sim/config/cluster/cluster_members.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

// Reads a device given field by field.
DeviceSpec ReadDevice(JsonFields& fields) {
  DeviceSpec device;
  device.name = fields.String("name", 200);
  ReadMembers(fields, kDeviceMembers, device);
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

// Checked for order and size by ValidateCluster.
std::vector<MeasuredNetwork> ReadMeasuredNetwork(JsonFields& fields) {
  std::vector<MeasuredNetwork> out;
  for (JsonFields& of : fields.ObjectsOr("measured_network")) {
    MeasuredNetwork measured;
    measured.nodes = static_cast<int>(of.Integer("nodes", 2, kMaxRanks));
    measured.reduce_bytes_per_s = of.Number("reduce_bytes_per_s", 0, kFastest);
    measured.gather_bytes_per_s = of.Number("gather_bytes_per_s", 0, kFastest);
    if (const auto read = of.Finish(); !read) return {};
    out.push_back(measured);
  }
  return out;
}

// Reads the network between nodes and devices.
void ReadNetwork(JsonFields& fields, ClusterSpec& cluster) {
  ReadMembers(fields, kAdapterMembers, cluster);
  cluster.network_tiers = ReadTiers(fields);
  cluster.measured_network = ReadMeasuredNetwork(fields);
  cluster.network_reduces = fields.BoolOr("network_reduces", cluster.network_reduces);
  if (fields.Has("torus")) cluster.torus.clear();
  for (const std::int64_t extent : fields.IntegersOr("torus", 1, kMaxRanks)) {
    cluster.torus.push_back(static_cast<int>(extent));
  }
  ReadMembers(fields, kLatencyMembers, cluster);
  std::vector<std::string_view> algorithms;
  for (int i = 0; i < kCollectiveAlgorithmCount; ++i) {
    algorithms.push_back(Name(static_cast<CollectiveAlgorithm>(i)));
  }
  cluster.collectives = static_cast<CollectiveAlgorithm>(
      fields.ChoiceOr("collectives", static_cast<std::size_t>(cluster.collectives), algorithms));
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
  const std::int64_t host = fields.IntegerOr("host_memory_bytes", 0, 0, kMaxProduct);
  if (!fields.ok()) return ClusterSpec{};  // the caller's Finish reports the error
  auto cluster = MakeCluster(*gpu, nodes, devices, network, host);
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
  cluster.name = fields.StringOr("name", cluster.name, 200);
  ReadMembers(fields, kNodeMembers, cluster);
  ReadNetwork(fields, cluster);
  ReadMembers(fields, kHostMembers, cluster);
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

// Writes every field, so that reading the text gives the same cluster whatever the catalogue says.
void WriteJson(JsonWriter& writer, const ClusterSpec& cluster) {
  writer.BeginObject().Field("name", cluster.name).Name("device");
  writer.BeginObject().Field("name", cluster.device.name);
  WriteMembers(writer, kDeviceMembers, cluster.device);
  writer.Field("source", cluster.device.source).EndObject();
  WriteMembers(writer, kNodeMembers, cluster);
  WriteMembers(writer, kAdapterMembers, cluster);
  writer.Name("network_tiers").BeginArray();
  for (const NetworkTier& tier : cluster.network_tiers) {
    writer.BeginObject().Field("nodes", tier.nodes).Field("bytes_per_s", tier.bytes_per_s);
    writer.EndObject();
  }
  writer.EndArray().Name("measured_network").BeginArray();
  for (const MeasuredNetwork& measured : cluster.measured_network) {
    writer.BeginObject().Field("nodes", measured.nodes);
    writer.Field("reduce_bytes_per_s", measured.reduce_bytes_per_s);
    writer.Field("gather_bytes_per_s", measured.gather_bytes_per_s).EndObject();
  }
  writer.EndArray().Field("network_reduces", cluster.network_reduces).Name("torus").BeginArray();
  for (const int extent : cluster.torus) writer.Integer(extent);
  writer.EndArray();
  WriteMembers(writer, kLatencyMembers, cluster);
  writer.Field("collectives", Name(cluster.collectives));
  WriteMembers(writer, kHostMembers, cluster);
  writer.Field("assumptions", cluster.assumptions).EndObject();
}

std::string ToJson(const ClusterSpec& cluster) {
  JsonWriter writer(2);
  WriteJson(writer, cluster);
  return writer.Take();
}

}  // namespace foretrain
