// Reads memory snapshots of PyTorch's caching allocator (torch.cuda.memory._dump_snapshot): live
// memory by purpose over time, and the stacks that hold memory at the peak. One device is one rank.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "traces/import/byte_source.h"
#include "traces/import/raw_events.h"

namespace foretrain::trace_import {

// Reads a snapshot.
//
//   device_traces  alloc and free_completed (else free_requested) change live memory. Frees of
//                  unknown addresses tell what was live before the first event
//   segments       active blocks that no event tells of were live from the first event on
//   external_annotations  ranges, which may count steps
//
// The purpose of an allocation is its `category` (as PyTorch's own memory profile and our exports
// have it), else told from its stack by memory_frames.csv, else workspace. Entries without a time
// (older PyTorch) are a microsecond apart, which a note says.
//
// Returns one rank for each device with events or active blocks, numbered as the device. Errors:
// those of ReadPickle; kCorruptInput, a pickle without segments and device_traces;
// kInvalidArgument, no allocation.
Result<std::vector<RankEvents>> ReadSnapshot(ByteSource& bytes, std::string_view source,
                                             const std::function<bool()>& go_on);

}  // namespace foretrain::trace_import
