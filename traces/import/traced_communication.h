// The process groups that a run's traces state, and the communication of each. The store does not
// keep them: an import reads the plan from them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/kinds.h"

namespace foretrain {

struct TracedGroup {
  OpClass op_class = OpClass::kDpComm;  // by its description; by its kernels if that says nothing
  bool described = false;               // whether the description says the class
  std::string description{};            // e.g. TENSOR_MODEL_PARALLEL_GROUP
  std::vector<int> ranks{};             // empty: unknown
  std::int64_t size = 0;                // members; 0: unknown
};

struct TracedCall {
  std::int32_t group = 0;  // index in groups
  std::int32_t step = 0;
  std::int64_t start_ns = 0;  // on the run's clock
  std::int64_t bytes = 0;     // this rank's input; 0: unknown
  std::int16_t rank = 0;
  std::int16_t peer = -1;  // of a send or receive; -1: unknown, or a collective
  InstructionKind kind = InstructionKind::kBlock;  // kBlock: none that has a name
};

struct TracedCommunication {
  std::vector<TracedGroup> groups{};
  std::vector<TracedCall> calls{};  // by rank, then time
};

}  // namespace foretrain
