#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "mock_device.h"
#include "rank_threads.h"
#include "runtime/gate.h"
#include "runtime/inproc/inproc_world.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;

// A world of ranks on one clock, all of them in one group.
struct World {
  explicit World(int count, RunClock& run_clock, std::int64_t timeout_ns = 2 * kSecond)
      : ranks(count),
        clock(run_clock),
        flight(count),
        world(count, MockDeviceApi(), run_clock, control, flight, {timeout_ns, {}}) {
    members.resize(static_cast<std::size_t>(count));
    std::iota(members.begin(), members.end(), 0);
  }

  Communicator& Open(int rank, OpKind kind = OpKind::kAllReduce,
                     GroupKind group = GroupKind::kWorld, Queue queue = Queue::kReduce) {
    auto opened = world.Rank(rank).Open(members, group, queue, kind);
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
    return **opened;
  }

  int ranks;
  RunClock& clock;
  RunControl control;
  FlightRecorder flight;
  InprocWorld world;
  std::vector<int> members;
};

// Inputs whose sum depends on the order of the summands.
std::vector<float> Input(int rank, std::int64_t elements) {
  std::vector<float> values(static_cast<std::size_t>(elements));
  CounterRandom(7, static_cast<std::uint64_t>(rank)).FillNormal(0, 0.0F, 1.0F, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] *= (i + static_cast<std::size_t>(rank)) % 3 == 0 ? 1e4F : 1.0F;
  }
  return values;
}

// The sum in rank order, one fp32 addition at a time: what every member must have to the bit.
std::vector<float> SerialSum(int ranks, std::int64_t elements) {
  std::vector<float> sum(static_cast<std::size_t>(elements), 0.0F);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<float> input = Input(rank, elements);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += input[i];
  }
  return sum;
}

bool SameBits(const float* a, const float* b, std::int64_t elements) {
  return elements == 0 || std::memcmp(a, b, static_cast<std::size_t>(elements) * 4) == 0;
}

CommCall MakeCall(OpKind kind, std::int64_t elements, const void* in, void* out, int rank) {
  CommCall call;
  call.kind = kind;
  call.elements = elements;
  call.in = in;
  call.out = out;
  call.site = {rank, 7, kNoOp, "grads.bucket2"};
  return call;
}

class InprocSizes : public testing::TestWithParam<std::tuple<int, std::int64_t>> {
 protected:
  int Ranks() const { return std::get<0>(GetParam()); }
  std::int64_t Size() const { return std::get<1>(GetParam()); }
};

TEST_P(InprocSizes, AllReduceEqualsTheSerialSumInPlaceAndApart) {
  RealClock clock;
  World world(Ranks(), clock);
  const std::vector<float> expected = SerialSum(Ranks(), Size());
  RunRanks(clock, Ranks(), [&](int rank) {
    Communicator& comm = world.Open(rank);
    std::vector<float> in = Input(rank, Size());
    std::vector<float> out(in.size(), -1.0F);
    auto apart = comm.Call(MakeCall(OpKind::kAllReduce, Size(), in.data(), out.data(), rank), {});
    ASSERT_TRUE(apart.has_value()) << apart.error().message;
    EXPECT_TRUE(SameBits(out.data(), expected.data(), Size()));
    EXPECT_TRUE(SameBits(in.data(), Input(rank, Size()).data(), Size())) << "input written";
    auto in_place = comm.Call(MakeCall(OpKind::kAllReduce, Size(), in.data(), in.data(), rank), {});
    ASSERT_TRUE(in_place.has_value()) << in_place.error().message;
    EXPECT_TRUE(SameBits(in.data(), expected.data(), Size()));
    EXPECT_LE(apart->arrived_ns, apart->started_ns);
    EXPECT_LE(apart->started_ns, apart->ended_ns);
  });
}

TEST_P(InprocSizes, ReduceScatterGivesEachItsShardInPlaceApartAndAdded) {
  RealClock clock;
  World world(Ranks(), clock);
  const std::int64_t whole = Size() * Ranks();
  const std::vector<float> sum = SerialSum(Ranks(), whole);
  RunRanks(clock, Ranks(), [&](int rank) {
    Communicator& comm = world.Open(rank);
    std::vector<float> in = Input(rank, whole);
    std::vector<float> out = Input(100 + rank, Size());
    const float* const expected = sum.data() + Size() * rank;
    CommCall call = MakeCall(OpKind::kReduceScatter, whole, in.data(), out.data(), rank);
    // Accumulated: ((old + in_0) + in_1) + ...
    std::vector<float> added = out;
    for (int other = 0; other < Ranks(); ++other) {
      const std::vector<float> input = Input(other, whole);
      for (std::size_t i = 0; i < added.size(); ++i) {
        added[i] += input[static_cast<std::size_t>(Size() * rank) + i];
      }
    }
    call.accumulate = true;
    ASSERT_TRUE(comm.Call(call, {}).has_value());
    EXPECT_TRUE(SameBits(out.data(), added.data(), Size()));
    call.accumulate = false;
    ASSERT_TRUE(comm.Call(call, {}).has_value());
    EXPECT_TRUE(SameBits(out.data(), expected, Size()));
    call.out = in.data() + Size() * rank;
    ASSERT_TRUE(comm.Call(call, {}).has_value());
    EXPECT_TRUE(SameBits(in.data() + Size() * rank, expected, Size()));
  });
}

