// Step time, peak memory and what they are made of, of one plan in closed form: a few look-ups and
// sums over the distinct chunks of its pipeline. It composes the blocks, collectives, costs and
// bytes that a compiled program has; no formula for any of them is here. Leaves out waiting that
// the longest way does not see, and fragmentation.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "sim/cost/cost_model.h"
#include "sim/search/block_table.h"
#include "sim/search/chunk_figures.h"
#include "sim/search/least_table.h"
#include "sim/search/pipeline_table.h"
#include "sim/search/plan_family.h"
#include "sim/search/state_table.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

// Of a whole step, in seconds.
struct StepParts {
  double compute_s = 0;        // of the rank that computes longest, all micro-batches
  double communication_s = 0;  // beside it: of tensor, context and expert parallelism, gathers
  double bubble_s = 0;         // what the pipeline adds: filling, draining, uneven stages, sends
  double sums_s = 0;           // of gradients behind the last backward
  double update_s = 0;         // norm, optimizer, gathers of what was updated
};
// Of the fullest rank, in bytes on its device.
struct MemoryParts {
  std::int64_t parameters = 0, gradients = 0, optimizer = 0, other_state = 0;
  std::int64_t activations = 0;  // of micro-batches in flight
  std::int64_t transient = 0;    // of the pass that runs, with copies of parameters
  std::int64_t outside = 0;      // contexts, communicators and the like (device_overhead.h)
};

struct Evaluation {
  double step_s = 0;
  double bound_s =
      0;  // no execution of the plan takes less: PassFigures::held_s, and filling the pipeline
  double least_s = 0;  // nor is step_s less: the busiest rank's passes, and filling the pipeline
  StepParts parts;
  std::int64_t memory_bytes = 0;  // the sum of `memory`
  int fullest_pp = 0;             // pipeline rank that needs it
  MemoryParts memory;
  std::int64_t host_bytes = 0;  // of the rank that has most off its device, without activations
};

// Evaluates plans of one model on one machine. Not safe from several threads: each has its own.
class Evaluator {
 public:
  // `varying`: fields that may differ between the plans that it is asked for. Borrows both.
  Evaluator(const ModelSpec& model, const CostModel& costs, VaryingFields varying);

  // Of a valid plan. What it has seen before takes microseconds: O(ranks of the pipeline); a block,
  // a pipeline or a way of sharing state that is new is worked out first.
  //
  // Memory but for `outside` is near PredictFullestRank's, which follows the whole order of a step,
  // and seldom below it (docs/search.md has the errors): copies of parameters that are made ahead
  // count as if all were the largest, and tensors that arrive early as if all did. Where steps
  // overlap, or buckets are gathered together or left whole, it is that function's own.
  Evaluation Evaluate(const Plan& plan);

  // Evaluate, and what it adds up rank by rank: seconds of each pass of each chunk, with gathers and copies
  // that do not hide beside it, and what follows the last backward.
  struct RankSeconds {
    std::vector<PassSeconds> chunks;
    double sums_s = 0;  // of gradients
    double update_s = 0;
  };
  std::vector<RankSeconds> SecondsOfRanks(const Plan& plan, Evaluation& out);

  // How far an evaluation went: it ends where state alone, then all memory passes `memory_bytes`,
  // then where `hopeless` says so of bound_s, least_s and memory_bytes. What it has not come to is
  // 0; memory_bytes and memory of kState are those of the state and what lies outside.
  enum class Reached { kState, kMemory, kBound, kEnd };
  struct Limits {
    std::int64_t memory_bytes = 0;
    std::function<bool(const Evaluation&)> hopeless;
  };
  Reached Evaluate(const Plan& plan, const Limits& limits, Evaluation& out);

  // The same for all plans of a family at once, of which `plan` is one: figures that none of them
  // goes below. Where it ends before kEnd, so would each of them; kEnd is no more than that some
  // may not. `limits.hopeless` is asked as soon as anything is known: of seconds alone, with
  // memory_bytes 0, of seconds and state, and of all.
  Reached EvaluateLeast(const Plan& plan, const PlanFamily& family, const Limits& limits,
                        Evaluation& out);

  // Forgets the blocks of plans seen before, and with `states` their ways of sharing state: none of
  // either serves plans of another tp and cp, or of another tp.
  void Forget(bool states);

  // Layers of each stage so that none takes longer than it must; empty where the even deal does.
  std::vector<int> BalancedLayers(const Plan& plan);

  std::size_t blocks() const { return blocks_.size(); }
  std::size_t states() const { return states_.size(); }

 private:
  void FindClasses(const Plan& plan, const PipelineForm& pipeline);
  void FindLeastClasses(const Plan& plan, const LeastTable::Blocks& blocks,
                        const PipelineForm& pipeline, bool ends = true);
  void FindBound(const Plan& plan, const PipelineForm& pipeline, Evaluation& out) const;
  void FindTime(const Plan& plan, PipelineForm& pipeline, Evaluation& out);
  std::int64_t OutsideBytes(const Plan& plan);
  void WalkMemory(const Plan& plan, const PipelineForm& pipeline, Evaluation& out) const;
  void FindMemory(const Plan& plan, const PipelineForm& pipeline, Evaluation& out);
  void AddEnds(const Plan& plan, double last_forward_s, double last_backward_s,
               const StateFigures& state, StepParts& parts) const;

  const ModelSpec& model_;
  const CostModel& costs_;
  BlockTimes times_;
  BlockTable blocks_;
  PipelineTable pipelines_;
  StateTable states_;
  ChunkFigures chunks_;
  LeastTable least_;
  std::unordered_map<std::uint64_t, std::int64_t> outside_;  // by how the ranks are split
  // Of the plan at hand, by class and by composition.
  std::vector<ClassFigures> classes_;
  std::vector<bool> known_;
  std::vector<PassSeconds> seconds_;
  std::vector<const StateFigures*> of_composition_;
};

}  // namespace foretrain
