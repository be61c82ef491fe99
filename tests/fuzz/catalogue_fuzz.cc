// The tables of accelerators and models: every accepted entry can be found by its name and has
// sound values.
#include <cmath>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "sim/config/catalogue/catalogue.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foretrain;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Catalogue catalogue;
  if (auto gpus = ParseGpus(text, "fuzz")) catalogue.gpus = *std::move(gpus);
  if (auto models = ParseModels(text, "fuzz")) catalogue.models = *std::move(models);
  static const std::vector<GpuEntry> known = BuiltInCatalogue().value().gpus;
  std::vector<GpuEntry> gpus = known;
  for (GpuEntry& gpu : gpus) gpu.node = {};
  if (AddReferenceNodes(text, "fuzz", gpus)) {
    for (const GpuEntry& gpu : gpus) FT_CHECK(std::isfinite(DefaultNetwork(gpu)));
  }
  for (const GpuEntry& gpu : catalogue.gpus) {
    FT_CHECK(FindGpu(catalogue, gpu.name)->name == gpu.name);
    FT_CHECK(gpu.device.memory_bytes >= 0 && std::isfinite(gpu.device.memory_bytes_per_s));
    const auto cluster = MakeCluster(gpu, 2, 8);
    FT_CHECK(cluster.has_value() || !cluster.error().message.empty());
  }
  for (const ModelEntry& model : catalogue.models) {
    FT_CHECK(FindModel(catalogue, model.name)->name == model.name);
    FT_CHECK(!model.unsupported.empty() || ParameterCount(model.spec) <= kMaxProduct);
  }
  return 0;
}
