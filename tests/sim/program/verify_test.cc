// Programs made wrong on purpose: each is refused with the pair of ops or the circle that is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/program/opaque.h"
#include "sim/program/program.h"
#include "tests/sim/program/draft.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Queue kCompute = Queue::kCompute;
constexpr Queue kTp = Queue::kTp;
constexpr SlotTimes kUnit{1, 1, 1};

std::string Refusal(const Program& program, int run_ahead_ops = kRunAheadOps) {
  const auto verified = Verify(program, run_ahead_ops);
  if (verified.has_value()) return "accepted";
  EXPECT_EQ(verified.error().code, ErrorCode::kInvalidArgument);
  return verified.error().message;
}

std::string LinkedRefusal(Program& program) {
  Link(program);
  return Refusal(program);
}

Program Pipeline(ScheduleKind schedule = ScheduleKind::k1f1b, int p = 2, int m = 4) {
  return OpaquePipeline(schedule, {p, m}, kUnit, false);
}

std::size_t Find(const RankProgram& rank, InstructionKind kind, Pass pass, int mb) {
  const auto found = std::find_if(rank.step.begin(), rank.step.end(), [&](const Instruction& i) {
    return i.key.kind == kind && i.key.pass == pass && i.key.micro_batch == mb;
  });
  EXPECT_NE(found, rank.step.end());
  return static_cast<std::size_t>(found - rank.step.begin());
}

void Erase(RankProgram& rank, std::size_t instruction) {
  rank.step.erase(rank.step.begin() + static_cast<std::ptrdiff_t>(instruction));
}

void EraseEdge(RankProgram& rank, const std::string& text) {
  const std::size_t before = rank.edges.size();
  std::erase_if(rank.edges, [&](const Edge& edge) {
    RankProgram one;
    one.edges = {edge};
    return EdgeText(one) == text;
  });
  EXPECT_EQ(rank.edges.size() + 1, before);
}

// compute writes a, tp reads it, compute writes it again in the next step.
Draft WriterAndReader() {
  Draft draft(1);
  const int a = draft.State(0, 256);
  draft.Add(0, kCompute, {Writes(a)});  // 0
  draft.Add(0, kTp, {Reads(a)});        // 1
  Link(draft.program);
  EXPECT_EQ(EdgeText(draft.Rank(0)), "1'>0 0>1");
  EXPECT_EQ(Refusal(draft.program), "accepted");
  return draft;
}

TEST(VerifyOrder, RefusesAReadThatDoesNotWaitForItsWrite) {
  Draft draft = WriterAndReader();
  EraseEdge(draft.Rank(0), "0>1");
  EXPECT_EQ(
      Refusal(draft.program),
      "rank 0: optimizer_step mb 1 op 0 (op1) on tp does not wait for rank 0: optimizer_step "
      "op 0 (op0) on compute; both touch bytes 0 + 256 of the device arena (buffer 0), and no "
      "path of edges and queues orders them");
}

TEST(VerifyOrder, RefusesAWriteThatDoesNotWaitForAReadOfTheStepBefore) {
  Draft draft = WriterAndReader();
  EraseEdge(draft.Rank(0), "1'>0");
  EXPECT_THAT(Refusal(draft.program),
              AllOf(HasSubstr("(op0) on compute does not wait for"),
                    HasSubstr("(op1) on tp of the step before; both touch bytes 0 + 256")));
}

TEST(VerifyOrder, RefusesAWriteThatDoesNotWaitForAReadBeforeIt) {
  Draft draft(1);
  const int a = draft.State(0, 256);
  draft.Add(0, kTp, {Reads(a)});
  draft.Add(0, kCompute, {Writes(a)});
  Link(draft.program);
  EraseEdge(draft.Rank(0), "0>1");
  EXPECT_THAT(Refusal(draft.program), AllOf(HasSubstr("(op1) on compute does not wait for"),
                                            HasSubstr("(op0) on tp; both touch")));
}

TEST(VerifyOrder, RefusesAnInstructionThatDoesNotWaitForTheOneItComesAfter) {
  Draft draft(1);
  draft.Add(0, kCompute, {Writes(draft.State(0, 256))});
  draft.Add(0, kTp, {Writes(draft.State(0, 256))});
  Link(draft.program);
  draft.After(0, 0);
  EXPECT_THAT(Refusal(draft.program), AllOf(HasSubstr("(op1) on tp does not wait for"),
                                            HasSubstr("which its instruction comes after")));
}

