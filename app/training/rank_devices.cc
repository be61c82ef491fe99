#include "app/training/rank_devices.h"

#include "runtime/device/cuda_driver.h"
#include "runtime/nccl/nccl_world.h"
#include "runtime/processes/process_world.h"
#include "sim/program/ir/rank_order.h"

namespace foretrain {
namespace {

Result<NcclApi> LoadNcclFor(const std::string& ranks, const std::string& file,
                            const std::string& remedy) {
  auto library = LoadNccl(file);
  if (library.has_value()) return library;
  return Fail(library.error().code, ranks +
                                        " with a GPU each need NCCL: " + library.error().message +
                                        "; install NCCL 2.14 or later, or " + remedy);
}

// Deals ranks to `gpus`, which are fewer. Neighbouring slots communicate most, so they share a GPU.
// Without access between GPUs all ranks must be on one, because they exchange tensors by address.
RankDevices PlaceOnFewer(const Plan& plan, int gpus, const std::string& driver) {
  const int world = plan.World();
  const bool reach = GpusReadEachOther(gpus, driver);
  RankDevices placed;
  std::string numbers;
  for (int rank = 0; rank < world; ++rank) {
    const int gpu = reach ? DeviceOf(plan, rank) * gpus / world : 0;
    placed.local.push_back({rank, gpu});
    numbers += " " + std::to_string(gpu);
  }
  placed.text = reach ? std::to_string(world) + " ranks on GPUs" + numbers +
                            ", which read each other's memory"
                      : std::to_string(world) + " ranks share GPU 0: the machine's " +
                            std::to_string(gpus) + " do not read each other's memory";
  return placed;
}

}  // namespace

// Three cases. With a GPU for each rank, ranks exchange data by NCCL. With fewer GPUs, PlaceOnFewer
// deals them out. Otherwise all ranks share one GPU. On the CPU there is nothing to place.
Result<RankDevices> PlaceRanks(const Plan& plan, const DeviceChoice& device, bool share,
                               const std::string& nccl, const std::string& driver) {
  RankDevices placed;
  if (device.api->asynchronous == 0) return placed;
  const int world = plan.World();
  // Naming a GPU or sharing one is a choice for one GPU.
  const bool several = world > 1 && device.count > 1 && !device.number && !share;
  const bool apart = several && device.count >= world;
  if (several && !apart) return PlaceOnFewer(plan, device.count, driver);
  for (int rank = 0; rank < world; ++rank) {
    placed.local.push_back({rank, apart ? DeviceOf(plan, rank) : device.Number()});
  }
  if (!apart) {
    if (world > 1) {
      placed.text = std::to_string(world) + " ranks share GPU " + std::to_string(device.Number());
    }
    return placed;
  }
  FT_ASSIGN(const NcclApi library, LoadNcclFor(std::to_string(world) + " ranks", nccl,
                                               "give --device cuda:0 to run them all on one"));
  placed.world = NcclWorldMaker(library);
  placed.text = "GPUs";
  for (const LocalRank& at : placed.local) placed.text += " " + std::to_string(at.device);
  placed.text += ", NCCL " + NcclVersionText(library);
  return placed;
}

// The launcher has already started one process a rank, so the plan must have exactly that many
// ranks. Every check comes before ProcessGroup::Join, which waits for the other processes.
Result<RankDevices> PlaceLaunchedRank(const Plan& plan, const DeviceChoice& device, bool share,
                                      const LaunchedRank& launched, std::int64_t timeout_ns,
                                      TransferCheck check, const std::string& nccl,
                                      const std::string& ucx) {
  const std::string processes = std::to_string(launched.world) + " processes";
  if (plan.World() != launched.world) {
    return Fail(ErrorCode::kInvalidArgument,
                processes + " were launched, and the plan has " + std::to_string(plan.World()) +
                    " ranks; launch as many, or give a plan of as many ranks");
  }
  if (share) {
    return Fail(ErrorCode::kUnsupported,
                "--virtual-time and --sm-share are of ranks that are threads of one process; " +
                    processes + " were launched");
  }
  const bool on_gpu = device.api->asynchronous != 0;
  if (on_gpu && check != TransferCheck::kNone) {
    return Fail(ErrorCode::kUnsupported,
                "--check-transfers: between GPUs NCCL moves the tensors; leave it out");
  }
  // The launcher's local number is the GPU, unless the command names one.
  const int number = device.number.value_or(launched.local);
  if (on_gpu && number >= device.count) {
    return Fail(ErrorCode::kInvalidArgument,
                "rank " + std::to_string(launched.rank) + " is number " + std::to_string(number) +
                    " of its machine, which has " + std::to_string(device.count) +
                    " GPUs; launch one process a GPU");
  }
  RankDevices placed;
  placed.local = {{launched.rank, on_gpu ? number : 0}};
  if (on_gpu) {
    FT_ASSIGN(const NcclApi library,
              LoadNcclFor(processes, nccl, "launch one process and --device cuda:0"));
    FT_ASSIGN(placed.processes, ProcessGroup::Join(launched, timeout_ns));
    placed.world = InGroup(placed.processes, NcclWorldMaker(library, placed.processes));
    placed.text = processes + ", a GPU each, NCCL " + NcclVersionText(library);
    return placed;
  }
  const auto shared_memory = OpenUcx(ucx);  // before Join, which starts a thread
  FT_ASSIGN(placed.processes, ProcessGroup::Join(launched, timeout_ns));
  FT_ASSIGN(const TransportChoice transport, ChooseTransport(*placed.processes, shared_memory));
  placed.world = ProcessWorldMaker(placed.processes, transport.ucx, check);
  placed.text = processes + ", " + transport.text;
  return placed;
}

}  // namespace foretrain
