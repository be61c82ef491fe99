#include "sim/validate/kernels/timing_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foretrain {
namespace {

using testing::HasSubstr;

TimingTable Table(std::string_view text) {
  auto table = ParseTimingTable(text, "t.csv");
  EXPECT_TRUE(table.has_value()) << table.error().message;
  return table.has_value() ? *std::move(table) : TimingTable{};
}

std::string RefusalOf(std::string_view text) {
  const auto table = ParseTimingTable(text, "t.csv");
  return table.has_value() ? "accepted" : table.error().message;
}

TEST(TimingTable, ReadsProducts) {
  const TimingTable table = Table(
      "device,format,m,n,k,ms,libraries\n"
      "a,fp8,256,512,1024,0.5,3\n"
      "a,int8,256,512,1024,0.5,3\n");
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.kind, TimingTableKind::kProducts);
  EXPECT_DOUBLE_EQ(table.rows[0].measured_s, 0.5e-3);
  const auto& product = std::get<ProductRow>(table.rows[0].kernel);
  EXPECT_EQ(product.format, ProductFormat::kFp8);
  EXPECT_EQ(product.shape, (ProductShape{256, 512, 1024}));
  EXPECT_EQ(table.rows[1].refusal, "no model of the format int8");
}

TEST(TimingTable, ReadsAttentionAndExperts) {
  const TimingTable attention =
      Table("device,batch,sequence,heads,kv_heads,head_dim,ms\na,2,256,8,4,64,1\n");
  const auto& shape = std::get<AttentionShape>(attention.rows[0].kernel);
  EXPECT_EQ(shape.kv_heads, 4);
  EXPECT_EQ(shape.value_dim, 64);
  const TimingTable experts = Table(
      "device,format,tokens,hidden,ffn_hidden,topk,experts,tp,ep,distribution,ms\n"
      "a,bfloat16,512,1024,256,2,8,1,4,power_law_1.2,1\n"
      "a,bfloat16,512,1024,256,2,8,1,4,zipf,1\n");
  EXPECT_EQ(std::get<ExpertsRow>(experts.rows[0].kernel).shape.load, ExpertLoad::kPowerLaw12);
  EXPECT_EQ(experts.rows[1].refusal, "no model of the distribution zipf");
}

// 2 * 100 * 200 * 300 = 1.2e7 FLOP at half of 2 TFLOP/s: 12 us.
TEST(TimingTable, TurnsSharesIntoSeconds) {
  const TimingTable table = Table(
      "device,kind,shape,share_of_peak,peak_tflops\n"
      "a,matmul,\"b=1, m=100, k=200, n=300, layout=NT, accumulate=True, out_dtype=fp32\",0.5,2\n");
  EXPECT_NEAR(table.rows[0].measured_s, 12e-6, 1e-12);
  const auto& product = std::get<TrainingProduct>(table.rows[0].kernel);
  EXPECT_EQ(product.shape, (ProductShape{100, 300, 200}));
  EXPECT_EQ(product.layout, ProductLayout::kNt);
  EXPECT_TRUE(product.accumulate);
  EXPECT_EQ(product.sum_bytes, 4);
}

// Weight gradients of groups: the tokens are the depth.
TEST(TimingTable, ReadsGroupedProductsOfEachStage) {
  const TimingTable table = Table(
      "device,kind,shape,share_of_peak,peak_tflops\n"
      "a,group_matmul,\"ng=4, M=10, N=20, K=30, dtype=bf16, main_grad_dtype=fp32, "
      "stage=bwd_grad_w, accumulate=True\",0.5,2\n"
      "a,group_matmul,\"ng=4, M=10, N=20, K=30, dtype=fp8, stage=fwd\",0.5,2\n");
  EXPECT_EQ(std::get<TrainingProduct>(table.rows[0].kernel).shape, (ProductShape{20, 30, 10, 4}));
  EXPECT_EQ(table.rows[1].refusal, "no model of training in fp8");
}