TEST(VerifyOrder, RefusesAnEdgeFromAnOpThatIsIssuedLater) {
  Draft draft = WriterAndReader();
  draft.Rank(0).edges = {{1, 0, 0}};
  EXPECT_THAT(Refusal(draft.program), HasSubstr("(op1) on tp, which is issued later"));
}

TEST(VerifyProgress, RefusesACircleOfEdgesAndPrintsIt) {
  Draft draft = WriterAndReader();
  draft.Rank(0).edges = {{1, 0, 0}, {0, 1, 0}};
  EXPECT_EQ(Refusal(draft.program),
            "deadlock with a run-ahead of 1024 ops:\n"
            "  rank 0: optimizer_step op 0 (op0) on compute of step 0 waits by an edge for\n"
            "  rank 0: optimizer_step mb 1 op 0 (op1) on tp of step 0 waits by an edge for\n"
            "  the first");
}

// Rank 2 sends F1 down and then receives B0; rank 3 sends B0 up and then receives F1.
TEST(VerifyProgress, RefusesOneQueueForSendsAndReceivesUnder1f1b) {
  Program program = Pipeline(ScheduleKind::k1f1b, 4, 8);
  for (Block& block : program.blocks) {
    for (Op& op : block.ops) {
      if (IsCommunication(op.kind)) op.queue = Queue::kSendNext;
    }
  }
  EXPECT_EQ(
      LinkedRefusal(program),
      "deadlock with a run-ahead of 1024 ops:\n"
      "  rank 2: send forward block 2 mb 1 op 0 (send) on send+1 of step 0 waits for its "
      "partner\n"
      "  rank 3: recv forward block 2 mb 1 op 0 (recv) on send+1 of step 0 is behind, on its "
      "queue,\n"
      "  rank 3: send backward block 3 mb 0 op 0 (send) on send+1 of step 0 waits for its "
      "partner\n"
      "  rank 2: recv backward block 3 mb 0 op 0 (recv) on send+1 of step 0 is behind, on its "
      "queue,\n"
      "  the first");
}

// p = 2, 1F1B. Rank 0: F0, send 0, F1, send 1, receive B0. Rank 1: receive 0, F0, B0, send B0,
// receive 1. One op at a time: send 1 waits for receive 1, which is issued behind send B0, which
// waits for receive B0, which is issued behind send 1. Two at a time: receive B0 beside send 1.
TEST(VerifyProgress, RefusesARunAheadThatIsTooSmall) {
  const Program program = Pipeline();
  EXPECT_EQ(Refusal(program, 2), "accepted");
  EXPECT_EQ(Refusal(program, 1),
            "deadlock with a run-ahead of 1 ops:\n"
            "  rank 0: send forward block 0 mb 1 op 0 (send) on send+1 of step 0 waits for its "
            "partner\n"
            "  rank 1: recv forward block 0 mb 1 op 0 (recv) on recv-1 of step 0 is not issued "
            "before the end of\n"
            "  rank 1: send backward block 1 mb 0 op 0 (send) on send-1 of step 0 waits for its "
            "partner\n"
            "  rank 0: recv backward block 1 mb 0 op 0 (recv) on recv+1 of step 0 is not issued "
            "before the end of\n"
            "  the first");
}

// The host reads the sum before it issues the send that rank 1's part of the sum waits for.
TEST(VerifyProgress, RefusesAHostThatWaitsForWhatItHasYetToIssue) {
  Draft draft(2);
  const int a = draft.State(0, 256);
  draft.AllReduce(0, kTp, Changes(a));
  draft.Add(0, Queue::kHost, {Reads(a)});
  draft.Send(0, true, Reads(draft.State(0, 256)));
  const int b = draft.State(1, 256);
  draft.Recv(1, true, Writes(b));
  draft.AllReduce(1, kTp, Changes(b));
  EXPECT_THAT(LinkedRefusal(draft.program),
              AllOf(HasSubstr("deadlock"), HasSubstr("is not issued while the host waits in")));
}

