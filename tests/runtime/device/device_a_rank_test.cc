// One device for each rank, with its own queues, memory and events, and NCCL between them. The
// devices are asynchronous (later_device.h). The fake libnccl (tests/plugins/fake_nccl.cc) blocks a
// queue until its peers call, so an order that would deadlock on GPUs deadlocks here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_device.h"
#include "runtime/data/token_data.h"
#include "runtime/nccl/nccl_world.h"
#include "tests/runtime/device/device_a_rank.h"
#include "tests/runtime/device/fake_nccl_library.h"
#include "tests/runtime/device/later/later_device.h"
#include "tests/runtime/device/later/later_memory.h"
#include "tests/runtime/equality/equality_cases.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(DeviceARank, PlansTrainAsOnTheCpu) {
  for (const auto& cases : {Cases(), ContextCases(), OffloadCases()}) {
    for (std::size_t i = 2; i < cases.size(); i += 20) {  // device_a_rank_nightly_test.cc has all
      ExpectTrainsAlikeOnDevices(TinyGpt(), cases[i].plan, cases[i].name);
    }
  }
}

TEST(DeviceARank, ExpertsTrainAsOnTheCpu) {
  Plan plan = TinyPlan();
  plan.dp = plan.ep = 2;
  plan.clip_norm = 0.5;
  ExpectTrainsAlikeOnDevices(TinyExperts(), plan, "experts");
}

// Four ranks on two devices: memory on the other device is read only after its event, and never
// written.
TEST(RanksOnTwoDevices, TrainAsOnTheCpuToTheBit) {
  Plan plan = TinyPlan();
  plan.dp = plan.tp = 2;
  plan.clip_norm = 0.5;
  ExpectTrainsAlikeOnTwoDevices(TinyGpt(), plan, "dp 2, tp 2");
  EXPECT_GT(Later().peer_reads, 0);
  plan = TinyPlan();
  plan.pp = 4;
  ExpectTrainsAlikeOnTwoDevices(TinyGpt(), plan, "pp 4");
  EXPECT_GT(Later().peer_reads, 0);
  plan = TinyPlan();
  plan.dp = 3;
  plan.global_batch = 9;
  plan.zero_stage = 3;
  ExpectTrainsAlikeOnTwoDevices(TinyGpt(), plan, "dp 3, ZeRO 3");
  plan = TinyPlan();
  plan.dp = plan.ep = 4;
  ExpectTrainsAlikeOnTwoDevices(TinyExperts(), plan, "experts");
}

TEST(DeviceARank, KeysOfAllRanksAreThoseOfTheirPeers) {
  Plan plan = TinyPlan();
  plan.dp = plan.tp = plan.pp = 2;
  const auto program = Compile(TinyGpt(), plan);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  std::vector<std::vector<ChannelKey>> keys;
  for (const RankProgram& rank : program->ranks) {
    keys.push_back(KeysOf(*program, rank));
    EXPECT_TRUE(std::is_sorted(keys.back().begin(), keys.back().end()));
  }
  for (std::size_t rank = 0; rank < keys.size(); ++rank) {
    ASSERT_FALSE(keys[rank].empty());
    for (const ChannelKey& key : keys[rank]) {
      for (const int member : key.members) {
        const auto& theirs = keys[static_cast<std::size_t>(member)];
        EXPECT_TRUE(std::binary_search(theirs.begin(), theirs.end(), key))
            << key.Text("channel") << ", of rank " << rank << ", not of " << member;
      }
    }
  }
}

struct Ended {
  std::optional<Error> error;
  double seconds = 0;
};

// Two steps of two ranks with one device each.
Ended TrainTwo(std::int64_t timeout_ns, ExecutorOptions options = {}) {
  Plan plan = TinyPlan();
  plan.dp = 2;
  plan.zero_stage = 1;
  plan.global_batch = 4;
  static const auto program = [&] {
    auto compiled = Compile(TinyGpt(), plan);
    EXPECT_TRUE(compiled.has_value()) << compiled.error().message;
    return std::make_shared<const Program>(*std::move(compiled));
  }();
  static RealClock clock;
  auto data = TokenData::FromText(TrainingText(), "text", TinyGpt().vocab, plan);
  options.timeout_ns = timeout_ns;
  if (options.local.empty()) options.local = {{0, 0}, {1, 1}};
  options.world = NcclWorldMaker(FakeNcclApi());
  Ended ended;
  const std::int64_t start_ns = clock.Now();
  auto executor = Executor::Make(program, LaterDeviceApi(CpuDeviceApi()), clock, options);
  if (!executor.has_value()) {
    ended.error = executor.error();
  } else {
    RecordingSink sink;
    auto summary = (*executor)->Run(2, **data, sink);
    if (!summary.has_value()) ended.error = summary.error();
  }
  ended.seconds = static_cast<double>(clock.Now() - start_ns) / 1e9;
  return ended;
}

