#include "traces/kernels/kernel_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "traces/timeline.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr KernelLaunch kSmall{.grid = {8, 1, 1}, .block = {64, 1, 1}, .registers = 40};
constexpr KernelLaunch kLarge{.grid = {64, 2, 1},
                              .block = {128, 1, 1},
                              .registers = 168,
                              .static_shared_bytes = 16,
                              .dynamic_shared_bytes = 48 * 1024};

OpId Id(int micro_batch, int number) {
  return PackId({.pass = Pass::kForward, .block = 3, .micro_batch = micro_batch}, number);
}

// A small and a large product, and a norm. The table is in the order in which it is stored.
KernelTable Three() {
  KernelTable table;
  table.capability = 90;
  table.gpu = "NVIDIA H100 PCIe";
  table.rows = {{"gemm<8>(float*)", kLarge, 5, 1'000'000'007, {1e12, 3e9, 900'000'001, "bf16"}},
                {"gemm<8>(float*)", kSmall, 3, 300},
                {"norm", {}, 7, 70}};
  table.Own(Id(0, 1), 1);
  table.Own(Id(0, 2), 2);
  table.Own(Id(0, 2), 0);
  return table;
}

TEST(KernelTable, ComesBackFromItsTextUnchanged) {
  const KernelTable table = Three();
  const auto read = KernelsFromJson(KernelsToJson(table), "kernels");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, table);
}

TEST(KernelTable, StoresTheLongestFirstAndEachLaunchOnce) {
  KernelTable table = Three();
  std::reverse(table.rows.begin(), table.rows.end());
  table.ops = {{Id(0, 1), {1}}, {Id(0, 2), {0, 2}}};
  const auto json = nlohmann::json::parse(KernelsToJson(table));
  EXPECT_EQ(json.at("compute_capability"), "9.0");
  ASSERT_EQ(json.at("kernels").size(), 2U);
  const auto& gemm = json.at("kernels").at(0);
  EXPECT_EQ(gemm.at("calls"), 8);
  EXPECT_EQ(gemm.at("launches").size(), 2U);
  EXPECT_EQ(gemm.at("launches").at(0).at("grid"), nlohmann::json({64, 2, 1}));
  EXPECT_EQ(gemm.at("launches").at(1).at("registers"), 40);
  EXPECT_FALSE(json.at("kernels").at(1).at("launches").at(0).contains("grid"));
  EXPECT_EQ(json.at("ops").at(std::to_string(Id(0, 2))), nlohmann::json({0, 2}));
}

// Written before launches were recorded.
TEST(KernelTable, ReadsOlderAttachments) {
  const auto table = KernelsFromJson(
      R"({"schema":1,"kernels":[{"name":"gemm","calls":20,"total_s":1.5e-6}]})", "run 7");
  ASSERT_TRUE(table.has_value()) << table.error().message;
  EXPECT_THAT(table->rows, ElementsAre(KernelRow{"gemm", {}, 20, 1'500}));
  EXPECT_THAT(table->ops, IsEmpty());
  EXPECT_EQ(table->capability, 0);
}

TEST(KernelTable, RefusesImpossibleValuesAndNamesThem) {
  const auto refuses = [](const std::string& text, const char* why) {
    const auto table = KernelsFromJson(text, "run 7");
    ASSERT_FALSE(table.has_value()) << text;
    EXPECT_THAT(table.error().message, HasSubstr(why));
    EXPECT_THAT(table.error().message, HasSubstr("run 7"));
  };
  refuses("[", "run 7");
  refuses(R"({"schema":1})", "kernels");
  refuses(R"({"kernels":[{"name":"a","calls":-1,"total_s":0}]})", "calls");
  refuses(R"({"kernels":[{"name":"a","calls":1,"total_s":0}],"ops":{"5":[1]}})", "5");
  refuses(R"({"kernels":[],"ops":{"5":[0]}})", "no kernels");
  refuses(R"({"kernels":[{"name":"a","calls":1,"total_s":0}],"ops":{"x":[0]}})", "x");
}

TEST(KernelTable, GivesTheKernelsOfAnOpInAllMicroBatches) {
  const KernelTable table = Three();
  for (const int micro_batch : {0, 4}) {
    const auto rows = table.Of(Id(micro_batch, 2));
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_EQ(rows[0]->launch, kLarge);
    EXPECT_EQ(rows[1]->name, "norm");
  }
  EXPECT_THAT(table.Of(Id(0, 3)), IsEmpty());
  EXPECT_THAT(table.Of(kNoOp), IsEmpty());
}

TEST(KernelTable, AddsAnotherTableRowByRow) {
  KernelTable table = Three();
  KernelTable more;
  more.rows = {{"norm", {}, 1, 10}, {"norm", kSmall, 2, 20}, {"norm", {}, 3, 30}};
  more.Own(Id(0, 1), 0);
  more.Own(Id(0, 2), 2);
  more.Own(Id(0, 4), 1);
  table.Add(more);
  ASSERT_EQ(table.rows.size(), 4U);
  EXPECT_EQ(table.rows[2], (KernelRow{"norm", {}, 7 + 1 + 3, 70 + 10 + 30}));
  EXPECT_EQ(table.rows[3], (KernelRow{"norm", kSmall, 2, 20}));
  EXPECT_THAT(table.ops.at(Id(0, 1)), ElementsAre(1U, 2U));
  EXPECT_THAT(table.ops.at(Id(0, 2)), ElementsAre(0U, 2U));
  EXPECT_THAT(table.ops.at(Id(0, 4)), ElementsAre(3U));
}

TEST(KernelTable, ShortensNamesOfKernels) {
  EXPECT_EQ(ShortKernelName("foretrain::Norm(float const*)"), "Norm");
  EXPECT_EQ(ShortKernelName("void ns::gemm<ns::Tile<8>, 4>(float const*, ns::T)"), "gemm");
  EXPECT_EQ(ShortKernelName("void foretrain::(anonymous namespace)::Adam<float>(Args)"), "Adam");
  EXPECT_EQ(ShortKernelName("ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
  EXPECT_EQ(ShortKernelName("void cutlass::device_kernel<ours::gemm::Fp8<2, 4>>(Params)"),
            "device_kernel<Fp8>");
  EXPECT_EQ(ShortKernelName("void at::native::vectorized_elementwise_kernel<4, "
                            "at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)"),
            "vectorized_elementwise_kernel<CUDAFunctor_add>");
  EXPECT_EQ(ShortKernelName("void at::native::unrolled_elementwise_kernel<at::native::copy_cuda("
                            "at::TensorIteratorBase&)::{lambda()#1}, int>(int)"),
            "unrolled_elementwise_kernel<copy_cuda>");
  EXPECT_EQ(ShortKernelName("void reduce_kernel<512, 1>(int)"), "reduce_kernel");
  EXPECT_EQ(ShortKernelName(""), "");
  EXPECT_EQ(ShortKernelName("<"), "<");
}

}  // namespace
}  // namespace foretrain