TEST(VerifyPartners, RefusesAMissingReceive) {
  Program program = Pipeline();
  Erase(program.ranks[1], Find(program.ranks[1], InstructionKind::kRecv, Pass::kForward, 3));
  // What rank 1's forward reads is then never written: give it state to read.
  for (Buffer& buffer : program.ranks[1].buffers) buffer.persistent = true;
  EXPECT_EQ(LinkedRefusal(program),
            "rank 0: send forward block 0 mb 3 op 0 (send) on send+1 has no partner on rank 1, "
            "which has 3 of its kind against 4");
}

TEST(VerifyPartners, RefusesAMissingSend) {
  Program program = Pipeline();
  Erase(program.ranks[1], Find(program.ranks[1], InstructionKind::kSend, Pass::kBackward, 3));
  EXPECT_EQ(LinkedRefusal(program),
            "rank 0: recv backward block 1 mb 3 op 0 (recv) on recv+1 has no partner on rank 1, "
            "which has 3 of its kind against 4");
}

TEST(VerifyPartners, RefusesAReceiveOfAnotherTensor) {
  Program program = Pipeline();
  RankProgram& rank = program.ranks[1];
  std::swap(rank.step[Find(rank, InstructionKind::kRecv, Pass::kForward, 0)].key,
            rank.step[Find(rank, InstructionKind::kRecv, Pass::kForward, 1)].key);
  EXPECT_THAT(LinkedRefusal(program), AllOf(HasSubstr("rank 0: send forward block 0 mb 0"),
                                            HasSubstr("and rank 1: recv forward block 0 mb 1"),
                                            HasSubstr("they move different tensors")));
}

TEST(VerifyPartners, RefusesUnequalBytes) {
  Program program = Pipeline();
  RankProgram& rank = program.ranks[1];
  const std::size_t recv = Find(rank, InstructionKind::kRecv, Pass::kForward, 2);
  const Binding small = {
      rank.bindings[static_cast<std::size_t>(rank.step[recv].first_binding)].buffer, 0, 128};
  // The forward reads as much as is received.
  for (Binding& binding : rank.bindings) {
    if (binding.buffer == small.buffer) binding = small;
  }
  EXPECT_THAT(LinkedRefusal(program), AllOf(HasSubstr("rank 0: send forward block 0 mb 2"),
                                            HasSubstr("and rank 1: recv forward block 0 mb 2"),
                                            HasSubstr("256 bytes against 128")));
}

TEST(VerifyPartners, RefusesSendsOfOneDirectionOnTwoQueues) {
  Draft draft(2);
  for (int i = 0; i < 2; ++i) {
    draft.Send(0, true, Reads(draft.State(0, 256)));
    draft.Recv(1, true, Writes(draft.State(1, 256)));
  }
  draft.OpAt(0, 1).queue = Queue::kTp;
  EXPECT_THAT(LinkedRefusal(draft.program),
              AllOf(HasSubstr("(send) on send+1 and rank 0: "), HasSubstr("(send) on tp: "),
                    HasSubstr("on two queues have no order of their own")));
}

// Two ranks sum a small and a large tensor over the group.
Draft TwoSums() {
  Draft draft(2);
  for (int rank = 0; rank < 2; ++rank) {
    draft.AllReduce(rank, kTp, Changes(draft.State(rank, 256)));
    draft.AllReduce(rank, kTp, Changes(draft.State(rank, 512)));
  }
  Link(draft.program);
  EXPECT_EQ(Refusal(draft.program), "accepted");
  return draft;
}

TEST(VerifyPartners, RefusesCollectivesInAnotherOrderOnOneRank) {
  Draft draft = TwoSums();
  std::swap(draft.Rank(1).step[0], draft.Rank(1).step[1]);
  EXPECT_THAT(LinkedRefusal(draft.program),
              AllOf(HasSubstr("rank 0: all_reduce bucket 0 op 0 (sum) on tp and rank 1: "),
                    HasSubstr("256 bytes against 512")));
}

TEST(VerifyPartners, RefusesAnotherOrderOfCollectivesOfTheSameSize) {
  Draft draft = TwoSums();
  std::swap(draft.Rank(1).step[0].key, draft.Rank(1).step[1].key);
  EXPECT_THAT(LinkedRefusal(draft.program),
              HasSubstr("the members issue their collectives in different order"));
}

TEST(VerifyPartners, RefusesCollectivesOfDifferentKind) {
  Draft draft = TwoSums();
  draft.OpAt(1, 1).kind = OpKind::kReduceScatter;
  EXPECT_THAT(LinkedRefusal(draft.program), HasSubstr("all_reduce against reduce_scatter"));
}