TEST_P(InprocSizes, AllGatherPutsShardsInMemberOrderInPlaceAndApart) {
  RealClock clock;
  World world(Ranks(), clock);
  const std::int64_t whole = Size() * Ranks();
  std::vector<float> expected;
  for (int rank = 0; rank < Ranks(); ++rank) {
    const std::vector<float> shard = Input(rank, Size());
    expected.insert(expected.end(), shard.begin(), shard.end());
  }
  RunRanks(clock, Ranks(), [&](int rank) {
    Communicator& comm = world.Open(rank);
    const std::vector<float> in = Input(rank, Size());
    std::vector<float> out(static_cast<std::size_t>(whole), -1.0F);
    ASSERT_TRUE(comm.Call(MakeCall(OpKind::kAllGather, whole, in.data(), out.data(), rank), {})
                    .has_value());
    EXPECT_TRUE(SameBits(out.data(), expected.data(), whole));
    std::vector<float> own(static_cast<std::size_t>(whole), -1.0F);
    float* const place = own.data() + Size() * rank;
    std::copy(in.begin(), in.end(), place);
    ASSERT_TRUE(
        comm.Call(MakeCall(OpKind::kAllGather, whole, place, own.data(), rank), {}).has_value());
    EXPECT_TRUE(SameBits(own.data(), expected.data(), whole));
  });
}

TEST_P(InprocSizes, AllToAllGivesEachItsPartOfEveryMember) {
  RealClock clock;
  World world(Ranks(), clock);
  const std::int64_t whole = Size() * Ranks();
  RunRanks(clock, Ranks(), [&](int rank) {
    const std::vector<float> in = Input(rank, whole);
    std::vector<float> out(static_cast<std::size_t>(whole), -1.0F);
    ASSERT_TRUE(world.Open(rank)
                    .Call(MakeCall(OpKind::kAllToAll, whole, in.data(), out.data(), rank), {})
                    .has_value());
    for (int other = 0; other < Ranks(); ++other) {
      const std::vector<float> theirs = Input(other, whole);
      EXPECT_TRUE(SameBits(out.data() + Size() * other, theirs.data() + Size() * rank, Size()));
    }
  });
}

// Member i has i + 2 j + 1 numbers for member j, which lie behind those for the members before.
TEST_P(InprocSizes, UnequalAllToAllGivesEachItsPartOfEveryMember) {
  const auto part = [](int from, int to) { return from + 2 * to + 1; };
  const auto before = [&](int from, int to) {
    std::int64_t sum = 0;
    for (int other = 0; other < to; ++other) sum += part(from, other);
    return sum;
  };
  RealClock clock;
  World world(Ranks(), clock);
  RunRanks(clock, Ranks(), [&](int rank) {
    std::vector<std::int64_t> sent, come;
    for (int other = 0; other < Ranks(); ++other) {
      sent.push_back(part(rank, other));
      come.push_back(part(other, rank));
    }
    const std::vector<float> in = Input(rank, before(rank, Ranks()));
    std::vector<float> out(
        static_cast<std::size_t>(std::accumulate(come.begin(), come.end(), std::int64_t{0})));
    CommCall call = MakeCall(OpKind::kAllToAllV, Size(), in.data(), out.data(), rank);
    call.in_parts = sent.data();
    call.out_parts = come.data();
    ASSERT_TRUE(world.Open(rank).Call(call, {}).has_value());
    const float* at = out.data();
    for (int other = 0; other < Ranks(); ++other) {
      const std::vector<float> theirs = Input(other, before(other, Ranks()));
      EXPECT_TRUE(SameBits(at, theirs.data() + before(other, rank), part(other, rank)));
      at += part(other, rank);
    }
  });
}

