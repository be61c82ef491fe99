// The ops of a step by time, grouped by name, as `analyze` lists them. Leaves out comparing them
// with a forecast (report.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/timeline.h"

namespace foretrain {

class JsonWriter;

// Ops of one name, in all layers and micro-batches of a step.
struct OpGroup {
  std::string name;
  OpClass op_class = OpClass::kMemoryBound;
  std::int64_t count = 0;  // over all ranks
  double busy_s = 0;       // mean over the ranks of the step, waiting for peers included
};

// The groups of `step`, longest first. The timeline must be sorted. O(n log n) in the step's spans.
std::vector<OpGroup> LongestOps(const Timeline& timeline, int step);

// The longest groups and the sum of the others, as shares of a step of `step_s`; "" without ops.
std::string LongestOpsText(const std::vector<OpGroup>& ops, double step_s);

// The key `ops` into the open object.
void WriteLongestOps(JsonWriter& json, const std::vector<OpGroup>& ops);

}  // namespace foretrain