TEST(VerifyPartners, RefusesCollectivesOfDifferentElements) {
  Draft draft = TwoSums();
  draft.OpAt(1, 1).shape.elements = 7;
  EXPECT_THAT(LinkedRefusal(draft.program), HasSubstr("0 elements against 7"));
}

TEST(VerifyPartners, RefusesAMemberThatStaysAway) {
  Draft draft = TwoSums();
  draft.Rank(1).step.pop_back();
  EXPECT_THAT(LinkedRefusal(draft.program),
              AllOf(HasSubstr("rank 0: all_reduce mb 1"), HasSubstr("has no partner on rank 1")));
}

TEST(VerifyPartners, RefusesAGroupWithoutTheRank) {
  Draft draft = TwoSums();
  draft.program.groups.push_back({0});
  draft.Rank(1).groups[static_cast<std::size_t>(GroupKind::kDp)] = 2;
  EXPECT_EQ(LinkedRefusal(draft.program),
            "rank 1: all_reduce bucket 0 op 0 (sum) on tp: the rank is no member of its group dp");
}

TEST(VerifyPartners, RefusesAGroupThatTheRankHasNot) {
  Draft draft = TwoSums();
  draft.OpAt(0, 0).group = GroupKind::kWorld;
  EXPECT_THAT(LinkedRefusal(draft.program), HasSubstr("the rank has no group world"));
}

TEST(VerifyPartners, TakesAbsentMembersToBehaveLikeTheirClass) {
  Draft draft = TwoSums();
  draft.program.ranks.pop_back();
  EXPECT_EQ(LinkedRefusal(draft.program), "accepted");
}

TEST(VerifyPasses, RefusesAForwardThatRunsTwice) {
  Program program = Pipeline();
  RankProgram& rank = program.ranks[0];
  rank.step.push_back(rank.step[Find(rank, InstructionKind::kBlock, Pass::kForward, 2)]);
  EXPECT_THAT(LinkedRefusal(program),
              HasSubstr("rank 0: forward block 0 mb 2 is in the step twice"));
}

TEST(VerifyPasses, RefusesAMissingBackward) {
  Program program = Pipeline(ScheduleKind::kGpipe, 1, 4);
  Erase(program.ranks[0], Find(program.ranks[0], InstructionKind::kBlock, Pass::kBackward, 3));
  EXPECT_EQ(LinkedRefusal(program), "rank 0: block 0 mb 3 has no backward");
}

TEST(VerifyPasses, RefusesAMissingForward) {
  Program program = Pipeline(ScheduleKind::kGpipe, 1, 4);
  Erase(program.ranks[0], Find(program.ranks[0], InstructionKind::kBlock, Pass::kForward, 3));
  EXPECT_EQ(LinkedRefusal(program), "rank 0: block 0 mb 3 has no forward");
}

TEST(VerifyPasses, RefusesAMissingMicroBatch) {
  Program program = Pipeline(ScheduleKind::kGpipe, 1, 4);
  program.plan.global_batch = 5;
  EXPECT_EQ(LinkedRefusal(program), "rank 0: block 0 runs 4 micro-batches of the plan's 5");
}

// Block 1 of one rank: the passes are given in the order of the step.
std::string RefusalOf(const std::vector<Pass>& passes, int block = 1) {
  Draft draft(1);
  const int kept = draft.State(0, 256);
  for (const Pass pass : passes) draft.Block(0, pass, block, 0, {Changes(kept)});
  return LinkedRefusal(draft.program);
}

TEST(VerifyPasses, AcceptsABackwardOrBothHalvesAndARecomputationBefore) {
  EXPECT_EQ(RefusalOf({Pass::kForward, Pass::kBackward}), "accepted");
  EXPECT_EQ(RefusalOf({Pass::kForward, Pass::kRecompute, Pass::kBackward}), "accepted");
  EXPECT_EQ(RefusalOf({Pass::kForward, Pass::kBackwardInput, Pass::kBackwardWeight}), "accepted");
  EXPECT_EQ(RefusalOf({Pass::kForward, Pass::kBackwardWeight}, /*block=*/0), "accepted");
}

