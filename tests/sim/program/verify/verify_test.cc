// Passes that are missing or out of order, memory that is read before it is written or used twice,
// and inconsistent tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/program/ir/program.h"
#include "tests/sim/program/draft.h"
#include "tests/sim/program/verify/refusals.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Queue kCompute = Queue::kCompute;
constexpr Queue kTp = Queue::kTp;

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

// Block 1 of one rank, with the passes in the order of the step.
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

// Two ranks: fewer than 128 bytes after the last one written may be padding.
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
