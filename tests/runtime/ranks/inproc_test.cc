#include <gtest/gtest.h>

#include <vector>

#include "runtime/run/gate.h"
#include "tests/runtime/ranks/inproc_ranks.h"

namespace foretrain {
namespace {

class InprocSizes : public testing::TestWithParam<std::tuple<int, std::int64_t>> {
 protected:
  int Ranks() const { return std::get<0>(GetParam()); }
  std::int64_t Size() const { return std::get<1>(GetParam()); }
};

TEST_P(InprocSizes, AllReduceEqualsTheSerialSumInPlaceAndApart) {
  RealClock clock;
  InprocRanks world(Ranks(), clock);
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
  InprocRanks world(Ranks(), clock);
  const std::int64_t whole = Size() * Ranks();
  const std::vector<float> sum = SerialSum(Ranks(), whole);
  RunRanks(clock, Ranks(), [&](int rank) {
    Communicator& comm = world.Open(rank);
    std::vector<float> in = Input(rank, whole);
    std::vector<float> out = Input(100 + rank, Size());
    const float* const expected = sum.data() + Size() * rank;
    CommCall call = MakeCall(OpKind::kReduceScatter, whole, in.data(), out.data(), rank);
    // With accumulate: ((old + in_0) + in_1) + ...
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
  InprocRanks world(Ranks(), clock);
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
  InprocRanks world(Ranks(), clock);
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

// Member i sends i + 2 j + 1 numbers to member j, stored after those for the members before j.
TEST_P(InprocSizes, UnequalAllToAllGivesEachItsPartOfEveryMember) {
  const auto part = [](int from, int to) { return from + 2 * to + 1; };
  const auto before = [&](int from, int to) {
    std::int64_t sum = 0;
    for (int other = 0; other < to; ++other) sum += part(from, other);
    return sum;
  };
  RealClock clock;
  InprocRanks world(Ranks(), clock);
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

// After as many rotations as members, each member has its own data again.
TEST_P(InprocSizes, RotateGivesEachWhatTheMemberBeforeHad) {
  RealClock clock;
  InprocRanks world(Ranks(), clock);
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
                         testing::Combine(testing::Range(1, 17),
                                          testing::Values<std::int64_t>(0, 1, 16, 1009)));
// 2^20 + 1 numbers, a little more than a part of any power of two.
INSTANTIATE_TEST_SUITE_P(Large, InprocSizes,
                         testing::Combine(testing::Values(3),
                                          testing::Values<std::int64_t>((1 << 20) + 1)));

TEST(Inproc, SendsBothWaysBetweenNeighboursWhateverComesFirst) {
  RealClock clock;
  InprocRanks world(2, clock);
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

// Many calls of changing kinds and sizes with sleeps between them: the bits do not depend on the
// order of arrival.
TEST(Inproc, GivesTheSameBitsWhateverTheTiming) {
  constexpr int kRanks = 4;
  std::vector<std::vector<float>> results;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    VirtualClock clock;
    InprocRanks world(kRanks, clock, 600 * kSecond);
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
