// Accesses that nothing orders, and circles of waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/program/program.h"
#include "tests/sim/program/draft.h"
#include "tests/sim/program/refusals.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Queue kCompute = Queue::kCompute;
constexpr Queue kTp = Queue::kTp;

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

}  // namespace
}  // namespace foretrain
