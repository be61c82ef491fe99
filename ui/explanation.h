// Facts about runs that only their compiled program tells: why they differ, the work of each op,
// and the tensors at the peak. Compiling takes long and needs `app`, which hands in the functions.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/compare/attribution.h"
#include "sim/memory/live_at_peak.h"
#include "traces/kinds.h"
#include "ui/store_access.h"

namespace foretrain {

struct Explanation {
  std::optional<Attribution> attribution{};  // of the steps that are compared
  std::map<OpId, double> flops{};            // of one op, under NameKey of its id
  std::vector<std::string> notes{};          // why something is missing
};

// Makes the explanation of stored runs and measured step `step`; called on a thread of its own.
using ExplainRuns = std::function<Result<Explanation>(const StoreRequest& runs, std::int32_t step)>;

// The tensors of a run's program at its ranks' peaks, in one space; of a memory snapshot its
// allocations by the stack that made them.
struct LiveRanks {
  std::vector<LiveAtPeak> ranks{};
  // [rank of the plan]: the rank among `ranks` that does the same; empty if `ranks` has all.
  std::vector<int> stands_for{};
  bool of_snapshot = false;

  // Null if the rank is unknown.
  const LiveAtPeak* Of(int rank) const;
};

// Compiles the program of stored run `runs.run`; called on a thread of its own.
using FindLive = std::function<Result<LiveRanks>(const StoreRequest& runs, Space space)>;

}  // namespace foretrain
