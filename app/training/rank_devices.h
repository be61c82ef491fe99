// Assigns a device to each rank of a run and chooses how the ranks communicate.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "app/cli/device_choice.h"
#include "base/result.h"
#include "runtime/processes/launched_rank.h"
#include "runtime/processes/process_group.h"
#include "runtime/processes/transfer_codes.h"
#include "runtime/run/rank_world.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

struct RankDevices {
  std::vector<LocalRank> local;  // ranks of this process; empty: all of the plan's, on device 0
  WorldMaker world;              // null: as threads that share a device
  std::string text;              // "GPUs 0 1, NCCL 2.28.9"; empty for threads on CPUs
  std::shared_ptr<ProcessGroup> processes;  // shared with `world`; null: all ranks are here
  bool IsMember() const { return processes != nullptr && processes->rank() != 0; }
};

// Places a plan whose ranks all run in this process. On CPUs all ranks share the processors. On
// GPUs:
// - If there are as many GPUs as ranks and none was named, each rank has the GPU of its slot
//   (Plan::rank_order), with NCCL between them.
// - If there are fewer, and each reads the others' memory, ranks of neighbouring slots share a GPU.
//   They communicate as threads.
// - Otherwise all ranks share one GPU.
//
//   share   all ranks on one GPU: they divide its multiprocessors or take turns
//   nccl    NCCL's library
//   driver  CUDA's library, which knows whether GPUs read each other's memory
//
// Errors: kUnsupported, NCCL does not load or is too old, with how to do without it.
Result<RankDevices> PlaceRanks(const Plan& plan, const DeviceChoice& device, bool share,
                               const std::string& nccl = "libnccl.so.2",
                               const std::string& driver = "libcuda.so.1");

// Places the one rank that a launcher made this process for. On GPUs the rank has the GPU of its
// local number, unless one was named, and communicates by NCCL. On CPUs it shares the processors
// and communicates as ChooseTransport says. Returns once all processes have joined.
//
//   launched  one of several processes
//   check     of tensors between CPU ranks
//   ucx       UCX's library, which may be missing
//
// Errors: kInvalidArgument, the plan has another number of ranks; kUnsupported, as PlaceRanks,
// `share`, or `check` with NCCL; those of ProcessGroup::Join.
Result<RankDevices> PlaceLaunchedRank(const Plan& plan, const DeviceChoice& device, bool share,
                                      const LaunchedRank& launched, std::int64_t timeout_ns,
                                      TransferCheck check, const std::string& nccl = "libnccl.so.2",
                                      const std::string& ucx = "libucp.so.0");

}  // namespace foretrain