// Backward: 5 * 2 * 64^2 * 8 * (192 + 128) FLOP.
TEST(TimingTable, CountsTheFullSquareOfTrainingsAttention) {
  const TimingTable table = Table(
      "device,kind,shape,share_of_peak,peak_tflops\n"
      "a,sdp_bwd,\"batch=2, seq_len=64, head_num=8, kv_head_num=4, qk_head_dim=192, "
      "v_head_dim=128, qkv_contiguous=True\",0.5,1\n");
  EXPECT_DOUBLE_EQ(table.rows[0].flop, 5.0 * 2 * 64 * 64 * 8 * 320);
  EXPECT_FALSE(std::get<TrainingAttentionRow>(table.rows[0].kernel).forward);
}

// Message sizes count elements of 2 bytes.
TEST(TimingTable, ReadsCollectives) {
  const TimingTable table = Table(
      "device,collective,format,gpus,message_size,ms\n"
      "a,alltoall,half,8,1024,0.02\n"
      "a,broadcast,half,8,1024,0.02\n");
  const auto& row = std::get<CollectiveRow>(table.rows[0].kernel);
  EXPECT_EQ(row.kind, OpKind::kAllToAll);
  EXPECT_EQ(row.shape, (CollectiveShape{2048, 8}));
  EXPECT_DOUBLE_EQ(table.rows[0].measured_s, 20e-6);
  EXPECT_EQ(table.rows[1].refusal, "no model of broadcast in half");
}

TEST(TimingTable, ReadsBothPartsOfAnExchange) {
  const TimingTable table = Table(
      "device,nodes,hidden,tokens,topk,experts,dispatch_sms,combine_sms,dispatch_us,combine_us\n"
      "a,2,7168,512,8,256,20,24,150.5,350\n"
      "a,2,7168,512,8,4,20,24,150.5,350\n");
  const auto& row = std::get<ExchangeRow>(table.rows[0].kernel);
  EXPECT_DOUBLE_EQ(table.rows[0].measured_s, 150.5e-6);
  EXPECT_DOUBLE_EQ(row.combine_s, 350e-6);
  ExchangeShape shape = {
      .nodes = 2, .hidden = 7168, .tokens = 512, .topk = 8, .experts = 256, .multiprocessors = 20};
  EXPECT_EQ(row.ShapeOf(ExchangePart::kDispatch), shape);
  shape.multiprocessors = 24;
  EXPECT_EQ(row.ShapeOf(ExchangePart::kCombine), shape);
  EXPECT_EQ(table.rows[1].refusal, "topk is above experts");
}

TEST(TimingTable, RowsWithoutAMeasurementAreKept) {
  EXPECT_EQ(Table("device,format,m,n,k\na,fp8,1,2,3\n").rows[0].measured_s, 0);
  EXPECT_EQ(Table("device,format,m,n,k,ms\na,fp8,1,2,3,\n").rows[0].measured_s, 0);
}

TEST(TimingTable, ErrorsNameFileLineAndColumn) {
  EXPECT_THAT(RefusalOf("device,format,m,n,k,ms\na,fp8,256,0,1,1\n"),
              HasSubstr("t.csv line 2, column n"));
  EXPECT_THAT(RefusalOf("device,format,m,n,k,ms\na,fp8,256,1,1,-3\n"),
              HasSubstr("t.csv line 2, column ms"));
  EXPECT_THAT(RefusalOf("device,format,m,n,k,ms\na,fp8,256,1,1,0\n"),
              HasSubstr("t.csv line 2, column ms: must be a number above 0"));
  EXPECT_THAT(RefusalOf("id,time\n1,2\n"),
              HasSubstr("t.csv: its columns are of no known table of kernels"));
  EXPECT_THAT(RefusalOf("device,kind,shape,share_of_peak,peak_tflops\na,matmul,\"m=4, k=4\",1,1\n"),
              HasSubstr("t.csv line 2, column shape: n is missing or no count from 1"));
}

}  // namespace
}  // namespace foretrain
