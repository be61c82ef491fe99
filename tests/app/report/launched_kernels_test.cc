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
  const std::string text = LaunchedKernelsText(Twelve());
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
  WriteLaunchedKernels(writer, Twelve());
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

TEST(LaunchedKernels, LeavesOutWhatIsUnknown) {
  EXPECT_EQ(LaunchedKernelsText({}), "");
  JsonWriter none;
  none.BeginObject();
  WriteLaunchedKernels(none, {});
  EXPECT_EQ(none.EndObject().Take(), "{}");
  KernelTable table;
  table.rows = {{"gemm", {}, 1, 1'000}};
  JsonWriter old;
  old.BeginObject();
  WriteLaunchedKernels(old, table);
  EXPECT_EQ(old.EndObject().Take(), R"({"kernels":[{"name":"gemm","calls":1,"total_s":1e-06}]})");
}

}  // namespace
}  // namespace foretrain