void ResetDevices() {
  Later().Reset();
  Later().devices = 2;
  FakeNcclControl().Reset();
  FakeNcclControl().give = &GiveLater;
  FakeNcclControl().reach = &ReachableLater;
}

TEST(DeviceARank, EveryCallOfNcclThatFailsEndsTheRunAndLeavesNothing) {
  ResetDevices();
  const Ended well = TrainTwo(60 * kSecond);
  ASSERT_FALSE(well.error.has_value()) << well.error->message;
  const std::int64_t calls = FakeNcclControl().calls;
  ASSERT_GT(calls, 20);
  for (std::int64_t failing = 0; failing < calls; ++failing) {
    ResetDevices();
    FakeNcclControl().fail_at = failing;
    const Ended ended = TrainTwo(60 * kSecond);
    ASSERT_TRUE(ended.error.has_value()) << failing;
    EXPECT_THAT(ended.error->message,
                AllOf(ContainsRegex("^rank [01]"), HasSubstr("the fake was told to fail")))
        << failing;
    EXPECT_LT(ended.seconds, 5.0) << failing;
    EXPECT_EQ(FakeNcclControl().live, 0) << failing;
    EXPECT_EQ(Later().Live(), 0) << failing;
  }
}

TEST(DeviceARank, AKernelThatHangsOnOneDeviceEndsTheOthers) {
  ResetDevices();
  ASSERT_FALSE(TrainTwo(60 * kSecond).error.has_value());
  const std::int64_t kernels = Later().kernels;
  ResetDevices();
  Later().hang_at = kernels / 2;
  const Ended ended = TrainTwo(kSecond / 5);
  ASSERT_TRUE(ended.error.has_value());
  EXPECT_EQ(ended.error->code, ErrorCode::kTimeout);
  EXPECT_THAT(ended.error->message, ContainsRegex("rank [01], step [01], "));
  EXPECT_LT(ended.seconds, 4.0);
  Later().released = true;
  for (int i = 0; i < 5000 && Later().Live() != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(Later().Live(), 0);
}

TEST(DeviceARank, RefusesTwoRanksOnADeviceOfNccl) {
  ResetDevices();
  ExecutorOptions options;
  options.local = {{0, 0}, {1, 0}};
  const Ended ended = TrainTwo(kSecond, options);
  ASSERT_TRUE(ended.error.has_value());
  EXPECT_THAT(ended.error->message, HasSubstr("rank 1: another rank has device 0 too"));
}

TEST(DeviceARank, RefusesSharesOfSeveralDevices) {
  ResetDevices();
  ExecutorOptions options;
  options.sm_share = 8;
  const Ended ended = TrainTwo(kSecond, options);
  ASSERT_TRUE(ended.error.has_value());
  EXPECT_THAT(ended.error->message, HasSubstr("shares of multiprocessors are of one device"));
}

TEST(DeviceARank, MemoryIsCheckedOnEachDevice) {
  Plan plan = TinyPlan();
  plan.dp = 2;
  auto program = Compile(TinyGpt(), plan);
  ASSERT_TRUE(program.has_value());
  FtMemory memory{};
  ASSERT_EQ(CpuDeviceApi().memory(0, &memory, nullptr, 0), FT_OK);
  // Each arena fits alone, both together do not.
  for (RankProgram& rank : program->ranks) {
    rank.arena_bytes[static_cast<std::size_t>(Space::kDevice)] = memory.free_bytes * 2 / 3;
  }
  Later().Reset();
  const FtDeviceApi& api = LaterDeviceApi(CpuDeviceApi());
  EXPECT_TRUE(CheckMemory(*program, api, {{0, 0}, {1, 1}}, 0).has_value());
  EXPECT_TRUE(CheckMemory(*program, api, {{1, 1}}, 0).has_value());
  const auto shared = CheckMemory(*program, api, {{0, 0}, {1, 0}}, 0);
  ASSERT_FALSE(shared.has_value());
  EXPECT_THAT(shared.error().message, HasSubstr("2 ranks on one device need"));
}

}  // namespace
}  // namespace foretrain
