// Maps names in other programs' traces to op classes, passes and steps, by the table
// op_patterns.csv.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "traces/kinds.h"

namespace foretrain::trace_import {

enum class NamePlace { kCollective, kKernel, kOp, kGroup };

struct NameMeaning {
  OpClass op_class = OpClass::kMemoryBound;
  std::optional<InstructionKind> kind{};  // for communication only
  Pass pass = Pass::kNone;
};

// Facts that an annotation states about everything inside it.
struct RangeMeaning {
  Pass pass = Pass::kNone;
  std::optional<int> step{}, layer{}, micro_batch{};
  // row of the table; if several kinds of ranges count steps, the lowest row is used
  int step_row = 0;
};

class OpTable {
 public:
  OpTable();  // reads the embedded table

  // The same with the rows of `text` before it. Errors: kInvalidArgument, naming `source` and the
  // line: not four cells, or a value that is none.
  static Result<OpTable> With(std::string_view text, const std::string& source);

  // The first row that fits; `nullopt` if none does (kCollective and kGroup list some names only).
  // O(rows * name).
  std::optional<NameMeaning> Find(NamePlace place, std::string_view name) const;
  RangeMeaning FindRange(std::string_view name) const;

 private:
  enum class Mark { kNone, kStep, kLayer, kMicroBatch };
  struct Row {
    std::string text;
    NameMeaning meaning;
    Mark mark = Mark::kNone;
  };
  struct Empty {};
  explicit OpTable(Empty) {}
  static Result<Row> ReadRow(std::span<const std::string_view> cells);
  Result<void> Add(std::string_view text, const std::string& source);

  std::array<std::vector<Row>, 4> rows_;  // by place
  std::vector<Row> ranges_;
};

// The number that follows `mark` in `name`, with at most one character between: "ProfilerStep#12"
// gives 12. `nullopt` if there is none or it has more than nine digits.
std::optional<int> NumberBehind(std::string_view name, std::string_view mark);

// The queue on which an op of that meaning is shown.
Queue QueueOf(const NameMeaning& meaning);

}  // namespace foretrain::trace_import
