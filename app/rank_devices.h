// Which device each rank of a run computes on, and how the ranks communicate. Leaves out which plan
// is run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "app/device_choice.h"
#include "base/result.h"
#include "runtime/processes/launched_rank.h"
#include "runtime/processes/process_group.h"
#include "runtime/rank_world.h"
#include "sim/spec/plan.h"

namespace foretrain {

struct RankDevices {
  std::vector<LocalRank> local;  // ranks of this process; empty: all of the plan's, on device 0
  WorldMaker world;              // null: as threads that share a device
  std::string text;              // "GPUs 0 1, NCCL 2.28.9"; empty where there is nothing to say
  std::shared_ptr<ProcessGroup> processes;  // shared with `world`; null: all ranks are here
  bool IsMember() const { return processes != nullptr && processes->rank() != 0; }
};

// Of the ranks of a plan that all run in this process. Ranks of processors share them. On GPUs each
// rank has one, that of its slot (Plan::rank_order), where there are as many and none was named,
// with NCCL between them. Where there are several, but fewer, and each reads the others' memory,
// ranks of neighbouring slots share each, and copy and sum as threads. Else all share one.
//
//   share   ranks are to be on one GPU: they share its multiprocessors out, or take turns
//   nccl    NCCL's library
//   driver  CUDA's, which knows whether GPUs read each other's memory
//
// Errors: kUnsupported, NCCL does not load or is too old, with how to do without it.
Result<RankDevices> PlaceRanks(const Plan& plan, const DeviceChoice& device, bool share,
                               const std::string& nccl = "libnccl.so.2",
                               const std::string& driver = "libcuda.so.1");

// Of the one rank that a launcher has made this process: on GPUs that of its number on its machine,
// unless one was named, with NCCL; processors are shared, and tensors go over TCP. Returns when all
// processes have come.
//
//   launched  of several
//
// Errors: kInvalidArgument, the plan has another number of ranks; kUnsupported, as PlaceRanks, or
// `share`; those of ProcessGroup::Join.
Result<RankDevices> PlaceLaunchedRank(const Plan& plan, const DeviceChoice& device, bool share,
                                      const LaunchedRank& launched, std::int64_t timeout_ns,
                                      const std::string& nccl = "libnccl.so.2");

}  // namespace foretrain
