// What is known of two runs only where their program can be compiled again, which takes long: why
// they differ and what each op computes. Leaves out making it: whoever opens the store hands in a
// function.
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

// What a run's program holds at the peak of its ranks, in one space.
struct LiveRanks {
  std::vector<LiveAtPeak> ranks{};
  // [rank of the plan]: the one among `ranks` that does what it does; empty where all are there.
  std::vector<int> stands_for{};

  // Null where the rank is not known.
  const LiveAtPeak* Of(int rank) const;
};

// Compiles the program of stored run `runs.run`; called on a thread of its own.
using FindLive = std::function<Result<LiveRanks>(const StoreRequest& runs, Space space)>;

}  // namespace foretrain
