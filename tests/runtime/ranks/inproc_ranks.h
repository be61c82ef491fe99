// Ranks of one process that call each other, with their inputs and expected results.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "base/numeric/random.h"
#include "runtime/inproc/inproc_world.h"
#include "tests/runtime/device/mock_device.h"
#include "tests/runtime/ranks/rank_threads.h"

namespace foretrain {

inline constexpr std::int64_t kSecond = 1'000'000'000;

// A world of ranks on one clock, all of them in one group.
struct InprocRanks {
  explicit InprocRanks(int count, RunClock& run_clock, std::int64_t timeout_ns = 2 * kSecond,
                       const FtDeviceApi& api = MockDeviceApi())
      : ranks(count),
        clock(run_clock),
        flight(count),
        world(count, api, run_clock, control, flight, {timeout_ns, {}}) {
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
inline std::vector<float> Input(int rank, std::int64_t elements) {
  std::vector<float> values(static_cast<std::size_t>(elements));
  CounterRandom(7, static_cast<std::uint64_t>(rank)).FillNormal(0, 0.0F, 1.0F, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] *= (i + static_cast<std::size_t>(rank)) % 3 == 0 ? 1e4F : 1.0F;
  }
  return values;
}

// The sum in rank order, one fp32 addition at a time: every member must have these bits.
inline std::vector<float> SerialSum(int ranks, std::int64_t elements) {
  std::vector<float> sum(static_cast<std::size_t>(elements), 0.0F);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<float> input = Input(rank, elements);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += input[i];
  }
  return sum;
}

inline bool SameBits(const float* a, const float* b, std::int64_t elements) {
  return elements == 0 || std::memcmp(a, b, static_cast<std::size_t>(elements) * 4) == 0;
}

inline CommCall MakeCall(OpKind kind, std::int64_t elements, const void* in, void* out, int rank) {
  CommCall call;
  call.kind = kind;
  call.elements = elements;
  call.in = in;
  call.out = out;
  call.site = {rank, 7, kNoOp, "grads.bucket2"};
  return call;
}

}  // namespace foretrain
