// The plans of a space in closed form, by several threads: the fastest and the front of time and
// memory. Leaves out simulation (search.cc).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "sim/cost/cost_model.h"
#include "sim/search/evaluator.h"
#include "sim/search/space.h"

namespace foretrain {

struct Candidate {
  Plan plan;
  Evaluation estimate;
};

// What fits is kept; what does not, counted.
struct EnumerateOptions {
  std::int64_t memory_bytes = 0;  // of a device
  std::int64_t host_bytes = 0;    // that one rank has off its device; 0: unknown
  std::size_t kept = 64;          // fastest plans to keep
  bool front = true;              // keep the front; without it slower plans are not looked at
  // Which plans the front is of, by no field that MayBeFree; empty: all.
  std::function<bool(const Plan&)> may_be_on_front;
  bool smallest = true;  // where nothing fits, find the smallest plan
  int threads = 1;
  std::function<bool()> cancelled;
  std::function<void(double share, std::int64_t evaluated)> progress;
};

// A candidate that takes this many times as long as the fastest is of no use for its memory.
inline constexpr double kSlowFront = 2.0;

struct Enumeration {
  std::int64_t evaluated = 0;
  Rejections rejected;
  std::vector<Candidate> fastest;  // by step_s; of equals the one that is visited first
  // Of those that may be on it: fastest first, each smaller than all before and than all of
  // `fastest` that are faster.
  std::vector<Candidate> front;
  // Of those that do not fit; where state alone is too much for all, by that.
  std::optional<Candidate> smallest;
  double bound_s = 0;  // least of those that fit
};

// The plans of `space` that use `ranks` ranks. A coarse space within it is walked first: what its
// best plans reach ends the evaluation of others whose bound is worse, in all parts alike. Plans
// are dropped for being slow once options.kept faster ones are known.
//
// Errors: kAborted. The result does not depend on the number of threads.
Result<Enumeration> EnumeratePlans(const ModelSpec& model, const CostModel& costs,
                                   const SearchSpace& space, int ranks,
                                   const EnumerateOptions& options);

}  // namespace foretrain
