// Reads Chakra's execution traces (.et): the graph of one rank becomes plain events. Graphs without
// times are scheduled first.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "traces/import/byte_source.h"
#include "traces/import/raw_events.h"

namespace foretrain::trace_import {

// Reads the nodes of one file.
//
//   compute         kernels; those with is_cpu_op are ops of the host
//   collectives, sends, receives  kernels, with their kind, group (pg_name) and ends
//   memory loads, stores          copies to and from the device
//   metadata        lists the members of the process groups
//
// Times are start_ns and duration_ns if the nodes have them (our exports), else start and duration
// in microseconds. If no node has a start, nodes are scheduled: each starts once those that it
// depends on have ended and its resource is free, the first that is ready first. The host, compute,
// collectives, sends, receives and copies are one resource each. Calls of other ranks are not
// waited for, and calls are not matched across ranks then; a note says so.
//
// The rank is the number before ".et" in the file's name, if there is one.
//
// Errors: kCorruptInput, no execution trace, or a damaged node (with the byte);
// kResourceExhausted, more than 2^24 nodes or a node above 64 MiB; kAborted. A file that ends too
// early is read as far as it is whole, and a note says so. O(n log n).
Result<RankEvents> ReadChakraTrace(ByteSource& bytes, std::string_view path,
                                   const std::function<bool()>& go_on);

// True if a file may begin with GlobalMetadata: a length, then a version of digits and dots or an
// attribute with a name of small letters.
bool LooksLikeChakra(std::string_view first_bytes);

}  // namespace foretrain::trace_import
