// Sums of a long run's spans (traces/span_sums.h): computed from its rows and stored with it.
#pragma once

#include "base/result.h"
#include "traces/run.h"
#include "traces/span_sums.h"
#include "traces/store/sqlite.h"

namespace foretrain::store_internal {

// Attaches the sums as kSumsAttachment if `run` has kMinSummedSpans or more, inside the caller's
// transaction. O(spans). Errors: those of reading and writing.
Result<void> AttachSums(const Database& database, RunId run);

// The stored sums if they are intact and complete, else newly computed ones, inside the caller's
// transaction. Errors: kCorruptInput, an impossible span; kAborted; kIo.
Result<SpanSums> ReadSums(const Database& database, const RunInfo& info);

}  // namespace foretrain::store_internal
