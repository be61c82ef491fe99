// What names in other programs' traces stand for, by the table op_patterns.csv. Leaves out where in
// a trace a name stands.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/kinds.h"

namespace foretrain::trace_import {

enum class NamePlace { kKernel, kOp, kGroup };

struct NameMeaning {
  OpClass op_class = OpClass::kMemoryBound;
  std::optional<InstructionKind> kind{};  // of communication
  Pass pass = Pass::kNone;
};

// What an annotation says of all that runs in it.
struct RangeMeaning {
  Pass pass = Pass::kNone;
  std::optional<int> step{}, layer{}, micro_batch{};
  int step_row = 0;  // of several kinds of ranges that count steps, the lowest ones are meant
};

class OpTable {
 public:
  OpTable();  // the embedded one

  // The first row that fits, or nothing: groups have rows for some names alone. O(rows * name).
  std::optional<NameMeaning> Find(NamePlace place, std::string_view name) const;
  RangeMeaning FindRange(std::string_view name) const;

 private:
  enum class Mark { kNone, kStep, kLayer, kMicroBatch };
  struct Row {
    std::string text;
    NameMeaning meaning;
    Mark mark = Mark::kNone;
  };
  std::array<std::vector<Row>, 3> rows_;  // by place
  std::vector<Row> ranges_;
};

// The number behind `mark` in `name`, at most one character between: "ProfilerStep#12" gives 12.
// Nothing for more than nine digits.
std::optional<int> NumberBehind(std::string_view name, std::string_view mark);

// The queue on which an op of such a meaning is shown.
Queue QueueOf(const NameMeaning& meaning);

}  // namespace foretrain::trace_import
