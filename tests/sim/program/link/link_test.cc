#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "sim/program/ir/program.h"
#include "tests/sim/program/draft.h"
#include "tests/support/opaque.h"

namespace foretrain {
namespace {

using testing::ElementsAre;

constexpr Queue kCompute = Queue::kCompute;
constexpr Queue kTp = Queue::kTp;
constexpr Queue kGather = Queue::kGather;

std::string LinkedEdges(Draft& draft) {
  Link(draft.program);
  const auto verified = Verify(draft.program);
  EXPECT_TRUE(verified.has_value()) << verified.error().message;
  return EdgeText(draft.Rank(0));
}

std::vector<std::int64_t> LinkedOffsets(Draft& draft, int rank = 0) {
  Link(draft.program);
  const auto verified = Verify(draft.program);
  EXPECT_TRUE(verified.has_value()) << verified.error().message;
  std::vector<std::int64_t> offsets;
  for (const Buffer& buffer : draft.Rank(rank).buffers) offsets.push_back(buffer.offset);
  return offsets;
}

TEST(LinkEdges, LeadFromAWriterToItsReaderOnAnotherQueue) {
  Draft draft(1);
  const int a = draft.Temporary(0, 64);
  const int b = draft.Temporary(0, 64);
  draft.Add(0, kCompute, {Writes(a)});       // 0
  draft.Add(0, kTp, {Reads(a), Writes(b)});  // 1
  draft.Add(0, kCompute, {Reads(b)});        // 2
  // The next step's op 0 writes a, which op 1 read; it follows op 2 on its queue, which waited for
  // op 1. The next op 1 writes b, which op 2 read; it waits for the next op 0, behind op 2.
  EXPECT_EQ(LinkedEdges(draft), "0>1 1>2");
}

TEST(LinkEdges, AreNotMadeOnOneQueue) {
  Draft draft(1);
  const int a = draft.Temporary(0, 64);
  draft.Add(0, kTp, {Writes(a)});
  draft.Add(0, kTp, {Changes(a)});
  draft.Add(0, kTp, {Reads(a)});
  EXPECT_EQ(LinkedEdges(draft), "");
}

TEST(LinkEdges, LeadFromAReaderToTheNextWriterAndBackIntoTheNextStep) {
  Draft draft(1);
  const int state = draft.State(0, 64);
  draft.Add(0, kCompute, {Reads(state)});  // 0
  draft.Add(0, kGather, {Writes(state)});  // 1: write after read; the next step reads what it wrote
  EXPECT_EQ(LinkedEdges(draft), "1'>0 0>1");
}

TEST(LinkEdges, LeadFromAWriterToTheNextWriter) {
  Draft draft(1);
  const int state = draft.State(0, 64);
  draft.Add(0, kCompute, {Writes(state)});
  draft.Add(0, kGather, {Writes(state)});
  EXPECT_EQ(LinkedEdges(draft), "1'>0 0>1");
}

TEST(LinkEdges, LeadFromAllReadersOnOtherQueuesToTheNextWriter) {
  Draft draft(1);
  const int state = draft.State(0, 64);
  draft.Add(0, kTp, {Reads(state)});        // 0
  draft.Add(0, kGather, {Reads(state)});    // 1
  draft.Add(0, kGather, {Reads(state)});    // 2: stands for the earlier one on its queue
  draft.Add(0, kCompute, {Writes(state)});  // 3
  // The next step: each reader's queue waits for the writer once.
  EXPECT_EQ(LinkedEdges(draft), "3'>0 3'>1 0>3 2>3");
}

TEST(LinkEdges, LeaveOutWhatOthersImply) {
  Draft draft(1);
  const int a = draft.Temporary(0, 64);
  const int b = draft.Temporary(0, 64);
  draft.Add(0, kCompute, {Writes(a)});          // 0
  draft.Add(0, kTp, {Reads(a), Writes(b)});     // 1
  draft.Add(0, kGather, {Reads(a), Reads(b)});  // 2: 1 -> 2 says 0 -> 2
  // The next step's op 0 writes a, read by ops 1 and 2: 2 -> 0 says 1 -> 0.
  EXPECT_EQ(LinkedEdges(draft), "2'>0 0>1 1>2");
}

TEST(LinkEdges, LookAtBytesNotAtBuffers) {
  Draft draft(1);
  const int state = draft.State(0, 1024);
  draft.Add(0, kCompute, {Writes(state, 0, 512)});  // 0
  draft.Add(0, kTp, {Reads(state, 512, 512)});      // 1: other bytes
  draft.Add(0, kGather, {Reads(state, 508, 8)});    // 2: 4 bytes of each
  EXPECT_EQ(LinkedEdges(draft), "2'>0 0>2");
}

TEST(LinkEdges, FollowWritersOfPartsToAReaderOfTheWhole) {
  Draft draft(1);
  const int a = draft.Temporary(0, 1024);
  draft.Add(0, kCompute, {Writes(a, 0, 512)});  // 0
  draft.Add(0, kTp, {Writes(a, 512, 512)});     // 1
  draft.Add(0, kGather, {Reads(a)});            // 2
  EXPECT_EQ(LinkedEdges(draft), "2'>0 2'>1 0>2 1>2");
}

TEST(LinkEdges, MakeAnInstructionWaitForAllOpsOfTheOneItComesAfter) {
  Draft draft(1);
  const int a = draft.State(0, 64);
  const int b = draft.State(0, 64);
  const int c = draft.State(0, 64);
  draft.Add(0, kCompute, {Writes(a)});  // 0
  draft.Add(0, kTp, {Writes(b)});       // 1
  draft.Add(0, kGather, {Writes(c)});   // 2
  draft.After(0, 0);
  EXPECT_EQ(LinkedEdges(draft), "0>2");
}

TEST(LinkEdges, OrderNewUsersOfMemoryBehindOldOnes) {
  Draft draft(1);
  const int a = draft.Temporary(0, 256);
  const int b = draft.Temporary(0, 256);
  draft.Add(0, kCompute, {Writes(a)});  // 0
  draft.Add(0, kCompute, {Reads(a)});   // 1: a's memory is free behind it
  draft.Add(0, kGather, {Writes(b)});   // 2: takes it
  draft.Add(0, kGather, {Reads(b)});    // 3
  EXPECT_EQ(LinkedEdges(draft), "3'>0 1>2");
  EXPECT_EQ(draft.BufferAt(0, a).offset, draft.BufferAt(0, b).offset);
}

// a is read in halves by two queues and dies with op 2, its last op. b takes the first half, which
// op 2 does not touch, and still waits for it. Op 3 shows that `tp` has gone on.
TEST(LinkEdges, OrderNewUsersOfMemoryBehindAllUsersOfPartsOfTheOld) {
  Draft draft(1);
  const int a = draft.Temporary(0, 512);
  const int b = draft.Temporary(0, 256);
  const int state = draft.State(0, 64);
  draft.Add(0, kCompute, {Writes(a)});         // 0
  draft.Add(0, kCompute, {Reads(a, 0, 256)});  // 1
  draft.Add(0, kTp, {Reads(a, 256, 256)});     // 2: waits for 1, as a writer of all of a would
  draft.Add(0, kTp, {Reads(state)});           // 3
  draft.Add(0, kGather, {Writes(b)});          // 4
  EXPECT_EQ(LinkedEdges(draft), "4'>0 1>2 2>4");
  EXPECT_EQ(draft.BufferAt(0, a).offset, draft.BufferAt(0, b).offset);
}

// x lies at 256 and y behind it; b takes the memory of both. Its first op writes where only x lay,
// and waits for the reader of y too.
TEST(LinkEdges, OrderTheFirstUserOfAPartBehindAllUsersOfTheOld) {
  Draft draft(1);
  const int x = draft.Temporary(0, 256);
  const int y = draft.Temporary(0, 256);
  const int b = draft.Temporary(0, 512);
  const int state = draft.State(0, 64);
  draft.Add(0, kCompute, {Writes(x)});            // 0
  draft.Add(0, kCompute, {Writes(y)});            // 1
  draft.Add(0, kTp, {Reads(y)});                  // 2
  draft.Add(0, kCompute, {Reads(x)});             // 3
  draft.Add(0, kTp, {Reads(state)});              // 4
  draft.Add(0, kCompute, {Writes(b, 0, 256)});    // 5
  draft.Add(0, kCompute, {Writes(b, 256, 256)});  // 6
  EXPECT_EQ(LinkedEdges(draft), "1>2 2>5");
  EXPECT_EQ(draft.BufferAt(0, x).offset, draft.BufferAt(0, b).offset);
}

// a 768, keep1 1792, b 2048, keep2 2560, top 2816. Behind op 1, 768-1792 and 2048-2560 are free.
Draft TwoHoles() {
  Draft draft(1);
  const int a = draft.Temporary(0, 1000);   // 1024 with alignment
  const int keep1 = draft.Temporary(0, 1);  // 256; keeps a and b apart
  const int b = draft.Temporary(0, 300);    // 512
  const int keep2 = draft.Temporary(0, 1);
  const int state = draft.State(0, 600);                                         // 768, at 0
  draft.Add(0, kCompute, {Writes(a), Writes(keep1), Writes(b), Writes(keep2)});  // 0
  draft.Add(0, kCompute, {Reads(a), Reads(b), Changes(state)});                  // 1
  return draft;
}

TEST(LinkLayout, PutsStateFirstAndReusesTheSmallestRangeThatHoldsABuffer) {
  Draft draft = TwoHoles();
  const int c = draft.Temporary(0, 200);  // 256
  const int d = draft.Temporary(0, 1024);
  draft.Add(0, kCompute, {Writes(c), Writes(d)});                    // 2
  draft.Add(0, kCompute, {Reads(1), Reads(3), Reads(c), Reads(d)});  // 3
  // c takes b's place, so that d finds all of a's.
  EXPECT_THAT(LinkedOffsets(draft), ElementsAre(768, 1792, 2048, 2560, 0, 2048, 768));
  EXPECT_EQ(draft.Rank(0).arena_bytes[0], 2816);
  EXPECT_EQ(draft.BufferAt(0, 0).first_op, 0);
  EXPECT_EQ(draft.BufferAt(0, 0).last_op, 1);
  EXPECT_EQ(draft.BufferAt(0, c).first_op, 2);
  EXPECT_EQ(draft.BufferAt(0, d).last_op, 3);
}

TEST(LinkLayout, ReusesTheLowestRangeWhereThatTakesLess) {
  Draft draft = TwoHoles();
  const int c = draft.Temporary(0, 200);  // 256
  const int d = draft.Temporary(0, 512);
  const int e = draft.Temporary(0, 2000);                   // 2048
  draft.Add(0, kCompute, {Writes(c), Writes(d)});           // 2
  draft.Add(0, kCompute, {Reads(3), Reads(1)});             // 3
  draft.Add(0, kCompute, {Writes(e), Reads(c), Reads(d)});  // 4
  // Best fit: c 2048, d 768; what is free at the end is keep2's place and b's rest, 2304-2816, and
  // e grows it to 4352. First fit: c 768, d 1024; free at the end is all from 1536 on, and e grows
  // it to 3584.
  EXPECT_THAT(LinkedOffsets(draft), ElementsAre(768, 1792, 2048, 2560, 0, 768, 1024, 1536));
  EXPECT_EQ(draft.Rank(0).arena_bytes[0], 3584);
}

TEST(LinkLayout, KeepsInputsOfAnOpApartFromItsOutputs) {
  Draft draft(1);
  const int a = draft.Temporary(0, 256);
  const int b = draft.Temporary(0, 256);
  const int c = draft.Temporary(0, 256);
  draft.Add(0, kCompute, {Writes(a)});
  draft.Add(0, kCompute, {Reads(a), Writes(b)});  // a ends where b begins: both live through it
  draft.Add(0, kCompute, {Reads(b), Writes(c)});  // c takes a's place
  EXPECT_THAT(LinkedOffsets(draft), ElementsAre(0, 256, 0));
  EXPECT_EQ(draft.Rank(0).arena_bytes[0], 512);
}

TEST(LinkLayout, HasAnArenaForEachSpace) {
  Draft draft(1);
  const int device = draft.State(0, 100);
  const int host = draft.State(0, 3000, Space::kHost);
  const int pinned = draft.Temporary(0, 500, Space::kPinned);
  draft.Add(0, kCompute, {Changes(device), Changes(host), Writes(pinned)});
  EXPECT_THAT(LinkedOffsets(draft), ElementsAre(0, 0, 0));
  // Pinned memory comes in pages.
  EXPECT_THAT(draft.Rank(0).arena_bytes, ElementsAre(256, 4096, 3072, 0));
}

TEST(LinkLayout, GivesNoPlaceToWhatNobodyTouches) {
  Draft draft(1);
  draft.Temporary(0, 4096);
  const int used = draft.Temporary(0, 256);
  draft.Add(0, kCompute, {Writes(used)});
  EXPECT_THAT(LinkedOffsets(draft), ElementsAre(-1, 0));
  EXPECT_EQ(draft.Rank(0).arena_bytes[0], 256);
}

TEST(LinkLayout, LeavesOutAbsentOperands) {
  Draft draft(1);
  const int a = draft.State(0, 256);
  draft.Add(0, kCompute, {Writes(a)});
  draft.Add(0, kTp, {Writes(a, 0, 0)});
  EXPECT_EQ(LinkedEdges(draft), "");
}

// Rank 0 creates four tensors and sends each.
TEST(LinkLayout, DoesNotMakeComputeWaitForTheSendJustIssued) {
  Draft draft(2);
  for (int i = 0; i < 4; ++i) {
    const int sent = draft.Temporary(0, 256);
    draft.Add(0, kCompute, {Writes(sent)});
    draft.Send(0, true, Reads(sent));
    draft.Recv(1, true, Writes(draft.State(1, 256)));
  }
  // Memory of tensor i is free again once send i + 1 is issued: for tensor i + 2.
  EXPECT_THAT(LinkedOffsets(draft), ElementsAre(0, 256, 0, 256));
  // Ops: make 0, send 1, make 2, send 3, make 4, send 5, ... Tensor 2 waits for the send of tensor
  // 0, and so on; the next step's first one waits for that of the last but one.
  EXPECT_EQ(EdgeText(draft.Rank(0)), "5'>0 0>1 7'>2 2>3 1>4 4>5 3>6 6>7");
}

TEST(LinkLayout, LetsAReceiveOverlapTheComputeBeforeIt) {
  Draft draft(2);
  for (int i = 0; i < 4; ++i) {
    draft.Send(0, true, Reads(draft.State(0, 256)));
    const int received = draft.Temporary(1, 256);
    draft.Recv(1, true, Writes(received));      // op 2 i
    draft.Add(1, kCompute, {Reads(received)});  // op 2 i + 1
  }
  // Receive i may fill the memory that compute i - 2 has read, not that of compute i - 1 right
  // before it.
  EXPECT_THAT(LinkedOffsets(draft, 1), ElementsAre(0, 256, 0, 256));
  EXPECT_EQ(EdgeText(draft.Rank(1)), "5'>0 0>1 7'>2 2>3 1>4 4>5 3>6 6>7");
}

// Rank 0 sends a, then makes b, which the all-reduce takes. Rank 1 receives a only after the
// all-reduce. With b in a's place, b waits for the send, the send for the receive, the receive for
// the all-reduce, and the all-reduce for b.
TEST(LinkLayout, SharesLessWhereWaitsForMemoryCloseACircle) {
  Draft draft(2);
  const int a = draft.Temporary(0, 256);
  const int b = draft.Temporary(0, 256);
  draft.Add(0, kCompute, {Writes(a)});
  draft.Send(0, true, Reads(a));
  draft.Send(0, true, Reads(draft.State(0, 256)));  // a's memory is free behind it
  draft.Add(0, kCompute, {Writes(b)});
  draft.AllReduce(0, kTp, Changes(b));
  const int summed = draft.State(1, 256);
  const int guarded = draft.State(1, 256);
  draft.AllReduce(1, kTp, Changes(summed));
  draft.Add(1, kCompute, {Reads(summed), Changes(guarded)});
  draft.Recv(1, true, Writes(guarded));
  draft.Recv(1, true, Writes(draft.State(1, 256)));
  // b lies next to a, behind the state.
  EXPECT_THAT(LinkedOffsets(draft), ElementsAre(256, 512, 0));
  EXPECT_EQ(draft.Rank(0).arena_bytes[0], 768);
  // If rank 1 receives first and reduces then, there is no cycle, and b takes a's place.
  draft.Rank(1).step[1].key = draft.Rank(1).step[2].key;
  std::swap(draft.Rank(1).step[0], draft.Rank(1).step[2]);
  std::swap(draft.Rank(1).step[1], draft.Rank(1).step[3]);
  draft.Rank(1).step[3].key = {InstructionKind::kOptimizerStep, Pass::kNone, 0, 1, 0};
  EXPECT_THAT(LinkedOffsets(draft), ElementsAre(256, 256, 0));
}

TEST(Link, IsIdempotent) {
  Program once = OpaquePipeline(ScheduleKind::kZbH1, {4, 6}, {1, 1, 1}, true);
  Program twice = once;
  Link(twice);
  EXPECT_EQ(once.hash, twice.hash);
  for (std::size_t r = 0; r < once.ranks.size(); ++r) {
    EXPECT_EQ(EdgeText(once.ranks[r]), EdgeText(twice.ranks[r]));
    EXPECT_EQ(once.ranks[r].arena_bytes, twice.ranks[r].arena_bytes);
  }
}

TEST(ProgramHash, ChangesWithInstructionsBlocksBindingsAndLayout) {
  const Program program = OpaquePipeline(ScheduleKind::k1f1b, {2, 4}, {1, 1, 1}, false);
  const auto hash_with = [&program](auto change) {
    Program changed = program;
    change(changed);
    Link(changed);
    return changed.hash;
  };
  EXPECT_EQ(hash_with([](Program&) {}), program.hash);
  EXPECT_NE(hash_with([](Program& p) { p.ranks[0].step[0].key.micro_batch = 9; }), program.hash);
  EXPECT_NE(hash_with([](Program& p) { p.blocks[0].ops[0].duration_s = 2; }), program.hash);
  EXPECT_NE(hash_with([](Program& p) { p.blocks[0].ops[0].name = "other"; }), program.hash);
  EXPECT_NE(hash_with([](Program& p) { p.ranks[1].buffers[0].bytes = 8; }), program.hash);
  EXPECT_NE(hash_with([](Program& p) { p.ranks[1].bindings[0].bytes = 8; }), program.hash);
  EXPECT_NE(hash_with([](Program& p) { p.groups[0].push_back(7); }), program.hash);
}

TEST(ProgramHash, DoesNotDependOnTheNumbersOfBlocks) {
  Program program = OpaquePipeline(ScheduleKind::k1f1b, {2, 4}, {1, 1, 1}, false);
  const std::uint64_t hash = program.hash;
  std::swap(program.blocks[0], program.blocks[1]);
  for (RankProgram& rank : program.ranks) {
    for (Instruction& i : rank.step) i.block = i.block < 2 ? 1 - i.block : i.block;
  }
  Link(program);
  EXPECT_EQ(program.hash, hash);
}

TEST(ProgramHash, IsThatOfTheRepresentatives) {
  Program program = OpaquePipeline(ScheduleKind::k1f1b, {2, 4}, {1, 1, 1}, false);
  Program two = program;
  two.ranks[1].dp = 1;  // another replica
  Link(two);
  Program one = program;
  one.ranks.pop_back();
  Link(one);
  EXPECT_EQ(one.hash, two.hash);
  EXPECT_NE(one.hash, program.hash);
}

}  // namespace
}  // namespace foretrain
