// Step time, peak memory and their parts for one plan, in closed form: look-ups and sums over the
// distinct chunks of its pipeline. Blocks, collectives, costs and bytes are those of a compiled
// program; this adds no formula of its own. Leaves out waits that are not on the longest path, and
// fragmentation.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/cost/cost_model.h"
#include "sim/search/evaluate/block_table.h"
#include "sim/search/evaluate/bound_table.h"
#include "sim/search/evaluate/chunk_costs.h"
#include "sim/search/evaluate/pipeline_table.h"
#include "sim/search/evaluate/plan_family.h"
#include "sim/search/evaluate/state_table.h"

namespace foretrain {

// Parts of a step's seconds. They sum to step_s.
struct StepParts {
  double compute_s = 0;        // all micro-batches, on the rank that computes longest
  double communication_s = 0;  // exposed: tp, cp and ep, gathers of parameters
  double bubble_s = 0;         // added by the pipeline: fill, drain, uneven stages, sends
  double sums_s = 0;           // gradient reduction after the last backward
  double update_s = 0;         // norm, optimizer, gathers of updated parameters
};
// Bytes on the device of the fullest rank.
struct MemoryParts {
  std::int64_t parameters = 0, gradients = 0, optimizer = 0, other_state = 0;
  std::int64_t activations = 0;  // micro-batches in flight
  std::int64_t transient = 0;    // the running pass, and gathered parameters
  std::int64_t outside = 0;      // contexts, communicators and the like (device_overhead.h)
};

struct Evaluation {
  double step_s = 0;
  // Lower bound on any execution of the plan: held_s of the busiest rank, and pipeline fill.
  double bound_s = 0;
  // Lower bound on step_s: spans of the busiest rank's passes, and pipeline fill.
  double min_s = 0;
  StepParts parts;
  std::int64_t memory_bytes = 0;  // the sum of `memory`
  int fullest_pp = 0;             // pipeline rank of `memory`
  MemoryParts memory;
  std::int64_t host_bytes = 0;  // max over ranks of state on the host; activations not counted
};

// Evaluates plans of one model on one machine. Not safe from several threads: each has its own.
class Evaluator {
 public:
  // `varying`: fields that may differ between the plans to evaluate. Borrows `model` and `costs`.
  Evaluator(const ModelSpec& model, const CostModel& costs, VaryingFields varying);

  // `plan` must be valid. O(ranks of the pipeline), microseconds, if blocks, pipeline and state are
  // known from earlier plans. Otherwise those are computed first.
  //
  // Memory except `outside` is close to PredictFullestRank's, which follows the whole order of a
  // step, and seldom below it (docs/search.md lists the errors). It counts each prefetched copy of
  // parameters as the largest, and early boundary tensors as if all were there. If steps overlap,
  // or buckets are gathered together or stay unsharded, it calls the exact function.
  Evaluation Evaluate(const Plan& plan);

  // Seconds of one rank: passes by chunk, with the gathers and copies that are not overlapped, and
  // the end of the step.
  struct RankSeconds {
    std::vector<PassSeconds> chunks;
    double sums_s = 0;    // as in StepParts
    double update_s = 0;  // as in StepParts
  };
  // Evaluates into `out` and returns the seconds of each pipeline rank.
  std::vector<RankSeconds> SecondsOfRanks(const Plan& plan, Evaluation& out);

  // How far an evaluation went. kState: state alone exceeds `memory_bytes`; only state and outside
  // bytes are set. kMemory: all memory exceeds it. kBound: `hopeless` is true for bound_s, min_s
  // and memory_bytes. kEnd: complete. Values that were not reached are 0.
  enum class Reached { kState, kMemory, kBound, kEnd };
  struct Limits {
    std::int64_t memory_bytes = 0;
    std::function<bool(const Evaluation&)> hopeless;
  };
  Reached Evaluate(const Plan& plan, const Limits& limits, Evaluation& out);

  // Lower bounds for all plans of a family, of which `plan` is one. If it ends before kEnd, so
  // would each plan; kEnd means that some plan may be worth evaluating. `limits.hopeless` is asked
  // for seconds alone (memory_bytes is 0), then for seconds and state, then for everything.
  Reached EvaluateBound(const Plan& plan, const PlanFamily& family, const Limits& limits,
                        Evaluation& out);

  // Drops cached blocks (valid for one tp and cp only) and, if `states`, cached state (valid for
  // one tp only).
  void Forget(bool states);

  // Layers per stage that minimize the time of the slowest stage; empty if the even split does.
  std::vector<int> BalancedLayers(const Plan& plan);

 private:
  void FindClasses(const Plan& plan, const PipelineForm& pipeline);
  void FindBoundClasses(const Plan& plan, const BoundTable::Blocks& blocks,
                        const PipelineForm& pipeline, bool ends = true);
  void FindBound(const Plan& plan, const PipelineForm& pipeline, Evaluation& out) const;
  void FindTime(const Plan& plan, PipelineForm& pipeline, Evaluation& out);
  std::int64_t OutsideBytes(const Plan& plan);
  void WalkMemory(const Plan& plan, const PipelineForm& pipeline, Evaluation& out) const;
  void FindMemory(const Plan& plan, const PipelineForm& pipeline, Evaluation& out);
  void AddEnds(const Plan& plan, double last_forward_s, double last_backward_s,
               const UpdateCosts& costs, StepParts& parts);

  const ModelSpec& model_;
  const CostModel& costs_;
  BlockTimes times_;
  BlockTable blocks_;
  PipelineTable pipelines_;
  StateTable states_;
  ChunkCosts chunks_;
  BoundTable least_;
  std::unordered_map<std::uint64_t, std::int64_t> outside_;  // by parallel sizes
  // Scratch for the current plan: three by class of chunk, the last by composition of ranks.
  std::vector<ClassCosts> classes_;
  std::vector<bool> known_;
  std::vector<PassSeconds> seconds_;
  std::vector<const StateCosts*> of_composition_;
  std::vector<const UpdateCosts*> updates_;  // by composition; filled by FindTime
};

}  // namespace foretrain
