#include "app/training/rank_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cpu/cpu_device.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// `count` GPUs that are never called.
DeviceChoice Gpus(int count) {
  static const FtDeviceApi api = [] {
    FtDeviceApi made{};
    made.asynchronous = 1;
    made.name = "cuda";
    return made;
  }();
  return {&api, count, std::nullopt};
}

Plan Dp(int ranks) {
  Plan plan;
  plan.dp = ranks;
  return plan;
}

TEST(RankDevices, RanksOfProcessorsShareThem) {
  const auto placed = PlaceRanks(Dp(4), {&CpuDeviceApi(), 1, std::nullopt}, false, "/no/libnccl");
  ASSERT_TRUE(placed.has_value());
  EXPECT_TRUE(placed->local.empty());
  EXPECT_EQ(placed->world, nullptr);
}

TEST(RankDevices, EachRankHasAGpuWhereThereAreAsMany) {
  const auto placed = PlaceRanks(Dp(2), Gpus(4), false, TestPlugin("nccl"));
  ASSERT_TRUE(placed.has_value()) << placed.error().message;
  EXPECT_THAT(placed->local, ElementsAre(LocalRank{0, 0}, LocalRank{1, 1}));
  EXPECT_NE(placed->world, nullptr);
  EXPECT_EQ(placed->text, "GPUs 0 1, NCCL 2.28.9");
}

TEST(RankDevices, GpusFollowTheOrderOfRanks) {
  Plan plan;
  plan.tp = plan.pp = 2;
  while (NameOfRankOrder(plan.rank_order) != "pp-tp-cp-ep-dp") ++plan.rank_order;
  const auto placed = PlaceRanks(plan, Gpus(4), false, TestPlugin("nccl"));
  ASSERT_TRUE(placed.has_value()) << placed.error().message;
  // Rank 1 is tp 1 of the first stage, which comes third if pp is innermost.
  EXPECT_THAT(placed->local,
              ElementsAre(LocalRank{0, 0}, LocalRank{1, 2}, LocalRank{2, 1}, LocalRank{3, 3}));
}

TEST(RankDevices, TheyShareOneThatIsNamedOrAskedForOrAllThereIs) {
  DeviceChoice named = Gpus(4);
  named.number = 3;
  const auto on_named = PlaceRanks(Dp(2), named, false, "/no/libnccl");
  ASSERT_TRUE(on_named.has_value());
  EXPECT_THAT(on_named->local, ElementsAre(LocalRank{0, 3}, LocalRank{1, 3}));
  EXPECT_EQ(on_named->world, nullptr);
  EXPECT_EQ(on_named->text, "2 ranks share GPU 3");
  const auto asked = PlaceRanks(Dp(2), Gpus(4), true, "/no/libnccl");
  ASSERT_TRUE(asked.has_value());
  EXPECT_THAT(asked->local, ElementsAre(LocalRank{0, 0}, LocalRank{1, 0}));
}

TEST(RankDevices, SeveralShareEachOfFewerGpusThatReadEachOther) {
  const auto few = PlaceRanks(Dp(4), Gpus(2), false, "/no/libnccl", TestPlugin("driver_two"));
  ASSERT_TRUE(few.has_value());
  EXPECT_THAT(few->local,
              ElementsAre(LocalRank{0, 0}, LocalRank{1, 0}, LocalRank{2, 1}, LocalRank{3, 1}));
  EXPECT_EQ(few->world, nullptr);
  EXPECT_EQ(few->text, "4 ranks on GPUs 0 0 1 1, which read each other's memory");
  const auto odd = PlaceRanks(Dp(3), Gpus(2), false, "/no/libnccl", TestPlugin("driver_two"));
  ASSERT_TRUE(odd.has_value());
  EXPECT_THAT(odd->local, ElementsAre(LocalRank{0, 0}, LocalRank{1, 0}, LocalRank{2, 1}));
  const auto apart = PlaceRanks(Dp(4), Gpus(2), false, "/no/libnccl", "/no/libcuda");
  ASSERT_TRUE(apart.has_value());
  EXPECT_EQ(apart->local.back().device, 0);
  EXPECT_EQ(apart->text, "4 ranks share GPU 0: the machine's 2 do not read each other's memory");
}

TEST(RankDevices, OneRankNeedsNoNccl) {
  const auto placed = PlaceRanks(Dp(1), Gpus(4), false, "/no/libnccl");
  ASSERT_TRUE(placed.has_value());
  EXPECT_THAT(placed->local, ElementsAre(LocalRank{0, 0}));
  EXPECT_EQ(placed->world, nullptr);
}

TEST(RankDevices, WithoutNcclItSaysHowToDoWithout) {
  const auto placed = PlaceRanks(Dp(2), Gpus(2), false, "/no/libnccl.so.2");
  ASSERT_FALSE(placed.has_value());
  EXPECT_EQ(placed.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(placed.error().message,
              AllOf(HasSubstr("2 ranks with a GPU each need NCCL"), HasSubstr("/no/libnccl.so.2"),
                    HasSubstr("--device cuda:0")));
}

TEST(DeviceName, NumbersOneGpu) {
  EXPECT_FALSE(ParseCudaNumber("cuda")->has_value());
  EXPECT_EQ(**ParseCudaNumber("cuda:0"), 0);
  EXPECT_EQ(**ParseCudaNumber("cuda:12"), 12);
  for (const char* bad : {"gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda: 1", "cuda0"}) {
    const auto parsed = ParseCudaNumber(bad);
    ASSERT_FALSE(parsed.has_value()) << bad;
    EXPECT_THAT(parsed.error().message, HasSubstr("none of cpu, cuda, cuda:N"));
  }
}

}  // namespace
}  // namespace foretrain
