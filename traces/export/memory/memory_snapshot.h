// Writes a run's device memory as a snapshot of PyTorch's allocator, which pytorch.org/memory_viz
// and torch.cuda._memory_viz read. traces/import/memory reads snapshots.
#pragma once

#include <string>

#include "base/io/file_system.h"
#include "base/result.h"
#include "traces/timeline.h"

namespace foretrain {

// Writes `path`, a pickle of the dict that torch.cuda.memory._snapshot() returns. An existing file
// is replaced only if writing succeeds.
//
//   device_traces         one list a rank, by rank: alloc, free_requested and free_completed, as
//                         allocations.h makes them of the samples. `category` is ours. The frame of
//                         an allocation is the op that began last: function = op, file = what it is
//                         part of ("forward layer 3"), line = micro-batch
//   segments              one a rank, with the blocks that are live in the end
//   external_annotations  ProfilerStep#N: the windows of the steps
//
// Times are microseconds from the run's first event. Memory of hosts is left out.
//
//   layers  decoder layers, to name blocks; 0: unknown
//
// Errors: kInvalidArgument, a run without device memory; those of writing.
Result<void> WriteMemorySnapshot(const Timeline& timeline, int layers, FileSystem& files,
                                 const std::string& path);

}  // namespace foretrain
