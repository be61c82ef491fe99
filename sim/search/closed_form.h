// Step time of a plan without compiling it: composes block times over the schedule. Ranks plans
// before the best of them are simulated; leaves out waiting between stages of different lengths,
// hosts that run ahead and contention that changes during the step.
#pragma once

#include <functional>

#include "sim/program/op.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

// Seconds of one op on the plan's machine with its ranks at work.
using OpSeconds = std::function<double(const Op&)>;

struct StepEstimate {
  double step_s = 0;
  double bound_s = 0;  // no execution of the plan takes less: the busiest rank's compute alone
};

// What a system does beside the program's order.
struct SystemHabits {
  double op_s = 0;              // to issue one op: no block is shorter than its ops take
  bool blocking_sends = false;  // sends and receives between stages are waited for
  bool scatter_gather = false;  // each tensor-parallel rank sends a part, the whole is gathered
  // Compute takes this many times as long while gathers and sums run beside it.
  double overlap_slowdown = 1.0;
};

// Closed form of a valid plan of a valid model. Blocks: list schedule of a block's ops over its
// queues in issue order. Pipeline: 1F1B and GPipe sum(F + B) + (m - 1) max(F + B) over stages,
// others their makespan with the slowest stage. Gradients: what is left of their sums after the
// last backward; ZeRO-3: a gather hides behind one block. Then norm and optimizer.
//
// O(stages * blocks of a stage); safe from any thread.
StepEstimate EstimateStep(const ModelSpec& model, const Plan& plan, const OpSeconds& seconds,
                          const SystemHabits& habits = {});

}  // namespace foretrain
