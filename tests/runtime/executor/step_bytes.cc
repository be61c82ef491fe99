#include "tests/runtime/executor/step_bytes.h"

#include <gtest/gtest.h>

#include "sim/simulate/simulate.h"
#include "tests/support/bind_counts.h"

namespace foretrain {
namespace {

// All ops take equally long.
ProgramCosts EvenCosts(const Program& program) {
  ProgramCosts costs;
  costs.seconds = {1e-6};
  costs.launch_s = costs.load = costs.error = {0.0};
  costs.measured_threads = {1.0};
  costs.provenance = {Provenance::kMeasured};
  for (const RankProgram& rank : program.ranks) {
    costs.row_of.emplace_back(static_cast<std::size_t>(rank.op_count), 0);
    costs.domain.push_back(rank.rank);
    costs.weight.push_back(1);
  }
  return costs;
}

}  // namespace

StepBytes BytesOf(const Timeline& timeline) {
  StepBytes bytes;
  for (const Span& span : timeline.spans) {
    const bool moves = IsCommunication(span.op_class) || span.op_class == OpClass::kCopy;
    if (span.step == 0 && moves) bytes[{span.rank, span.op}] = span.bytes;
  }
  return bytes;
}

StepBytes PredictedBytes(const Program& program, const std::vector<RoutedCounts>& routing) {
  std::vector<RouterCounts> counts;
  for (const RoutedCounts& routed : routing) {
    if (routed.step != 0) continue;
    counts.push_back({routed.rank, routed.block, routed.micro_batch, routed.router, routed.counts});
  }
  const auto bound = BindCounts(program, counts);
  EXPECT_TRUE(bound.has_value()) << bound.error().message;
  if (!bound.has_value()) return {};
  const auto played = Simulate(*bound, EvenCosts(*bound), {.min_steps = 1, .max_steps = 1});
  EXPECT_TRUE(played.has_value()) << played.error().message;
  return played.has_value() ? BytesOf(played->timeline) : StepBytes{};
}

}  // namespace foretrain
