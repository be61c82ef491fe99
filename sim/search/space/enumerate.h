// Enumerates the plans of a space in closed form on several threads: the fastest plans and the
// front of time and memory. Simulation is in search.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "sim/cost/cost_model.h"
#include "sim/search/evaluate/evaluator.h"
#include "sim/search/space/space.h"

namespace foretrain {

struct Candidate {
  Plan plan;
  Evaluation estimate;
};

// Limits of the machine, and which plans to keep.
struct EnumerateOptions {
  std::int64_t memory_bytes = 0;  // of a device; plans above it are counted and dropped
  std::int64_t host_bytes = 0;    // of one rank's share of host memory; 0 if unknown
  std::size_t kept = 64;          // number of fastest plans to keep, at most 16 of one layout
  bool front = true;              // keep the front; without it slower plans need no evaluation
  // Which plans may be on the front, decided by fields for which MayBeFree is false; empty: all.
  std::function<bool(const Plan&)> may_be_on_front;
  bool smallest = true;  // if nothing fits, find the smallest plan
  int threads = 1;
  std::function<bool()> cancelled;
  std::function<void(double share, std::int64_t evaluated)> progress;
};

// A plan that takes this many times as long as the fastest is not shown for its memory.
inline constexpr double kSlowFront = 2.0;

struct Enumeration {
  std::int64_t evaluated = 0;
  Rejections rejected;
  std::vector<Candidate> fastest;  // by step_s; among equals the one visited first
  // Plans that may be on the front: fastest first, each smaller than all before it and than all
  // faster plans of `fastest`.
  std::vector<Candidate> front;
  // Smallest plan that does not fit; if no plan's full memory is known, the one with the smallest
  // state. `nullopt` if no plan exceeds the device.
  std::optional<Candidate> smallest;
  double bound_s = 0;  // minimum lower bound of the plans that fit
};

// Enumerates the plans of `space` that use `ranks` ranks. A coarse space within it is walked first;
// its best plans end the evaluation of plans with worse bounds in all parts. Plans are dropped as
// slow only once options.kept faster ones are known.
//
// Errors: kAborted if cancelled; kResourceExhausted if a thread fails. The result does not depend
// on options.threads.
Result<Enumeration> EnumeratePlans(const ModelSpec& model, const CostModel& costs,
                                   const SearchSpace& space, int ranks,
                                   const EnumerateOptions& options);

}  // namespace foretrain
