// Tells from the traces of a run how it was trained: degrees of parallelism, ZeRO stage,
// micro-batches, schedule, recomputation. Every answer has its evidence. Where evidence is missing
// or contradicts itself, nothing is told. Leaves out the model and the machine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "traces/import/traced_communication.h"
#include "traces/timeline.h"

namespace foretrain {

struct InferredField {
  std::string name{};      // as a plan's field: "tp"; "micro_batches" is none
  std::string value{};     // empty: not told
  std::string evidence{};  // one sentence: what the value rests on, or why it is not told
};

struct InferredPlan {
  // dp, tp, pp, cp, ep, zero_stage, schedule, vpp, micro_batches, recompute, in this order.
  std::vector<InferredField> fields{};

  // The value of a field; empty: not told.
  std::string_view Value(std::string_view name) const;
  // "--dp 2 --tp 4 --global-batch 16": options of `predict` that give the plan as far as it is
  // told.
  std::string Options() const;
};

// Reads one whole step of an imported run, the last but one if there are three or more.
//
//   timeline       sorted; ops have passes where the trace tells them
//   communication  of the same run; empty: the trace names no process group
//
// O(spans).
InferredPlan InferPlan(const Timeline& timeline, const TracedCommunication& communication);

}  // namespace foretrain
