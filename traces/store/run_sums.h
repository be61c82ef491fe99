// Sums of a long run's spans, made from its rows and kept with it. Leaves out what they are
// (traces/span_sums.h).
#pragma once

#include "base/result.h"
#include "traces/run.h"
#include "traces/span_sums.h"
#include "traces/store/sqlite.h"

namespace foretrain::store_internal {

// Attaches the sums of the spans of `run` as kSumsAttachment where it has kLeastSummedSpans or
// more, inside the caller's transaction. O(spans). Errors: those of reading and writing.
Result<void> AttachSums(const Database& database, RunId run);

// The sums that are attached to the run where they are whole and of all its spans, else made anew,
// inside the caller's transaction. Errors: kCorruptInput, a span that cannot be; kAborted; kIo.
Result<SpanSums> ReadSums(const Database& database, const RunInfo& info);

}  // namespace foretrain::store_internal
