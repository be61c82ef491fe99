// Learning a device profile from the kernels of a run on the command line: one rank's or node's
// trace gives the times of its ops, with which other plans on more ranks are forecast. Leaves out
// how points are made: sim/learn/traced_points.h.
#pragma once

#include <string>

#include "app/forecast/learning.h"
#include "sim/compare/structure/pair_by_structure.h"

namespace foretrain {

struct KernelLearning {
  std::string run{};  // "trace.db: run 1"
  std::string plan{};
  std::string origin{},
      path{};                // of the rates that the profile began with, and where it was written
  int ranks = 0;             // that were traced
  int timed = 0, fused = 0;  // points: with a measured time, and of ops without a kernel
  std::int64_t samples = 0;
  bool collectives = false;                          // whether these have points too
  std::optional<StructuralPairs> pairs{};            // of an imported run
  double measured_s = 0, before_s = 0, after_s = 0;  // step time, and its forecasts
};

// Takes the times of compute ops, and of collectives if the run has them without waits for peers,
// from the run that `request.runs` names, and writes the profile with them to `request.out`.
// Kernels of an imported run are paired by structure with the forecast of the plan that the options
// name.
//
// Errors: those of LearnFromMeasurements; kInvalidArgument without `out`, for several runs or logs,
// for a run without kernels, or whose kernels have no counterparts in the forecast; kUnsupported on
// a CPU with several ranks, which share its cores.
Result<KernelLearning> LearnFromKernels(const LearnRequest& request);

// For people, and as JSON.
std::string KernelLearningText(const KernelLearning& learned);
std::string KernelLearningJson(const KernelLearning& learned);

}  // namespace foretrain
