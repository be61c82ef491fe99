#include "sim/program/blocks/pieces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/program/blocks/blocks.h"
#include "tests/sim/models.h"
#include "tests/sim/program/draft.h"
#include "tests/sim/program/virtual_clock.h"

namespace foretrain {
namespace {

using testing::ElementsAre;

Plan TensorParallel(int tp) {
  Plan plan;
  plan.tp = tp;
  plan.sequence = 8;
  plan.micro_batch = 1;
  plan.global_batch = 8;
  return plan;
}

Block Layer(const Plan& plan, Pass pass) {
  const ModelSpec model = SmallGpt();
  return BuildBlock({model, plan}, {BlockKind::kLayer, pass, false});
}

std::vector<std::string> FirstOps(const Block& block) {
  std::vector<std::string> names;
  for (const int begin : PieceBegins(block)) {
    names.push_back(block.ops[static_cast<std::size_t>(begin)].name);
  }
  return names;
}

TEST(Pieces, BeginWhereComputeWaitsForTheSumBeforeIt) {
  EXPECT_THAT(FirstOps(Layer(TensorParallel(2), Pass::kForward)),
              ElementsAre("norm1", "attention.residual", "mlp.residual"));
  EXPECT_THAT(FirstOps(Layer(TensorParallel(2), Pass::kBackward)),
              ElementsAre("mlp.down.input_grad", "norm2.input_grad", "norm1.input_grad"));
  EXPECT_THAT(FirstOps(Layer(TensorParallel(1), Pass::kForward)), ElementsAre("norm1"));
}

// The pieces together have all ops and slots, and tensors that pass between pieces are carried.
TEST(Pieces, TogetherAreTheBlock) {
  const Block block = Layer(TensorParallel(2), Pass::kBackward);
  std::vector<std::string> names;
  for (int piece = 0; piece < 3; ++piece) {
    const BlockPiece cut = CutPiece(block, piece);
    ASSERT_EQ(cut.uses.size(), cut.block.slots.size());
    for (const Op& op : cut.block.ops) {
      names.push_back(op.name);
      for (const Operand& operand : OperandsOf(cut.block, op)) {
        if (operand.slot == kNoSlot) continue;
        EXPECT_LT(operand.slot, static_cast<int>(cut.block.slots.size()));
      }
    }
    for (std::size_t s = 0; s < cut.uses.size(); ++s) {
      const TensorSlot& slot = cut.block.slots[s];
      if (slot.role == SlotRole::kTemporary) {
        EXPECT_FALSE(cut.uses[s].earlier || cut.uses[s].later) << slot.name;
      }
      if (slot.role == SlotRole::kCarried) {
        EXPECT_TRUE(cut.uses[s].earlier || cut.uses[s].later) << slot.name;
        EXPECT_EQ(block.slots[static_cast<std::size_t>(slot.index)].name, slot.name);
      }
    }
  }
  std::vector<std::string> whole;
  for (const Op& op : block.ops) whole.push_back(op.name);
  EXPECT_EQ(names, whole);
}

// Two instructions of three ops: compute 1 s, all-reduce 1 s, compute 1 s. One after the other they
// take 6 s: the second compute of each waits for its all-reduce, and everything behind it too.
// Piece by piece A computes 0-1, B 1-2 during A's all-reduce, A 2-3 during B's all-reduce, B 3-4.
TEST(Pieces, ComputeWhileTheOthersSumRuns) {
  const auto play = [](bool in_turn) {
    Draft draft(1);
    const int a = draft.State(0, 256), b = draft.State(0, 256);
    const auto add = [&](Queue queue, int buffer) {
      const int op = draft.Add(0, queue, {Changes(buffer)});
      draft.OpAt(0, op).duration_s = 1;
    };
    const auto compute = [&](int buffer) { add(Queue::kCompute, buffer); };
    const auto sum = [&](int buffer) { add(Queue::kTp, buffer); };
    compute(a), sum(a);
    if (in_turn) {
      compute(b), sum(b), compute(a);
    } else {
      compute(a), compute(b), sum(b);
    }
    compute(b);
    Link(draft.program);
    return Play(draft.program, 0).end_s;
  };
  EXPECT_DOUBLE_EQ(play(false), 6);
  EXPECT_DOUBLE_EQ(play(true), 4);
}

// The same for a compiled plan: DualPipe's pairs overlap their all-reduces with the other's
// compute.
TEST(Pieces, OfAPairTakeTurns) {
  Plan plan = TensorParallel(2);
  plan.pp = 2;
  plan.schedule = ScheduleKind::kDualPipe;
  const auto program = Compile(SmallGpt(), plan);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  int turns = 0;
  const std::vector<Instruction>& step = program->ranks[0].step;
  for (std::size_t i = 0; i + 1 < step.size(); ++i) {
    const InstructionKey &one = step[i].key, &next = step[i + 1].key;
    turns += one.kind == InstructionKind::kBlock && next.kind == InstructionKind::kBlock &&
             one.part > 0 && one.pass != next.pass;
  }
  EXPECT_GT(turns, 8);
}

}  // namespace
}  // namespace foretrain
