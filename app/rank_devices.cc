#include "app/rank_devices.h"

#include "runtime/nccl/nccl_world.h"
#include "sim/program/rank_order.h"

namespace foretrain {

Result<RankDevices> PlaceRanks(const Plan& plan, const DeviceChoice& device, bool share,
                               const std::string& nccl) {
  RankDevices placed;
  if (device.api->asynchronous == 0) return placed;
  const int world = plan.World();
  const bool apart = world > 1 && device.count >= world && !device.number && !share;
  for (int rank = 0; rank < world; ++rank) {
    placed.local.push_back({rank, apart ? DeviceOf(plan, rank) : device.Number()});
  }
  if (!apart) {
    if (world > 1) {
      placed.text = std::to_string(world) + " ranks share GPU " + std::to_string(device.Number());
    }
    return placed;
  }
  const auto library = LoadNccl(nccl);
  if (!library.has_value()) {
    return Fail(library.error().code,
                std::to_string(world) + " ranks with a GPU each need NCCL: " +
                    library.error().message +
                    "; install NCCL 2.14 or later, or give --device cuda:0 to run them all on one");
  }
  placed.world = NcclWorldMaker(*library);
  placed.text = "GPUs";
  for (const LocalRank& at : placed.local) placed.text += " " + std::to_string(at.device);
  placed.text += ", NCCL " + NcclVersionText(*library);
  return placed;
}

}  // namespace foretrain
