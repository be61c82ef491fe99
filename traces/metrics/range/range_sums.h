// Sums the spans in a part of a timeline, as rows of a table by op, class or rank. `analyze --by`
// and the desktop's panel show the same table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/table.h"
#include "traces/metrics/classes.h"
#include "traces/timeline.h"

namespace foretrain {

enum class SumBy : std::uint8_t { kOp, kClass, kRank };
inline constexpr int kSumByCount = 3;
std::string_view Name(SumBy by);  // "op", "class", "rank"

// A part of a run's own time, [start_ns, end_ns), on all ranks or on one.
struct SummedRange {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::optional<int> rank{};
};

struct RangeSum {
  std::string name{};                        // "mlp.up forward", "gemm", "3"
  OpClass op_class = OpClass::kMemoryBound;  // not of ranks
  int rank = -1;                             // of ranks only
  std::int64_t spans = 0;
  std::int64_t busy_ns = 0;  // lengths of the spans inside the range; overlaps count twice
  std::int64_t bytes = 0;    // moved by spans that begin inside the range
  ClassTimes classes{};      // of ranks only: exclusive, they sum to the range
};

struct RangeSums {
  SumBy by = SumBy::kOp;
  SummedRange range{};
  int ranks = 0;                 // with spans in the range
  std::vector<RangeSum> rows{};  // longest first; ranks in their order
  RangeSum total{};              // sum of the rows
};

// Spans that overlap `range` count with the part inside. Ops that do the same in every layer and
// micro-batch share a row; launches on the host are rows of their own. `timeline` must be sorted.
// O(n log n) in the spans of the ranks.
RangeSums SumRange(const Timeline& timeline, SumBy by, const SummedRange& range);

// The rows as texts, and their sum as the last row. Shares are of the range times the number of
// ranks. Titles are those of Table: ">" aligns to the right.
struct RangeTexts {
  std::vector<std::string> titles{};
  std::vector<std::vector<std::string>> rows{};  // each as long as the titles
};
RangeTexts TextsOf(const RangeSums& sums);

// All rows and, below a line, their sum.
Table TableOf(const RangeSums& sums);

// "1.2 ms to 1.9 ms of step 3, 4 ranks", for a step that starts at `step_start_ns`.
std::string Describe(const RangeSums& sums, std::int32_t step, std::int64_t step_start_ns);

// The part of a step that "1.2ms..1.9ms" names, in the run's own time: times count from
// `step_start_ns`, and either may be left out ("..1.9ms"), which takes the step's own bound. Empty
// text is the whole step.
//
//   what  names the option in messages
//
// Errors: kInvalidArgument: not two times, a time that no clock reaches, an end that is not after
// its start.
Result<SummedRange> ParseRange(std::string_view what, std::string_view text,
                               std::int64_t step_start_ns, std::int64_t step_end_ns);

// The text that ParseRange reads back to the same nanoseconds. The range must not start before the
// step.
std::string RangeText(const SummedRange& range, std::int64_t step_start_ns);

}  // namespace foretrain
