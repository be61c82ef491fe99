// Device profiles: an accepted profile is written and read back to the same text, and gives every
// op a finite cost.
#include <cmath>
#include <string>
#include <string_view>

#include "sim/cost/cost_model.h"
#include "sim/cost/profile/profile_json.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foretrain;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto profile = ProfileFromJson(text, "fuzz");
  if (!profile.has_value()) return 0;
  const std::string written = ProfileToJson(*profile);
  const auto again = ProfileFromJson(written, "written");
  FT_CHECK(again.has_value());
  FT_CHECK(*again == *profile);

  ClusterSpec cluster;
  cluster.device.name = "cpu";
  cluster.device.memory_bytes = 1;
  cluster.devices_per_node = 4;
  cluster.is_cpu = true;
  cluster.cores = 2;
  const auto model = CostModel::Make(cluster, *profile);
  FT_CHECK(model.has_value());
  for (int kind = 0; kind < kOpKindCount; ++kind) {
    Op op;
    op.kind = static_cast<OpKind>(kind);
    op.shape = {.rows = 48,
                .cols = 96,
                .inner = 24,
                .batch = 3,
                .sequence = 16,
                .vocab = 128,
                .elements = 4096,
                .decayed = 0,
                .heads = 4,
                .kv_heads = 2,
                .head_dim = 8};
    const OpCost cost = model->CostOf(op, {.members = 3, .nodes = 1, .per_node = 3});
    for (const double seconds : cost.seconds) FT_CHECK(seconds >= 0 && std::isfinite(seconds));
  }
  return 0;
}
