#include "app/report/launched_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json/json.h"

namespace foretrain {
namespace {

using testing::HasSubstr;
using testing::Not;

// Twelve rows: two are not shown alone.
KernelTable Twelve() {
  KernelTable table{.capability = 90};
  for (std::int32_t i = 1; i <= 11; ++i) {
    table.rows.push_back(
        {"norm", {.grid = {i, 1, 1}, .block = {64, 1, 1}, .registers = 32}, 1, i * 1'000'000});
  }
  // 255 registers a thread: 8 of 64 warps.
  table.rows.push_back({"void ns::gemm<8>(float*)",
                        {.grid = {64, 2, 1}, .block = {128, 1, 1}, .registers = 255},
                        40,
                        2'000'000'000});
  return table;
}

TEST(LaunchedKernels, ListsTheLongestAndSumsTheOthers) {
  const std::string text = LaunchedKernelsText(Twelve(), {});
  EXPECT_THAT(text, HasSubstr("gemm"));
  EXPECT_THAT(text, HasSubstr("grid 64 x 2, block 128, 255 registers"));
  EXPECT_THAT(text, HasSubstr("12.5 % (registers)"));
  EXPECT_LT(text.find("gemm"), text.find("norm"));
  EXPECT_THAT(text, HasSubstr("grid 3, block 64"));
  EXPECT_THAT(text, Not(HasSubstr("grid 2, block 64")));
  EXPECT_THAT(text, HasSubstr("2 others"));
  EXPECT_THAT(text, HasSubstr("3.00 ms"));  // of 1 and 2 ms
}

TEST(LaunchedKernels, WritesAllRowsAsJson) {
  JsonWriter writer;
  writer.BeginObject();
  WriteLaunchedKernels(writer, Twelve(), {});
  const auto json = nlohmann::json::parse(writer.EndObject().Take());
  ASSERT_EQ(json.at("kernels").size(), 12U);
  const auto& gemm = json.at("kernels").at(0);
  EXPECT_EQ(gemm.at("name"), "void ns::gemm<8>(float*)");
  EXPECT_EQ(gemm.at("calls"), 40);
  EXPECT_EQ(gemm.at("total_s"), 2.0);
  EXPECT_EQ(gemm.at("grid"), nlohmann::json({64, 2, 1}));
  EXPECT_EQ(gemm.at("registers"), 255);
  EXPECT_EQ(gemm.at("occupancy"), 0.125);
  EXPECT_EQ(gemm.at("occupancy_limit"), "registers");
}

// 4e14 FLOP in a second are 40 % of an H100's dense bf16 peak of 989.4 TFLOP/s, and 1 TB takes 30 %
// of a second at 3.35 TB/s.
TEST(LaunchedKernels, SetsRatesAgainstThePeaksOfTheGpu) {
  KernelTable table = Twelve();
  table.gpu = "NVIDIA H100 80GB HBM3";
  table.rows.back().work = {
      .flops = 4e14, .bytes = 1e12, .time_ns = 1'000'000'000, .format = "bf16"};
  const auto gpu = GpuOf(table);
  ASSERT_TRUE(gpu.has_value());
  EXPECT_NEAR(RooflineShare(table.rows.back().work, *gpu).value(), 0.404, 0.001);
  EXPECT_NEAR(RooflineShare({.bytes = 1e12, .time_ns = 1'000'000'000}, *gpu).value(), 0.2985, 1e-3);
  EXPECT_EQ(RooflineShare({}, *gpu), std::nullopt);
  EXPECT_EQ(RooflineShare({.flops = 1, .bytes = 1, .time_ns = 1, .format = "fp64"}, *gpu),
            std::nullopt);
  const std::string text = LaunchedKernelsText(table, gpu);
  EXPECT_THAT(text, HasSubstr("TFLOP/s"));
  EXPECT_THAT(text, HasSubstr("400"));
  EXPECT_THAT(text, HasSubstr("40 %"));
  JsonWriter writer;
  writer.BeginObject();
  WriteLaunchedKernels(writer, table, gpu);
  const auto json = nlohmann::json::parse(writer.EndObject().Take());
  const auto& gemm = json.at("kernels").at(0);
  EXPECT_DOUBLE_EQ(gemm.at("flop_per_s").get<double>(), 4e14);
  EXPECT_EQ(gemm.at("format"), "bf16");
  EXPECT_NEAR(gemm.at("roofline_share").get<double>(), 0.404, 0.001);

  table.gpu = "a GPU of another world";
  EXPECT_FALSE(GpuOf(table).has_value());
  EXPECT_THAT(LaunchedKernelsText(table, GpuOf(table)), HasSubstr("400"));
}

TEST(LaunchedKernels, LeavesOutWhatIsUnknown) {
  EXPECT_EQ(LaunchedKernelsText({}, {}), "");
  JsonWriter none;
  none.BeginObject();
  WriteLaunchedKernels(none, {}, {});
  EXPECT_EQ(none.EndObject().Take(), "{}");
  KernelTable table;
  table.rows = {{"gemm", {}, 1, 1'000}};
  JsonWriter old;
  old.BeginObject();
  WriteLaunchedKernels(old, table, {});
  EXPECT_EQ(old.EndObject().Take(), R"({"kernels":[{"name":"gemm","calls":1,"total_s":1e-06}]})");
}

}  // namespace
}  // namespace foretrain