TEST(Inproc, RefusesUnequalAllToAllOfWhichMembersDisagree) {
  RealClock clock;
  World world(2, clock);
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

// After as many turns as there are members each has its own again.
TEST_P(InprocSizes, RotateGivesEachWhatTheMemberBeforeHad) {
  RealClock clock;
  World world(Ranks(), clock);
  RunRanks(clock, Ranks(), [&](int rank) {
    std::vector<float> here = Input(rank, Size());
    for (int turn = 1; turn <= Ranks(); ++turn) {
      std::vector<float> next(here.size(), -1.0F);
      ASSERT_TRUE(world.Open(rank)
                      .Call(MakeCall(OpKind::kRotate, Size(), here.data(), next.data(), rank), {})
                      .has_value());
      const int from = (rank - turn + Ranks()) % Ranks();
      EXPECT_TRUE(SameBits(next.data(), Input(from, Size()).data(), Size()));
      here = next;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(AllRanks, InprocSizes,
                         testing::Combine(testing::Range(1, 9),
                                          testing::Values<std::int64_t>(0, 1, 16, 1009)));
INSTANTIATE_TEST_SUITE_P(Large, InprocSizes,
                         testing::Combine(testing::Values(3),
                                          testing::Values<std::int64_t>((1 << 16) + 1)));

TEST(Inproc, SendsBothWaysBetweenNeighboursWhateverComesFirst) {
  RealClock clock;
  World world(2, clock);
  RunRanks(clock, 2, [&](int rank) {
    const bool lower = rank == 0;
    // Up: send+1 of rank 0 to recv-1 of rank 1. Down: send-1 of rank 1 to recv+1 of rank 0.
    Communicator& up = lower ? world.Open(0, OpKind::kSend, GroupKind::kNext, Queue::kSendNext)
                             : world.Open(1, OpKind::kRecv, GroupKind::kPrev, Queue::kRecvPrev);
    Communicator& down = lower ? world.Open(0, OpKind::kRecv, GroupKind::kNext, Queue::kRecvNext)
                               : world.Open(1, OpKind::kSend, GroupKind::kPrev, Queue::kSendPrev);
    for (int round = 0; round < 20; ++round) {
      std::vector<float> sent = Input(10 * round + rank, 1009);
      std::vector<float> got(1009, -1.0F);
      const auto send = [&](Communicator& comm) {
        return comm.Call(MakeCall(OpKind::kSend, 1009, sent.data(), nullptr, rank), {});
      };
      const auto receive = [&](Communicator& comm) {
        return comm.Call(MakeCall(OpKind::kRecv, 1009, nullptr, got.data(), rank), {});
      };
      ASSERT_TRUE((lower ? send(up) : receive(up)).has_value());
      ASSERT_TRUE((lower ? receive(down) : send(down)).has_value());
      EXPECT_EQ(got, Input(10 * round + 1 - rank, 1009));
    }
  });
}

// Each way in which rank 1's call can differ, and what of it the message must say.
struct Difference {
  const char* says;
  void (*change)(CommCall&);
};

class InprocMismatch : public testing::TestWithParam<Difference> {};

TEST_P(InprocMismatch, FailsOnEveryRankAndNamesBothSides) {
  VirtualClock clock;
  World world(4, clock);
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
  World world(2, clock);
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
  World world(4, clock);
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
  World world(4, clock, 600 * kSecond);
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
  World world(1, clock);
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
  World world(3, clock);
  auto opened = world.world.Rank(2).Open({0, 1}, GroupKind::kTp, Queue::kTp, OpKind::kAllReduce);
  ASSERT_FALSE(opened.has_value());
  EXPECT_THAT(opened.error().message, HasSubstr("rank 2 is not a member"));
  auto wide =
      world.world.Rank(2).Open({0, 1, 2}, GroupKind::kNext, Queue::kSendNext, OpKind::kSend);
  EXPECT_FALSE(wide.has_value());
}

// Many calls of changing kinds and sizes with sleeps in between: the same bits in every order of
// arrival. Ten rounds here; tests/runtime/inproc_slow_test.cc has more.
TEST(Inproc, GivesTheSameBitsWhateverTheTiming) {
  constexpr int kRanks = 4;
  std::vector<std::vector<float>> results;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    VirtualClock clock;
    World world(kRanks, clock, 600 * kSecond);
    std::vector<float> seen;
    RunRanks(clock, kRanks, [&](int rank) {
      const CounterRandom random(seed, static_cast<std::uint64_t>(rank));
      Gate gate(clock, world.control);
      Communicator& comm = world.Open(rank);
      std::vector<float> state = Input(rank, 997 * kRanks);
      for (std::uint64_t i = 0; i < 60; ++i) {
        gate.Sleep(static_cast<std::int64_t>(random.Below(i, 2'000'000)));
        const std::int64_t size = static_cast<std::int64_t>(1 + (i * 331) % 997) * kRanks;
        float* const data = state.data();
        const OpKind kind = i % 3 == 0   ? OpKind::kAllReduce
                            : i % 3 == 1 ? OpKind::kReduceScatter
                                         : OpKind::kAllGather;
        float* const shard = data + size / kRanks * rank;
        CommCall call = MakeCall(kind, size, data, data, rank);
        if (kind == OpKind::kReduceScatter) call.out = shard;
        if (kind == OpKind::kAllGather) call.in = shard;
        ASSERT_TRUE(comm.Call(call, {}).has_value());
        for (float& value : state) value *= 0.25F;
      }
      if (rank == 0) seen = state;
    });
    results.push_back(seen);
  }
  ASSERT_FALSE(results[0].empty());
  EXPECT_TRUE(SameBits(results[0].data(), results[1].data(), 997 * kRanks));
  EXPECT_TRUE(SameBits(results[0].data(), results[2].data(), 997 * kRanks));
}

}  // namespace
}  // namespace foretrain
