// One step of an imported run as its plan is read from: the compute of each rank in order, and its
// communication.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "traces/import/traced_communication.h"
#include "traces/timeline.h"

namespace foretrain {

struct TracedCompute {
  std::int64_t start_ns = 0;
  const std::string* name = nullptr;  // borrowed from the timeline; null: unknown
  OpClass op_class = OpClass::kMemoryBound;
  Pass pass = Pass::kNone;
  int micro_batch = -1;  // -1: unknown
};

struct TracedRankStep {
  int rank = 0;
  std::vector<TracedCompute> compute{};  // by start; without updates
  std::vector<TracedCall> calls{};       // by start
};

struct TracedStep {
  int world = 1;
  std::vector<TracedRankStep> ranks{};     // those with compute, ascending
  std::vector<TracedGroup> groups{};       // of the run
  std::array<bool, kOpClassCount> seen{};  // classes of any span of the step
  bool has_passes = false;  // whether nearly all compute is forward, backward or recomputation

  // Sends of pipeline parallelism by (from, to), of ranks whose trace names the ends.
  std::map<std::pair<int, int>, std::int64_t> transfers{};
};

TracedStep StepToRead(const Timeline& timeline, const TracedCommunication& communication);

// A loss, a norm or a flag. Unknown bytes are none.
constexpr bool IsScalar(const TracedCall& call) { return call.bytes > 0 && call.bytes <= 64; }

constexpr bool IsBackward(Pass pass) {
  return pass == Pass::kBackward || pass == Pass::kBackwardInput || pass == Pass::kBackwardWeight;
}

}  // namespace foretrain
