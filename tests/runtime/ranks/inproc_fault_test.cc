// Calls on which ranks of one process disagree, and ranks that do not arrive.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/runtime/ranks/inproc_ranks.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

TEST(Inproc, RefusesUnequalAllToAllOfWhichMembersDisagree) {
  RealClock clock;
  InprocRanks world(2, clock);
  RunRanks(clock, 2, [&](int rank) {
    const std::vector<float> in(8);
    std::vector<float> out(8);
    const std::vector<std::int64_t> sent = {1, 2}, come = {1, rank == 1 ? 3 : 2};
    CommCall call = MakeCall(OpKind::kAllToAllV, 4, in.data(), out.data(), rank);
    call.in_parts = sent.data();
    call.out_parts = come.data();
    const auto done = world.Open(rank).Call(call, {});
    ASSERT_FALSE(done.has_value());
    EXPECT_THAT(done.error().message,
                HasSubstr("rank 0 sends 2 elements, of which rank 1 awaits 1"));
  });
}

// Each way in which rank 1's call can differ, and the text that the message must contain.
struct Difference {
  const char* says;
  void (*change)(CommCall&);
};

class InprocMismatch : public testing::TestWithParam<Difference> {};

TEST_P(InprocMismatch, FailsOnEveryRankAndNamesBothSides) {
  VirtualClock clock;
  InprocRanks world(4, clock);
  std::vector<float> data(64, 1.0F);
  std::vector<Error> errors(4);
  RunRanks(clock, 4, [&](int rank) {
    std::vector<float> in(64, 1.0F), out(64, -1.0F);
    CommCall call = MakeCall(OpKind::kAllReduce, 32, in.data(), out.data(), rank);
    if (rank == 1) GetParam().change(call);
    auto result = world.Open(rank).Call(call, {});
    ASSERT_FALSE(result.has_value());
    errors[static_cast<std::size_t>(rank)] = result.error();
    EXPECT_EQ(out, std::vector<float>(64, -1.0F)) << "wrote before the check";
  });
  for (const Error& error : errors) {
    EXPECT_EQ(error.code, ErrorCode::kIo);
    EXPECT_EQ(error.message, errors[0].message);
  }
  EXPECT_THAT(errors[0].message, HasSubstr("call #0"));
  EXPECT_THAT(errors[0].message, HasSubstr("rank 0 calls all_reduce grads.bucket2 of 32 f32"));
  EXPECT_THAT(errors[0].message, HasSubstr("rank 1 calls "));
  EXPECT_THAT(errors[0].message, HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Each, InprocMismatch,
    testing::Values(Difference{"rank 1 calls reduce_scatter",
                               [](CommCall& call) { call.kind = OpKind::kReduceScatter; }},
                    Difference{"of 31 f32", [](CommCall& call) { call.elements = 31; }},
                    Difference{"of 32 bf16", [](CommCall& call) { call.dtype = FT_BF16; }},
                    Difference{"accumulated", [](CommCall& call) { call.accumulate = true; }},
                    Difference{"bucket 5",
                               [](CommCall& call) {
                                 call.tag = 1;
                                 call.site.op =
                                     PackId({.kind = InstructionKind::kAllReduce, .part = 5}, 0);
                               }}),
    [](const auto& test) { return "Case" + std::to_string(test.index); });

TEST(Inproc, RefusesAShardThatLiesAcrossItsPlace) {
  VirtualClock clock;
  InprocRanks world(2, clock);
  RunRanks(clock, 2, [&](int rank) {
    std::vector<float> in(64, 1.0F);
    // Rank 1's shard is [32, 64); it asks for [16, 48).
    float* const out = in.data() + (rank == 1 ? 16 : 0);
    auto result =
        world.Open(rank).Call(MakeCall(OpKind::kReduceScatter, 64, in.data(), out, rank), {});
    ASSERT_FALSE(result.has_value());
    EXPECT_THAT(result.error().message, HasSubstr("rank 1"));
    EXPECT_THAT(result.error().message, HasSubstr("lies elsewhere"));
  });
}

TEST(Inproc, NamesWhoDidNotArriveAndWhatItDidLast) {
  VirtualClock clock;
  InprocRanks world(4, clock);
  const OpId last = PackId({InstructionKind::kBlock, Pass::kForward, 3, 5, 0}, 2);
  std::vector<Error> errors(4);
  RunRanks(clock, 4, [&](int rank) {
    if (rank == 3) {
      world.flight.Begin(3, {last, clock.Now(), 7, Queue::kCompute, FlightPhase::kRunning});
      return;
    }
    float data = 1.0F;
    auto result = world.Open(rank).Call(MakeCall(OpKind::kAllReduce, 1, &data, &data, rank), {});
    ASSERT_FALSE(result.has_value());
    errors[static_cast<std::size_t>(rank)] = result.error();
    world.control.Fail(rank, result.error());
  });
  EXPECT_EQ(clock.Now(), 2 * kSecond);
  ASSERT_TRUE(world.control.FirstError().has_value());
  EXPECT_EQ(world.control.FirstError()->code, ErrorCode::kTimeout);
  const std::string message = world.control.FirstError()->message;
  EXPECT_THAT(message, HasSubstr("all_reduce #0 grads.bucket2"));
  EXPECT_THAT(message, HasSubstr("(step 7)"));
  EXPECT_THAT(message, HasSubstr("rank 3 did not arrive, its last op was " + Describe(last)));
  EXPECT_THAT(message, testing::Not(HasSubstr("rank 2 did not")));
}

TEST(Inproc, ReturnsAbortedAtOnceWhenAnotherRankFails) {
  RealClock clock;
  InprocRanks world(4, clock, 600 * kSecond);
  std::atomic<int> aborted{0};
  RunRanks(clock, 4, [&](int rank) {
    if (rank == 2) {
      world.control.Fail(2, {ErrorCode::kIo, "the disk of rank 2 is gone"});
      return;
    }
    float data = 1.0F;
    auto result = world.Open(rank).Call(MakeCall(OpKind::kAllReduce, 1, &data, &data, rank), {});
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::kAborted);
    EXPECT_THAT(result.error().message, HasSubstr("rank 2 failed: the disk of rank 2 is gone"));
    ++aborted;
  });
  EXPECT_EQ(aborted.load(), 3);
}

TEST(Inproc, HandsOnTheDevicesOwnError) {
  VirtualClock clock;
  InprocRanks world(1, clock);
  Mock().Reset();
  Mock().fail_at = 0;
  float data = 1.0F;
  RunRanks(clock, 1, [&](int) {
    auto result = world.Open(0).Call(MakeCall(OpKind::kAllReduce, 1, &data, &data, 0), {});
    ASSERT_FALSE(result.has_value());
    EXPECT_THAT(result.error().message, HasSubstr("the mock was told to fail"));
  });
  Mock().Reset();
}

TEST(Inproc, RefusesRanksOutsideTheGroup) {
  VirtualClock clock;
  InprocRanks world(3, clock);
  auto opened = world.world.Rank(2).Open({0, 1}, GroupKind::kTp, Queue::kTp, OpKind::kAllReduce);
  ASSERT_FALSE(opened.has_value());
  EXPECT_THAT(opened.error().message, HasSubstr("rank 2 is not a member"));
  auto wide =
      world.world.Rank(2).Open({0, 1, 2}, GroupKind::kNext, Queue::kSendNext, OpKind::kSend);
  EXPECT_FALSE(wide.has_value());
}

}  // namespace
}  // namespace foretrain
