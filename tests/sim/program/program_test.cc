#include "sim/program/ir/program.h"

#include <gtest/gtest.h>

#include "tests/sim/program/draft.h"
#include "tests/support/opaque.h"

namespace foretrain {
namespace {

TEST(Program, WalksOpsInIssueOrder) {
  const Program program = OpaquePipeline(ScheduleKind::k1f1b, {2, 1}, {1, 2, 3}, true);
  const RankProgram& rank = program.ranks[0];
  // forward, send, recv, backward of two ops.
  const std::vector<OpRef> refs = OpRefs(program, rank);
  ASSERT_EQ(refs.size(), 5U);
  EXPECT_EQ(OpAt(program, rank, refs[0]).name, "forward");
  EXPECT_EQ(OpAt(program, rank, refs[1]).kind, OpKind::kSend);
  EXPECT_EQ(OpAt(program, rank, refs[2]).kind, OpKind::kRecv);
  EXPECT_EQ(OpAt(program, rank, refs[3]).duration_s, 2);
  EXPECT_EQ(OpAt(program, rank, refs[4]).duration_s, 3);
  EXPECT_EQ(refs[4].instruction, 3);
  EXPECT_EQ(refs[4].op, 1);
  EXPECT_EQ(IdOf(rank, refs[4]), PackId({InstructionKind::kBlock, Pass::kBackward, 0, 0, 0}, 1));
}

TEST(Program, FindsTheBindingOfAnOperand) {
  const Program program = OpaquePipeline(ScheduleKind::k1f1b, {2, 1}, {1, 2, 3}, true);
  const RankProgram& rank = program.ranks[0];
  // The first rank's forward has no input; its output is sent.
  EXPECT_EQ(OperandBinding(program, rank, {0, 0}, 0).bytes, 0);
  const Binding y = OperandBinding(program, rank, {0, 0}, 1);
  EXPECT_EQ(y.bytes, kOpaqueUnitBytes);
  EXPECT_EQ(OperandBinding(program, rank, {1, 0}, 0).buffer, y.buffer);
}

TEST(Program, ListsInstructionsAndOpsWithTensorsAndEdges) {
  Draft draft(1);
  const int a = draft.State(0, 256);
  const int b = draft.Temporary(0, 64);
  draft.Add(0, Queue::kCompute, {Changes(a), Writes(b, 16, 32)});
  draft.Add(0, Queue::kTp, {Reads(b, 16, 32)});
  draft.After(0, 0);
  Link(draft.program);
  EXPECT_EQ(Listing(draft.program, 0, false),
            "rank 0 (dp 0, tp 0, pp 0): 2 instructions, 2 ops, device 512 bytes\n"
            "  0 optimizer_step: op0\n"
            "  1 optimizer_step mb 1: op1 after optimizer_step\n");
  EXPECT_EQ(Listing(draft.program, 0, true),
            "rank 0 (dp 0, tp 0, pp 0): 2 instructions, 2 ops, device 512 bytes\n"
            "  0 optimizer_step: op0\n"
            "    0 compute op0 (opaque) <>t0[b0+0:256] >t1[b1+16:32] waits 1'\n"
            "  1 optimizer_step mb 1: op1 after optimizer_step\n"
            "    1 tp op1 (opaque) <t0[b1+16:32] waits 0\n");
}

}  // namespace
}  // namespace foretrain
