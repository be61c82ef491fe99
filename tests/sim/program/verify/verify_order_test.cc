// Accesses that nothing orders, and cycles of waits.
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

// Rank 1 reduces the tensor that it receives; rank 0 reduces first and sends then. With a run-ahead
// of one op the send is not issued before the end of the all-reduce, which waits for rank 1. With
// two it is issued in time.
TEST(VerifyProgress, RefusesARunAheadThatIsTooSmall) {
  Draft draft(2);
  draft.AllReduce(0, kTp, Changes(draft.State(0, 256)));
  draft.Send(0, true, Reads(draft.State(0, 256)));
  const int in = draft.Temporary(1, 256);
  draft.Recv(1, true, Writes(in));
  draft.AllReduce(1, kTp, Changes(in));
  Link(draft.program);
  EXPECT_EQ(Refusal(draft.program, 2), "accepted");
  EXPECT_THAT(Refusal(draft.program, 1), AllOf(HasSubstr("deadlock with a run-ahead of 1 ops:"),
                                               HasSubstr("is not issued before the end of")));
}

// The host reads the reduced value before it issues the send that rank 1's part of the all-reduce
// waits for.
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
