// The table of `analyze --by`: the spans in a part of a step, summed by op, class or rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "traces/metrics/range/range_sums.h"
#include "traces/store.h"

namespace foretrain {

class JsonWriter;

// The part of a step of a stored run, as options name it.
struct AskedRange {
  SumBy by = SumBy::kOp;
  std::optional<std::int32_t> step{};  // default: the one with the median time, a forecast's last
  std::string window{};                // "1.2ms..1.9ms" after the start of the step; empty: all
  std::optional<int> rank{};           // default: all
};

struct ReportedRange {
  RunInfo run{};
  std::int32_t step = 0;
  std::int64_t step_start_ns = 0;
  RangeSums sums{};
};

// Reads only the part of run `id` that is asked for. Errors: those of the store; kInvalidArgument:
// a step without a window, no such rank, or no such part (ParseRange).
Result<ReportedRange> ReadRange(const StoreReader& reader, RunId id, const AskedRange& asked);

// Heading and table.
std::string TextOf(const ReportedRange& range);
// The keys `by`, `step`, `window`, `ranks`, `rows` and `sum` into the open object.
void Write(JsonWriter& json, const ReportedRange& range);

}  // namespace foretrain
