// Collectives of bf16 tensors on the CPU device: a sum is taken in rank order in fp32 and rounded
// once, and all else moves the bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/numeric/number_formats.h"
#include "kernels/cpu/cpu_device.h"
#include "tests/runtime/ranks/inproc_ranks.h"

namespace foretrain {
namespace {

using Bf16 = std::vector<std::uint16_t>;

Bf16 RoundedInput(int rank, std::int64_t elements) {
  Bf16 values;
  for (const float value : Input(rank, elements)) values.push_back(Bf16OfFloat(value));
  return values;
}

// The sum or maximum of elements [begin, begin + elements) of every rank's `whole` inputs.
Bf16 SerialResult(int ranks, std::int64_t whole, std::int64_t begin, std::int64_t elements,
                  bool maximum) {
  std::vector<float> result(static_cast<std::size_t>(elements));
  for (int rank = 0; rank < ranks; ++rank) {
    const Bf16 input = RoundedInput(rank, whole);
    for (std::size_t i = 0; i < result.size(); ++i) {
      const float value = FloatOfBf16(input[static_cast<std::size_t>(begin) + i]);
      result[i] = rank == 0 ? value : maximum ? std::max(result[i], value) : result[i] + value;
    }
  }
  Bf16 rounded;
  for (const float value : result) rounded.push_back(Bf16OfFloat(value));
  return rounded;
}

class InprocBf16 : public testing::TestWithParam<std::tuple<int, std::int64_t>> {
 protected:
  int Ranks() const { return std::get<0>(GetParam()); }
  std::int64_t Size() const { return std::get<1>(GetParam()); }

  // Makes one call on every rank, of `elements`; each has `in_elements` of its input to give.
  // Returns what each rank got in `out_elements`.
  std::vector<Bf16> Call(OpKind kind, std::int64_t elements, std::int64_t in_elements,
                         std::int64_t out_elements, bool maximum = false) {
    RealClock clock;
    InprocRanks world(Ranks(), clock, 60 * kSecond, CpuDeviceApi());
    std::vector<Bf16> results(static_cast<std::size_t>(Ranks()));
    RunRanks(clock, Ranks(), [&](int rank) {
      FtQueue* queue = nullptr;
      ASSERT_EQ(CpuDeviceApi().queue_create(0, &queue, nullptr, 0), FT_OK);
      const Bf16 in = RoundedInput(rank, in_elements);
      Bf16 out(static_cast<std::size_t>(out_elements), 0x7fc0);
      CommCall call = MakeCall(kind, elements, in.data(), out.data(), rank);
      call.dtype = FT_BF16;
      call.maximum = maximum;
      const auto times = world.Open(rank).Call(call, queue);
      EXPECT_TRUE(times.has_value()) << times.error().message;
      results[static_cast<std::size_t>(rank)] = out;
      CpuDeviceApi().queue_destroy(queue);
    });
    return results;
  }
};

TEST_P(InprocBf16, AllReduceEqualsTheSerialSumAndMaximum) {
  for (const bool maximum : {false, true}) {
    const Bf16 expected = SerialResult(Ranks(), Size(), 0, Size(), maximum);
    for (const Bf16& got : Call(OpKind::kAllReduce, Size(), Size(), Size(), maximum)) {
      EXPECT_EQ(got, expected) << "maximum " << maximum;
    }
  }
}

TEST_P(InprocBf16, ReduceScatterGivesEachItsShardOfTheSerialSum) {
  const std::int64_t whole = Size() * Ranks();
  const std::vector<Bf16> got = Call(OpKind::kReduceScatter, whole, whole, Size());
  for (int rank = 0; rank < Ranks(); ++rank) {
    EXPECT_EQ(got[static_cast<std::size_t>(rank)],
              SerialResult(Ranks(), whole, Size() * rank, Size(), false));
  }
}

TEST_P(InprocBf16, AllGatherAllToAllAndRotateMoveTheBits) {
  const std::int64_t whole = Size() * Ranks();
  const std::vector<Bf16> gathered = Call(OpKind::kAllGather, whole, Size(), whole);
  const std::vector<Bf16> exchanged = Call(OpKind::kAllToAll, whole, whole, whole);
  const std::vector<Bf16> rotated = Call(OpKind::kRotate, Size(), Size(), Size());
  for (int rank = 0; rank < Ranks(); ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    EXPECT_EQ(rotated[at], RoundedInput((rank + Ranks() - 1) % Ranks(), Size()));
    for (int other = 0; other < Ranks(); ++other) {
      const Bf16 shard = RoundedInput(other, Size());
      const Bf16 theirs = RoundedInput(other, whole);
      EXPECT_TRUE(std::equal(shard.begin(), shard.end(), gathered[at].begin() + Size() * other));
      EXPECT_TRUE(std::equal(theirs.begin() + Size() * rank, theirs.begin() + Size() * (rank + 1),
                             exchanged[at].begin() + Size() * other));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, InprocBf16,
                         testing::Combine(testing::Values(1, 2, 3, 7, 16),
                                          testing::Values<std::int64_t>(0, 1, 1009, 4096)));

}  // namespace
}  // namespace foretrain
