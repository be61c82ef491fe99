// Spans of checkpoints: copying the state while training stands still, and writing it beside the
// next steps. No metric of a step counts their time.
#pragma once

#include <cstdint>
#include <string_view>

#include "traces/timeline.h"

namespace foretrain {

inline constexpr std::string_view kSaveCopyName = "checkpoint copy";
inline constexpr std::string_view kSaveWriteName = "checkpoint write";

// Their ids, which no instruction of a program has. The copy is on the queue of copies from the
// device, the write on that of the disk.
OpId SaveCopyOp();
OpId SaveWriteOp();
bool IsSave(OpId op);

// The span of one rank's copy or write after `step`. Class host: the device does nothing for it.
Span SaveSpan(OpId op, int rank, std::int64_t step, std::int64_t start_ns, std::int64_t end_ns,
              std::int64_t bytes);

}  // namespace foretrain
