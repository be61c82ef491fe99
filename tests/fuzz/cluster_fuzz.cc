// A cluster as a file or a name: if it is accepted, its rates are finite, and writing and reading
// it again gives the same cluster.
#include <cmath>
#include <string_view>

#include "sim/config/cluster/cluster_json.h"
#include "sim/config/plan/plan.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foretrain;
  static const Catalogue catalogue = BuiltInCatalogue().value();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto cluster = text.starts_with('{') ? ClusterFromJson(text, "fuzz", catalogue)
                                             : ParseCluster(text, catalogue);
  if (!cluster) {
    FT_CHECK(!cluster.error().message.empty());
    return 0;
  }
  FT_CHECK(cluster->Devices() >= 1 && cluster->Devices() <= kMaxRanks);
  FT_CHECK(cluster->device.memory_bytes > 0);
  FT_CHECK(cluster->is_cpu || cluster->device.memory_bytes_per_s > 0);
  FT_CHECK(std::isfinite(cluster->network_bytes_per_s) &&
           std::isfinite(cluster->device.bf16_flop_per_s));
  FT_CHECK(ParseCollectiveAlgorithm(Name(cluster->collectives)) == cluster->collectives);
  const auto local =
      LocalCluster(cluster->cores, cluster->device.memory_bytes, cluster->devices_per_node);
  FT_CHECK(local.has_value() || !local.error().message.empty());
  const auto again = ClusterFromJson(ToJson(*cluster), "written", catalogue);
  FT_CHECK(again.has_value() && *again == *cluster);
  return 0;
}