TEST(VerifyPasses, RefusesHalvesOutOfOrderOrAlone) {
  EXPECT_EQ(RefusalOf({Pass::kForward, Pass::kBackwardWeight, Pass::kBackwardInput}),
            "rank 0: block 1 mb 0 has its weight half before its input half");
  EXPECT_EQ(RefusalOf({Pass::kForward, Pass::kBackwardWeight}),
            "rank 0: block 1 mb 0 has a weight half and no input half of its backward");
  EXPECT_EQ(RefusalOf({Pass::kForward, Pass::kBackwardInput}),
            "rank 0: block 1 mb 0 has an input half and no weight half of its backward");
  EXPECT_EQ(RefusalOf({Pass::kForward, Pass::kBackward, Pass::kBackwardWeight}),
            "rank 0: block 1 mb 0 has a backward and a half of it");
  EXPECT_EQ(RefusalOf({Pass::kBackward, Pass::kForward}),
            "rank 0: block 1 mb 0 has its backward before its forward");
}

TEST(VerifyPasses, RefusesARecomputationThatIsNotBetweenForwardAndBackward) {
  EXPECT_EQ(RefusalOf({Pass::kForward, Pass::kBackward, Pass::kRecompute}),
            "rank 0: block 1 mb 0 is recomputed after the backward that reads it");
  EXPECT_EQ(RefusalOf({Pass::kRecompute, Pass::kForward, Pass::kBackward}),
            "rank 0: block 1 mb 0 is recomputed before its forward");
}

TEST(VerifyMemory, RefusesAReadOfWhatNothingWrites) {
  Draft draft(1);
  const int a = draft.Temporary(0, 256);
  draft.Add(0, kCompute, {Writes(a, 0, 100)});
  draft.Add(0, kCompute, {Reads(a)});
  EXPECT_THAT(LinkedRefusal(draft.program),
              AllOf(HasSubstr("(op1) on compute reads byte 100 of buffer 0"),
                    HasSubstr("which nothing writes")));
}

TEST(VerifyMemory, RefusesAValueThatLeaksIntoTheNextStep) {
  Draft draft(1);
  const int a = draft.Temporary(0, 256);
  draft.Add(0, kCompute, {Changes(a)});
  EXPECT_THAT(LinkedRefusal(draft.program),
              AllOf(HasSubstr("(op0) on compute reads byte 0 of buffer 0"),
                    HasSubstr("a value leaks from step to step")));
  draft.BufferAt(0, a).persistent = true;
  EXPECT_EQ(LinkedRefusal(draft.program), "accepted");
}

TEST(VerifyMemory, AcceptsWhatPartsHaveWritten) {
  Draft draft(1);
  const int a = draft.Temporary(0, 300);
  draft.Add(0, kCompute, {Writes(a, 200, 100)});
  draft.Add(0, kCompute, {Writes(a, 0, 100)});
  draft.Add(0, kCompute, {Writes(a, 50, 150)});
  draft.Add(0, kCompute, {Reads(a)});
  EXPECT_EQ(LinkedRefusal(draft.program), "accepted");
}

// Two ranks: less than 128 bytes behind the last one written may be padding.
TEST(VerifyMemory, LetsACollectiveCarryThePaddingBehindATensor) {
  const auto refusal = [](std::int64_t written) {
    Draft draft(2);
    for (int rank = 0; rank < 2; ++rank) {
      const int a = draft.Temporary(rank, 512);
      draft.Add(rank, kCompute, {Writes(a, 0, written)});
      draft.AllReduce(rank, kTp, Changes(a));
    }
    return LinkedRefusal(draft.program);
  };
  EXPECT_EQ(refusal(388), "accepted");
  EXPECT_THAT(refusal(384), HasSubstr("reads byte 384 of buffer 0"));
}

Draft TwoTemporaries() {
  Draft draft(1);
  const int a = draft.Temporary(0, 256);
  const int b = draft.Temporary(0, 256);
  draft.Add(0, kCompute, {Writes(a)});
  draft.Add(0, kCompute, {Reads(a), Writes(b)});
  draft.Add(0, kCompute, {Reads(b)});
  Link(draft.program);
  EXPECT_EQ(Refusal(draft.program), "accepted");
  return draft;
}

