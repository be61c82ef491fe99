// Sends, receives and collectives whose members do not agree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/program/ir/program.h"
#include "tests/sim/program/draft.h"
#include "tests/sim/program/verify/refusals.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Queue kTp = Queue::kTp;

TEST(VerifyPartners, RefusesAMissingReceive) {
  Program program = Pipeline();
  Erase(program.ranks[1], Find(program.ranks[1], InstructionKind::kRecv, Pass::kForward, 3));
  // The buffer that rank 1's forward reads is then never written: give it state to read.
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
  // The forward reads as many bytes as are received.
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

// Two ranks reduce a small and a large tensor over the group.
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

}  // namespace
}  // namespace foretrain
