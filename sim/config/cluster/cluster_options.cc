#include "sim/config/cluster/cluster_options.h"

#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "sim/config/plan/plan.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

void Assume(ClusterSpec& cluster, const std::string& what) {
  if (!cluster.assumptions.empty()) cluster.assumptions += "; ";
  cluster.assumptions += what;
}

// Removes the assumption that starts with `subject`, which no longer holds.
void Forget(std::string_view subject, ClusterSpec& cluster) {
  std::vector<std::string> kept;
  for (const std::string_view part : Split(cluster.assumptions, ';')) {
    const std::string_view text = Trim(part);
    if (!text.empty() && !text.starts_with(subject)) kept.emplace_back(text);
  }
  cluster.assumptions = Join(kept, "; ");
}

// Splits `text` at the first `mark`, which is dropped. Without a mark the second part is empty.
std::pair<std::string_view, std::string_view> CutAt(std::string_view text, char mark) {
  const std::size_t at = text.find(mark);
  if (at == std::string_view::npos) return {text, {}};
  return {text.substr(0, at), text.substr(at + 1)};
}

// "8x400Gb" gives the adapters of a node and the rate of each; the devices share their sum evenly.
// Tiers are dropped, because they were relative to the old rate.
Result<void> LayNic(std::string_view text, ClusterSpec& cluster) {
  std::int64_t adapters = cluster.devices_per_node;
  std::string_view rate = text;
  if (const auto [count, rest] = CutAt(text, 'x'); !rest.empty()) {
    FT_ASSIGN(adapters, ParseInt("--nic", count, 1, kMaxRanks));
    rate = rest;
  }
  FT_ASSIGN(const double each, ParseBytesPerSecond("--nic", rate));
  Forget("network ", cluster);
  cluster.adapters_per_node = static_cast<int>(adapters);
  cluster.network_bytes_per_s =
      each * static_cast<double>(adapters) / static_cast<double>(cluster.devices_per_node);
  cluster.network_tiers.clear();
  return {};
}

// "2" slows all traffic that leaves a node by 2; "2@32,7@384" gives factors for traffic that leaves
// units of so many nodes. Factors are relative to the adapters' rate.
Result<void> LayOversubscription(std::string_view text, ClusterSpec& cluster) {
  constexpr double kMax = 1e6;
  std::vector<NetworkTier> tiers;
  for (const std::string_view part : Split(text, ',')) {
    const auto [factor_text, nodes_text] = CutAt(Trim(part), '@');
    FT_ASSIGN(const double factor, ParseNumber("--oversubscription", factor_text, 1, kMax));
    NetworkTier tier{1, cluster.network_bytes_per_s / factor};
    if (nodes_text.empty()) {
      Assume(cluster, "oversubscription holds for all that leaves a node (R@NODES names a leaf)");
    } else {
      FT_ASSIGN(const std::int64_t nodes, ParseInt("--oversubscription", nodes_text, 1, kMaxRanks));
      tier.nodes = static_cast<int>(nodes);
    }
    tiers.push_back(tier);
  }
  cluster.network_tiers = tiers;
  return {};
}

// A PCIe lane of generation 3 carries 1 GB/s per direction; each generation doubles it.
Result<void> LayPcie(std::string_view text, ClusterSpec& cluster) {
  const auto [generation_text, lanes_text] = CutAt(text, 'x');
  FT_ASSIGN(const std::int64_t generation, ParseInt("--pcie", generation_text, 1, 7));
  FT_ASSIGN(const std::int64_t lanes, ParseInt("--pcie", lanes_text, 1, 32));
  constexpr double kThird = 1e9;  // bytes per second of a lane of generation 3
  const double lane = generation >= 3 ? kThird * static_cast<double>(1 << (generation - 3))
                                      : kThird / static_cast<double>(1 << (3 - generation));
  cluster.device.pcie_bytes_per_s = lane * static_cast<double>(lanes);
  return {};
}

Result<void> LayCollectives(std::string_view text, ClusterSpec& cluster) {
  const auto algorithm = ParseCollectiveAlgorithm(ToLower(Trim(text)));
  if (algorithm) {
    cluster.collectives = *algorithm;
    return {};
  }
  std::vector<std::string> names;
  for (int i = 0; i < kCollectiveAlgorithmCount; ++i) {
    names.emplace_back(Name(static_cast<CollectiveAlgorithm>(i)));
  }
  return Refuse("--collectives \"{}\": is none of {}", Printable(text), Join(names, ", "));
}

}  // namespace

Result<void> RefineCluster(const ClusterOptions& options, ClusterSpec& cluster) {
  if (!options.nic.empty()) FT_TRY(LayNic(options.nic, cluster));
  if (!options.oversubscription.empty()) {
    FT_TRY(LayOversubscription(options.oversubscription, cluster));
  }
  if (!options.host_memory.empty()) {
    FT_ASSIGN(cluster.host_memory_bytes, ParseBytes("--host-memory", options.host_memory));
    Forget("host memory ", cluster);
  }
  if (!options.cpu_cores.empty()) {
    FT_ASSIGN(const std::int64_t cores, ParseInt("--cpu-cores", options.cpu_cores, 1, 1 << 20));
    cluster.cores = static_cast<int>(cores);
  }
  if (!options.pcie.empty()) FT_TRY(LayPcie(options.pcie, cluster));
  if (!options.collectives.empty()) FT_TRY(LayCollectives(options.collectives, cluster));
  return ValidateCluster(cluster);
}

}  // namespace foretrain