TEST(VerifyMemory, RefusesBuffersThatOverlapWhileBothLive) {
  Draft draft = TwoTemporaries();
  draft.BufferAt(0, 1).offset = draft.BufferAt(0, 0).offset;
  EXPECT_EQ(Refusal(draft.program),
            "rank 0: buffer 0 (workspace, ops 0 to 1, bytes 0 + 256 of device) and buffer 1 "
            "(workspace, ops 1 to 2, bytes 0 + 256 of device) overlap while both live");
}

TEST(VerifyMemory, RefusesPlacesOutsideTheArenaOrUnaligned) {
  Draft draft = TwoTemporaries();
  draft.BufferAt(0, 1).offset = 512;
  EXPECT_THAT(Refusal(draft.program),
              HasSubstr("not aligned to 256 bytes inside its arena of 512"));
  draft.BufferAt(0, 1).offset = 128;
  EXPECT_THAT(Refusal(draft.program), HasSubstr("not aligned to 256 bytes"));
}

TEST(VerifyMemory, RefusesLivesThatAreNotThoseOfTheAccesses) {
  Draft draft = TwoTemporaries();
  draft.BufferAt(0, 0).last_op = 0;
  EXPECT_THAT(Refusal(draft.program),
              AllOf(HasSubstr("buffer 0"), HasSubstr("is used by ops 0 to 1")));
}

TEST(VerifyStructure, RefusesABindingOutsideItsBuffer) {
  Draft draft = TwoTemporaries();
  draft.Rank(0).bindings[1].offset = 8;
  EXPECT_EQ(Refusal(draft.program),
            "rank 0: optimizer_step mb 1 binds t0 to bytes 8 + 256 of buffer 0, which has 256");
  draft.Rank(0).bindings[1].buffer = 5;
  EXPECT_THAT(Refusal(draft.program), HasSubstr("binds t0 to buffer 5 of 2"));
}

TEST(VerifyStructure, RefusesWhatIsNotInItsTable) {
  const Program good = TwoTemporaries().program;
  const auto refusal = [&good](auto change) {
    Program program = good;
    change(program, program.ranks[0]);
    return Refusal(program);
  };
  EXPECT_THAT(refusal([](Program&, RankProgram& r) { r.step[1].block = 3; }),
              HasSubstr("names block 3 of 3"));
  EXPECT_THAT(refusal([](Program&, RankProgram& r) { r.step[1].first_binding = 3; }),
              HasSubstr("has bindings outside the rank's"));
  EXPECT_THAT(refusal([](Program&, RankProgram& r) { r.step[1].after = 1; }),
              HasSubstr("which is not an earlier one"));
  EXPECT_THAT(refusal([](Program&, RankProgram& r) { r.step[1].key.micro_batch = 1 << 18; }),
              HasSubstr("a key that no id can hold"));
  EXPECT_THAT(refusal([](Program&, RankProgram& r) { r.groups[1] = 9; }),
              HasSubstr("its group tp is number 9 of 1"));
  EXPECT_THAT(refusal([](Program&, RankProgram& r) {
                r.edges = {{0, 3, 0}};
              }),
              HasSubstr("edge 0 -> 3 of distance 0 is not between ops of the step"));
  EXPECT_THAT(refusal([](Program&, RankProgram& r) {
                r.edges = {{0, 1, 2}};
              }),
              HasSubstr("of distance 2 is not between ops of the step"));
  EXPECT_THAT(refusal([](Program&, RankProgram& r) {
                r.edges = {{0, 2, 0}, {0, 1, 0}};
              }),
              HasSubstr("edge 0 -> 1 of distance 0 is out of order"));
  EXPECT_THAT(refusal([](Program& p, RankProgram&) { p.blocks[0].operands[0].slot = 4; }),
              HasSubstr("block op0: an operand names slot 4 of 1"));
  EXPECT_THAT(refusal([](Program& p, RankProgram&) { p.blocks[0].ops[0].operand_count = 2; }),
              HasSubstr("op op0 has operands outside the block's"));
  EXPECT_THAT(refusal([](Program& p, RankProgram&) { p.ranks.push_back(p.ranks[0]); }),
              HasSubstr("ranks are not in ascending order"));
}

TEST(VerifyStructure, RefusesAProgramThatIsNotLinked) {
  Draft draft(1);
  const int a = draft.Temporary(0, 256);
  draft.Add(0, kCompute, {Writes(a)});
  EXPECT_THAT(Refusal(draft.program), HasSubstr("link the program first"));
}

}  // namespace
}  // namespace foretrain
