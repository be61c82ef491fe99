#include "app/training/local_gpu.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string_view>

#include "base/io/file_system.h"
#include "runtime/device/cuda_driver.h"

namespace foretrain {
namespace {

// Lower-case letters and digits of the name, without the words of makers and brands.
std::string Squash(std::string_view name) {
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) text += static_cast<char>(std::tolower(byte));
  }
  for (const std::string_view word : {"nvidia", "geforce", "tesla", "generation", "laptopgpu"}) {
    const auto at = text.find(word);
    if (at != std::string::npos) text.erase(at, word.size());
  }
  return text;
}

// "a100" of "a100-80gb-sxm".
std::string_view ChipOf(const GpuEntry& entry) {
  return std::string_view(entry.name).substr(0, entry.name.find('-'));
}

bool IsOnCard(std::string_view name) { return name.find("pcie") != std::string_view::npos; }

}  // namespace

// Finds the catalogue entry of a driver's device name. The longest matching chip wins, so that
// "L40S" does not match "L4". Among its variants the same board form comes first, then the nearest
// memory size.
Result<GpuEntry> FindGpuOfDriver(const Catalogue& catalogue, const std::string& name,
                                 std::int64_t memory_bytes) {
  const std::string squashed = Squash(name);
  std::size_t longest = 0;
  for (const GpuEntry& entry : catalogue.gpus) {
    const std::string_view chip = ChipOf(entry);
    if (squashed.find(chip) != std::string::npos) longest = std::max(longest, chip.size());
  }
  const GpuEntry* nearest = nullptr;
  const auto distance = [&](const GpuEntry& entry) {
    return std::abs(static_cast<double>(entry.device.memory_bytes - memory_bytes));
  };
  for (const bool same_board : {true, false}) {
    for (const GpuEntry& entry : catalogue.gpus) {
      const std::string_view chip = ChipOf(entry);
      if (longest == 0 || chip.size() != longest || squashed.find(chip) == std::string::npos) {
        continue;
      }
      if (same_board && IsOnCard(squashed) != IsOnCard(entry.name)) continue;
      if (nearest == nullptr || distance(entry) < distance(*nearest)) nearest = &entry;
    }
    if (nearest != nullptr) return *nearest;
  }
  return Fail(ErrorCode::kInvalidArgument, "the catalogue has no \"" + name + "\"");
}

// The first GPU stands for all: mixed machines are not modelled.
Result<ClusterSpec> LocalGpuCluster(const Catalogue& catalogue, int ranks) {
  FT_ASSIGN(const CudaDriver driver, AskCudaDriver());
  if (driver.gpus.empty()) {
    return Fail(ErrorCode::kUnsupported, "the NVIDIA driver shows no GPU; use --device cpu");
  }
  const GpuFacts& gpu = driver.gpus.front();
  const auto entry = FindGpuOfDriver(catalogue, gpu.name, gpu.memory_bytes);
  if (!entry.has_value()) {
    return Fail(entry.error().code, entry.error().message + "; name one like it, e.g. --cluster " +
                                        "1x1xH100-80GB-SXM (`foretrain clusters`)");
  }
  return ParseCluster("1x" + std::to_string(ranks) + "x" + entry->name, catalogue);
}

// Uses --cluster if it is given, otherwise this machine's GPU. Without --device-profile, the
// profile that `calibrate` stored for this machine is used if there is one.
Result<ForecastContext> MakeGpuContext(const ModelFlags& model_flags,
                                       const ClusterFlags& cluster_flags) {
  FT_ASSIGN(const Catalogue catalogue, BuiltInCatalogue());
  FT_ASSIGN(const ModelSpec model, model_flags.Resolve(catalogue));
  const int ranks = static_cast<int>(std::clamp<std::int64_t>(cluster_flags.ranks, 1, kMaxRanks));
  const bool named = cluster_flags.cluster != "local";
  FT_ASSIGN(const ClusterSpec cluster,
            named ? cluster_flags.Resolve(catalogue) : LocalGpuCluster(catalogue, ranks));
  ClusterFlags profile_flags = cluster_flags;
  PosixFileSystem files;
  FT_ASSIGN(const FileInfo info, files.Stat(LocalProfilePath(true)));
  if (profile_flags.device_profile.empty() && info.kind == FileKind::kRegular) {
    profile_flags.device_profile = LocalProfilePath(true);
  }
  std::string origin;
  FT_ASSIGN(DeviceProfile profile, LoadProfile(profile_flags, cluster, origin));
  if (cluster_flags.cuda_graphs) profile.system.cuda_graphs = true;
  FT_ASSIGN(CostModel costs, CostModel::Make(cluster, profile));
  return ForecastContext{model, cluster, std::move(costs), origin};
}

}  // namespace foretrain
