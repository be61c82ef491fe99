// Overlap of prefetched gathers, with forced durations.
#include <gtest/gtest.h>

#include "sim/simulate/simulate.h"
#include "tests/sim/models.h"

namespace foretrain {
namespace {

// The first op that reads a parameter, which waits for the gather. The loss's gradient reads none.
std::int32_t FirstReader(const Block& block) {
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    const Op& op = block.ops[i];
    for (int j = 0; j < op.operand_count; ++j) {
      const auto slot = block.operands[static_cast<std::size_t>(op.first_operand + j)].slot;
      if (slot == kNoSlot) continue;
      if (block.slots[static_cast<std::size_t>(slot)].role == SlotRole::kParameter) {
        return static_cast<std::int32_t>(i);
      }
    }
  }
  return 0;
}

// In the order in which blocks use parameters, they take 2 s and 0.5 s alternately. The backward of
// the embedding uses none and takes 1 s. Each gather takes 1 s.
double StepSeconds(const Program& program) {
  ProgramCosts costs;
  costs.seconds = {0.0, 0.5, 1.0, 2.0};
  for (std::size_t row = 0; row < costs.seconds.size(); ++row) {
    costs.launch_s.push_back(0);
    costs.load.push_back(0);
    costs.measured_threads.push_back(1);
    costs.provenance.push_back(Provenance::kMeasured);
    costs.error.push_back(0);
  }
  for (const RankProgram& rank : program.ranks) {
    std::vector<std::int32_t> rows(static_cast<std::size_t>(rank.op_count), 0);
    int use = 0;
    for (const Instruction& instruction : rank.step) {
      const InstructionKey& key = instruction.key;
      const Block& block = program.blocks[static_cast<std::size_t>(instruction.block)];
      std::int32_t& row = rows[static_cast<std::size_t>(instruction.first_op + FirstReader(block))];
      if (key.kind == InstructionKind::kAllGather) row = 2;
      if (key.kind != InstructionKind::kBlock) continue;
      const bool reads = key.block != 0 || key.pass == Pass::kForward;
      row = !reads ? 2 : use++ % 2 == 0 ? 3 : 1;
    }
    EXPECT_EQ(use, 11);  // six blocks forward, five backward
    costs.row_of.push_back(rows);
    costs.domain.push_back(rank.rank);
    costs.weight.push_back(1);
  }
  const auto simulation = Simulate(program, costs, {.min_steps = 1, .max_steps = 1});
  EXPECT_TRUE(simulation.has_value()) << simulation.error().message;
  return simulation.has_value() ? simulation->first_step_s : 0.0;
}

// 6 uses of 2 s, 5 of 0.5 s and 1 s for the embedding's backward: 15.5 s of compute. The first
// gather is always exposed.
//
//   depth 0  each of the 11 gathers comes before its use: 15.5 + 11 = 26.5
//   depth 1  a gather overlaps the use before its own: 2 s hide it, 0.5 s hide half of it, 5 times:
//            15.5 + 1 + 5 * 0.5 = 19
//   depth 2  a gather may start with the use before the last. Of two in a row, one starts with the
//            long use and the next when that ends, 2.5 s before it is needed: 15.5 + 1 = 16.5
TEST(Prefetch, HidesWhatTheUsesBetweenHaveTimeFor) {
  ModelSpec model = SmallGpt();
  model.tied_embeddings = false;
  Plan plan;
  plan.dp = 2;
  plan.sequence = 8;
  plan.micro_batch = 1;
  plan.global_batch = 2;
  plan.zero_stage = 3;
  const double expected[] = {26.5, 19.0, 16.5, 16.5};
  for (int depth = 0; depth < 4; ++depth) {
    plan.prefetch_depth = depth;
    const auto program = Compile(model, plan);
    ASSERT_TRUE(program.has_value()) << program.error().message;
    EXPECT_NEAR(StepSeconds(*program), expected[depth], 1e-6) << "depth " << depth;
  }
}

}  // namespace
}  // namespace foretrain
