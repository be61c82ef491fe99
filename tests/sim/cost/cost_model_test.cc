#include "sim/cost/cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <string>

#include "sim/cost/profile/derive_profile.h"
#include "sim/program/ops/op_kinds.h"
#include "tests/sim/cost/profiles.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CostModel Make(const ClusterSpec& cluster, const DeviceProfile& profile) {
  auto model = CostModel::Make(cluster, profile);
  if (!model.has_value()) {
    ADD_FAILURE() << model.error().message;
    return *CostModel::Make(GpuCluster(1, 1), IdealProfile());
  }
  return *std::move(model);
}

DeviceProfile CpuProfile() { return DeriveProfile(CpuCluster(2, 2)); }

// 2 * 1000^3 flop at 0.75 * 100 TFLOP/s, 6 us to fill the device, 3 us per kernel. Its 12 MB take
// 14 us of memory time, which overlaps.
TEST(CostModel, TakesUnmeasuredGemmsFromRates) {
  const CostModel model = Make(GpuCluster(1, 8), DeriveProfile(GpuCluster(1, 8)));
  const OpCost cost = model.CostOf(GemmOp(1000, 1000, 1000));
  EXPECT_NEAR(cost.Alone(), 2e9 / 75e12 + 9e-6, 1e-12);
  EXPECT_EQ(cost.provenance, Provenance::kDefault);
  EXPECT_GE(cost.error, 0.2);
  EXPECT_DOUBLE_EQ(cost.launch_s, 4e-6);
}

// GELU of a million elements reads and writes 8 MB at 0.85 TB/s. In bf16 it is half, from bf16 to
// fp32 three quarters. Each kernel adds 3 us.
TEST(CostModel, TakesUnmeasuredMemoryBoundOpsFromBandwidth) {
  const ClusterSpec cluster = GpuCluster(1, 8);
  const CostModel costs = Make(cluster, DeriveProfile(cluster));
  Op gelu;
  gelu.kind = OpKind::kGeluForward;
  gelu.shape.rows = 1000;
  gelu.shape.cols = 1000;
  EXPECT_NEAR(costs.CostOf(gelu).Alone(), 8e6 / 0.85e12 + 3e-6, 1e-12);
  SetFormat(gelu, "x", NumberFormat::kBf16);
  EXPECT_NEAR(costs.CostOf(gelu).Alone(), 6e6 / 0.85e12 + 3e-6, 1e-12);
  SetFormat(gelu, "y", NumberFormat::kBf16);
  EXPECT_NEAR(costs.CostOf(gelu).Alone(), 4e6 / 0.85e12 + 3e-6, 1e-12);
  EXPECT_NEAR(costs.CostOf(SquaredNormOp(1'000'000)).Alone(), 4e6 / 0.85e12 + 3e-6, 1e-12);
}

// 2e12 flop at 0.75 of each published peak; 9 us to fill the device and for the kernel.
TEST(CostModel, TakesTheRateOfTheFormatThatAProductComputesIn) {
  ClusterSpec cluster = GpuCluster(1, 8);
  cluster.device.tf32_flop_per_s = 500e12;
  cluster.device.fp8_flop_per_s = 2000e12;
  const CostModel costs = Make(cluster, DeriveProfile(cluster));
  Op gemm = GemmOp(10'000, 10'000, 10'000);
  gemm.formats.fill(NumberFormat::kBf16);  // 0.6 GB: 0.7 ms
  const auto seconds = [&](NumberFormat format) {
    gemm.format = format;
    return costs.CostOf(gemm).Alone() - 9e-6;
  };
  EXPECT_NEAR(seconds(NumberFormat::kFp32), 2e12 / (0.75 * 100e12), 1e-9);
  EXPECT_NEAR(seconds(NumberFormat::kTf32), 2e12 / (0.75 * 500e12), 1e-9);
  EXPECT_NEAR(seconds(NumberFormat::kBf16), 2e12 / (0.75 * 1000e12), 1e-9);
  EXPECT_NEAR(seconds(NumberFormat::kFp8Block), 2e12 / (0.75 * 2000e12), 1e-9);
  // The device has no published fp4 peak, so fp8 is used.
  EXPECT_NEAR(seconds(NumberFormat::kFp4), 2e12 / (0.75 * 2000e12), 1e-9);
}

TEST(CostModel, GivesOpaqueOpsTheirOwnTimeAtEveryLevel) {
  DeviceProfile profile = CpuProfile();
  AddPoint(profile, Timed(PointOf(GemmOp(8, 8, 8), 1, 1, 1), 1e-6));
  AddPoint(profile, Timed(PointOf(GemmOp(8, 8, 8), 1, 1, 2), 2e-6));
  Op op;
  op.duration_s = 0.5;
  const OpCost cost = Make(CpuCluster(2, 2), profile).CostOf(op);
  EXPECT_THAT(cost.seconds, ElementsAre(0.5, 0.5));
  EXPECT_DOUBLE_EQ(cost.load, 0.0);
}

TEST(CostModel, ReturnsMeasuredPointsExactlyWithTheirSpread) {
  DeviceProfile profile = CpuProfile();
  ProfilePoint point = Timed(PointOf(GemmOp(100, 200, 300)), 2e-3);
  point.p10_s = 1.9e-3;
  point.p90_s = 2.2e-3;
  AddPoint(profile, point);
  AddPoint(profile, Timed(PointOf(GemmOp(100, 200, 600)), 3.5e-3));
  const OpCost cost = Make(CpuCluster(1, 2), profile).CostOf(GemmOp(100, 200, 300));
  EXPECT_NEAR(cost.Alone(), 2e-3, 1e-15);
  EXPECT_EQ(cost.provenance, Provenance::kMeasured);
  EXPECT_NEAR(cost.error, 0.3e-3 / 2.563 / 2e-3, 1e-9);
}

TEST(CostModel, SaysWhetherAShapeLiesBetweenMeasuredOnesOrOutside) {
  DeviceProfile profile = CpuProfile();
  for (const std::int64_t n : {1000, 100'000, 1'000'000}) {
    AddPoint(profile, Timed(PointOf(SquaredNormOp(n)), 1e-9 * static_cast<double>(n)));
  }
  const CostModel model = Make(CpuCluster(1, 2), profile);
  const OpCost inside = model.CostOf(SquaredNormOp(50'000));
  const OpCost outside = model.CostOf(SquaredNormOp(5'000'000));
  EXPECT_EQ(inside.provenance, Provenance::kInterpolated);
  EXPECT_NEAR(inside.Alone(), 5e-5, 1e-9);
  EXPECT_EQ(outside.provenance, Provenance::kExtrapolated);
  EXPECT_NEAR(outside.Alone(), 5e-3, 1e-7);
  EXPECT_GT(outside.error, inside.error);
}

TEST(CostModel, KeepsLayoutsApartAndBorrowsAcrossThem) {
  DeviceProfile profile = CpuProfile();
  Op transposed = GemmOp(64, 64, 64);
  transposed.trans_b = true;
  AddPoint(profile, Timed(PointOf(GemmOp(64, 64, 64)), 1e-5));
  AddPoint(profile, Timed(PointOf(transposed), 2e-5));
  const CostModel model = Make(CpuCluster(1, 2), profile);
  EXPECT_NEAR(model.CostOf(transposed).Alone(), 2e-5, 1e-18);
  transposed.accumulate = true;  // not measured; the nearest point has the same layout
  const OpCost borrowed = model.CostOf(transposed);
  EXPECT_NEAR(borrowed.Alone(), 2e-5, 1e-18);
  EXPECT_EQ(borrowed.provenance, Provenance::kExtrapolated);
}

TEST(CostModel, MeasuresSlowdownByConcurrency) {
  DeviceProfile profile = CpuProfile();
  AddPoint(profile, Timed(PointOf(SquaredNormOp(1000), 1, 1, 1), 1e-6));
  AddPoint(profile, Timed(PointOf(SquaredNormOp(100'000), 1, 1, 1), 1e-4));
  AddPoint(profile, Timed(PointOf(SquaredNormOp(1000), 1, 1, 2), 1.1e-6));
  AddPoint(profile, Timed(PointOf(SquaredNormOp(100'000), 1, 1, 2), 1.9e-4));
  const CostModel model = Make(CpuCluster(2, 2), profile);
  EXPECT_THAT(model.levels(), ElementsAre(1.0, 2.0));
  const OpCost small = model.CostOf(SquaredNormOp(1000));
  EXPECT_NEAR(small.seconds[1], 1.1e-6, 1e-18);
  // Halfway in logarithms: sqrt(1.1 * 1.9) times 1e-5.
  EXPECT_NEAR(model.CostOf(SquaredNormOp(10'000)).seconds[1], 1e-5 * std::sqrt(1.1 * 1.9), 1e-12);
  EXPECT_DOUBLE_EQ(small.measured_threads, 2.0);
}

// A kind without points at a level slows down like the mean of its class. A class without points
// there slows down like the other class.
TEST(CostModel, SlowsUnmeasuredKindsDownLikeTheirClass) {
  DeviceProfile profile = CpuProfile();
  AddPoint(profile, Timed(PointOf(GemmOp(64, 64, 64), 1, 1, 1), 1e-5));
  AddPoint(profile, Timed(PointOf(GemmOp(64, 64, 64), 1, 1, 2), 1.5e-5));
  const CostModel model = Make(CpuCluster(2, 2), profile);
  const OpCost attention = [&] {
    Op op;
    op.kind = OpKind::kAttentionForward;
    op.shape = {
        .rows = 128, .batch = 1, .sequence = 128, .heads = 2, .kv_heads = 2, .head_dim = 16};
    return model.CostOf(op);
  }();
  EXPECT_NEAR(attention.seconds[1] / attention.seconds[0], 1.5, 1e-12);
  const OpCost norm = model.CostOf(SquaredNormOp(1000));
  EXPECT_NEAR(norm.seconds[1] / norm.seconds[0], 1.5, 1e-12);
}

// 4 samples of 512 tokens as 24 documents of 85.3 tokens, rounded to 85: each layer's attention
// costs that of 24 samples of 85. Longer documents than the sample change nothing.
TEST(CostModel, CountsDocumentsAsSamplesOfTheirLength) {
  CostModel model = Make(GpuCluster(1, 8), DeriveProfile(GpuCluster(1, 8)));
  Op op;
  op.op_class = OpClass::kAttention;
  op.shape = {.rows = 2048, .batch = 4, .sequence = 512, .heads = 8, .kv_heads = 8, .head_dim = 64};
  for (const OpKind kind : {OpKind::kAttentionForward, OpKind::kAttentionBackward}) {
    op.kind = kind;
    model.SetDocumentTokens(0);
    const double whole_s = model.CostOf(op).Alone();
    Op documents = op;
    documents.shape.batch = 24, documents.shape.sequence = 85;
    const double expected_s = model.CostOf(documents).Alone();
    EXPECT_LT(expected_s, whole_s);
    model.SetDocumentTokens(512 / 6.0);
    EXPECT_DOUBLE_EQ(model.CostOf(op).Alone(), expected_s);
    EXPECT_DOUBLE_EQ(model.Explain(op).Total(), expected_s);
    model.SetDocumentTokens(600);
    EXPECT_DOUBLE_EQ(model.CostOf(op).Alone(), whole_s);
  }
}

// Queries of documents of 85.3 tokens see (85.3 + 1) / 2 = 43 keys each at the mean, so that a part
// of a sequence of 4 x 512 tokens costs that of a window of 43. A narrower window stays.
TEST(CostModel, CountsDocumentsInPartsOfSequencesAsAWindow) {
  CostModel model = Make(GpuCluster(1, 8), DeriveProfile(GpuCluster(1, 8)));
  Op op;
  op.op_class = OpClass::kAttention;
  op.shape = {.rows = 2048,
              .inner = 2048,
              .batch = 4,
              .sequence = 512,
              .heads = 8,
              .kv_heads = 8,
              .head_dim = 64,
              .cp = 4};
  for (const OpKind kind : {OpKind::kAttentionPartForward, OpKind::kAttentionPartBackward}) {
    for (const std::int64_t window : {0, 43, 7}) {
      op.kind = kind;
      op.shape.window = window;
      model.SetDocumentTokens(0);
      const double whole_s = model.CostOf(op).Alone();
      Op windowed = op;
      windowed.shape.window = window == 0 ? 43 : window;
      const double expected_s = model.CostOf(windowed).Alone();
      EXPECT_TRUE(window > 0 || expected_s < whole_s);
      model.SetDocumentTokens(512 / 6.0);
      EXPECT_DOUBLE_EQ(model.CostOf(op).Alone(), expected_s) << window;
      model.SetDocumentTokens(2048);
      EXPECT_DOUBLE_EQ(model.CostOf(op).Alone(), whole_s) << window;
    }
  }
}

// Compute takes 1.2 times as long during communication, which does not slow down. Copies neither
// slow down nor slow down others.
TEST(CostModel, SlowsComputeOnAGpuDuringCommunication) {
  const CostModel model = Make(GpuCluster(1, 8), DeriveProfile(GpuCluster(1, 8)));
  const OpCost gemm = model.CostOf(GemmOp(512, 512, 512));
  EXPECT_NEAR(gemm.seconds[1] / gemm.seconds[0], 1.2, 1e-12);
  const OpCost sum = model.CostOf(AllReduceOp(1000), {.members = 8, .nodes = 1, .per_node = 8});
  EXPECT_DOUBLE_EQ(sum.seconds[1], sum.seconds[0]);
  EXPECT_DOUBLE_EQ(sum.load, 1.0);
  Op load;
  load.kind = OpKind::kLoadBatch;
  load.op_class = OpClass::kCopy;
  load.shape.elements = 5000;
  const OpCost copy = model.CostOf(load);
  EXPECT_DOUBLE_EQ(copy.load, 0.0);
  EXPECT_NEAR(copy.Alone(), 3e-6 + 20e3 / 14e9, 1e-15);  // 0.7 of 20 GB/s
}

// Each route has its own times, linear between two sizes. Unmeasured routes use the rates. Copies
// without slowdown say nothing about compute.
TEST(CostModel, ReadsCopiesFromTheTableOfTheirRoute) {
  const auto copy = [](Space from, Space to, std::int64_t elements) {
    Op op;
    op.kind = OpKind::kCopy;
    op.op_class = OpClass::kCopy;
    op.from = from;
    op.to = to;
    op.queue = to == Space::kNvme ? Queue::kNvme : Queue::kD2h;
    op.shape.elements = elements;
    return op;
  };
  DeviceProfile profile = CpuProfile();
  for (const int ranks : {1, 2}) {
    AddPoint(profile,
             Timed(PointOf(copy(Space::kDevice, Space::kPinned, 1000), 1, 1, ranks), 1e-3));
    AddPoint(profile,
             Timed(PointOf(copy(Space::kDevice, Space::kPinned, 3000), 1, 1, ranks), 3e-3));
    AddPoint(profile, Timed(PointOf(copy(Space::kPinned, Space::kNvme, 1000), 1, 1, ranks), 5e-3));
    AddPoint(profile, Timed(PointOf(GemmOp(64, 64, 64), 1, 1, ranks), ranks * 1e-5));
  }
  profile.rates.nvme_base_s.value = 1e-4;
  profile.rates.nvme_read_bytes_per_s.value = 4e6;
  const CostModel model = Make(CpuCluster(2, 2), profile);
  const OpCost out = model.CostOf(copy(Space::kDevice, Space::kPinned, 2000));
  EXPECT_NEAR(out.Alone(), 2e-3, 1e-15);
  EXPECT_NEAR(out.seconds[1], 2e-3, 1e-15);
  EXPECT_NEAR(model.CostOf(copy(Space::kPinned, Space::kNvme, 1000)).Alone(), 5e-3, 1e-15);
  EXPECT_DOUBLE_EQ(model.CostOf(copy(Space::kPinned, Space::kNvme, 1000)).load, 0.0);
  EXPECT_NEAR(model.CostOf(copy(Space::kNvme, Space::kPinned, 1000)).Alone(), 1e-4 + 1e-3, 1e-15);
  const OpCost norm = model.CostOf(SquaredNormOp(1000));
  EXPECT_NEAR(norm.seconds[1] / norm.seconds[0], 2.0, 1e-12);
}

TEST(CostModel, ReadsCollectivesFromTheTableOfTheirGroup) {
  DeviceProfile profile = CpuProfile();
  AddPoint(profile, Timed(PointOf(AllReduceOp(1000), 2, 1, 2), 1e-4));
  AddPoint(profile, Timed(PointOf(AllReduceOp(1'000'000), 2, 1, 2), 1e-3));
  AddPoint(profile, Timed(PointOf(AllReduceOp(1000), 8, 1, 8), 4e-4));
  AddPoint(profile, Timed(PointOf(AllReduceOp(1'000'000), 8, 1, 8), 4e-3));
  const CostModel model = Make(CpuCluster(16, 2), profile);
  const OpCost pair = model.CostOf(AllReduceOp(1000), {.members = 2, .nodes = 1, .per_node = 2});
  EXPECT_NEAR(pair.Alone(), 1e-4, 1e-16);
  EXPECT_EQ(pair.provenance, Provenance::kMeasured);
  EXPECT_DOUBLE_EQ(pair.measured_threads, 2.0);
  // 4 is halfway between 2 and 8 in logarithms.
  const OpCost four = model.CostOf(AllReduceOp(1000), {.members = 4, .nodes = 1, .per_node = 4});
  EXPECT_NEAR(four.Alone(), 2e-4, 1e-16);
  EXPECT_EQ(four.provenance, Provenance::kInterpolated);
  const OpCost many = model.CostOf(AllReduceOp(1000), {.members = 16, .nodes = 1, .per_node = 16});
  EXPECT_EQ(many.provenance, Provenance::kExtrapolated);
  EXPECT_GE(many.Alone(), 4e-4);
  EXPECT_DOUBLE_EQ(many.measured_threads, 16.0);
}

TEST(CostModel, TimesBothEndsOfATransferByEither) {
  DeviceProfile profile = CpuProfile();
  Op recv;
  recv.kind = OpKind::kRecv;
  recv.shape.elements = 1000;
  AddPoint(profile, Timed(PointOf(recv, 2, 1, 1), 7e-5));
  const CostModel model = Make(CpuCluster(2, 2), profile);
  Op send = recv;
  send.kind = OpKind::kSend;
  const GroupPlace pair{.members = 2, .nodes = 1, .per_node = 2};
  EXPECT_NEAR(model.CostOf(send, pair).Alone(), 7e-5, 1e-18);
  EXPECT_DOUBLE_EQ(model.CostOf(send, pair).load, 0.0);  // the receiver copies
  EXPECT_DOUBLE_EQ(model.CostOf(recv, pair).load, 1.0);
}

double On(const OpCost& cost, SharedWire wire) {
  return cost.demand[static_cast<std::size_t>(wire)];
}

// A collective uses its connections in both directions, a send in one. A copy to the host leaves
// the device: 20 kB at 14 GB/s are 1.43 of its 4.43 us.
TEST(CostModel, SaysWhichWiresAnOpKeepsBusy) {
  const CostModel model = Make(GpuCluster(2, 8), DeriveProfile(GpuCluster(2, 8)));
  const GroupPlace across{.members = 2, .nodes = 2, .per_node = 1};
  const OpCost sum = model.CostOf(AllReduceOp(std::int64_t{1} << 30), across);
  EXPECT_NEAR(On(sum, SharedWire::kNetworkOut), 1, 1e-4);
  EXPECT_NEAR(On(sum, SharedWire::kNetworkIn), 1, 1e-4);
  EXPECT_EQ(On(sum, SharedWire::kLinkOut), 0);
  Op send = AllReduceOp(std::int64_t{1} << 30);
  send.kind = OpKind::kSend;
  EXPECT_NEAR(On(model.CostOf(send, across), SharedWire::kNetworkOut), 1, 1e-4);
  EXPECT_EQ(On(model.CostOf(send, across), SharedWire::kNetworkIn), 0);
  Op copy;
  copy.kind = OpKind::kCopy;
  copy.op_class = OpClass::kCopy;
  copy.queue = Queue::kD2h;
  copy.from = Space::kDevice;
  copy.to = Space::kPinned;
  copy.shape.elements = 5000;
  const double bytes_s = 20e3 / 14e9;
  EXPECT_NEAR(On(model.CostOf(copy), SharedWire::kPcieOut), bytes_s / (3e-6 + bytes_s), 1e-9);
  EXPECT_EQ(On(model.CostOf(copy), SharedWire::kPcieIn), 0);
  // Threads of one machine share its memory; the levels of concurrency model that, not the demand.
  const CostModel cpu = Make(CpuCluster(2, 2), CpuProfile());
  EXPECT_EQ(cpu.CostOf(AllReduceOp(1000), {.members = 2, .nodes = 1, .per_node = 2}).demand,
            WireDemand{});
}

TEST(CostModel, WaitsForTheSlowestOfManyDevices) {
  const CostModel model = Make(GpuCluster(2048, 8), DeriveProfile(GpuCluster(2048, 8)));
  EXPECT_EQ(model.Straggling(1000), 1);
  EXPECT_NEAR(model.Straggling(16384), 1.006886, 1e-6);
  EXPECT_GT(model.Straggling(1001), 1);
  EXPECT_EQ(Make(CpuCluster(2, 2), CpuProfile()).Straggling(5000), 1);
}

TEST(CostModel, ChargesNothingForAGroupOfOne) {
  const CostModel model = Make(GpuCluster(1, 8), DeriveProfile(GpuCluster(1, 8)));
  EXPECT_DOUBLE_EQ(model.CostOf(AllReduceOp(1000), {}).Alone(), 0.0);
}

TEST(CostModel, InterpolatesOverheadsByConcurrency) {
  DeviceProfile profile = CpuProfile();
  profile.overheads = {{OverheadKind::kWake, 1, 10e-6, 0, 0, 1},
                       {OverheadKind::kWake, 3, 30e-6, 0, 0, 1}};
  const CostModel model = Make(CpuCluster(4, 2), profile);
  EXPECT_DOUBLE_EQ(model.Overhead(OverheadKind::kWake, 1), 10e-6);
  EXPECT_DOUBLE_EQ(model.Overhead(OverheadKind::kWake, 2), 20e-6);
  EXPECT_DOUBLE_EQ(model.Overhead(OverheadKind::kWake, 4), 30e-6);
  EXPECT_DOUBLE_EQ(model.Overhead(OverheadKind::kGap, 2), profile.rates.gap_s.value);
}

TEST(CostModel, RefusesProfilesThatNoCostCanBeMadeOf) {
  const auto refusal = [](const auto& change) {
    DeviceProfile profile = CpuProfile();
    change(profile);
    const auto model = CostModel::Make(CpuCluster(2, 2), profile);
    return model.has_value() ? std::string("accepted") : model.error().message;
  };
  EXPECT_THAT(refusal([](auto& p) { p.rates.memory_bytes_per_s.value = 0; }),
              HasSubstr("rates.memory_bytes_per_s 0: must be from 0.001 to 1e+21"));
  EXPECT_THAT(refusal([](auto& p) { p.rates.wake_s.value = -1; }), HasSubstr("rates.wake_s -1"));
  EXPECT_THAT(refusal([](auto& p) { p.rates.overlap_slowdown.value = 0.5; }),
              HasSubstr("overlap_slowdown 0.5: must be from 1 to 100"));
  EXPECT_THAT(refusal([](auto& p) { p.points.push_back(Timed(PointOf(GemmOp(1, 1, 1)), 0)); }),
              HasSubstr("points[0] (gemm): seconds 0: must be from 1e-12 to 1e6"));
  EXPECT_THAT(refusal([](auto& p) { p.points.push_back(Timed(PointOf(GemmOp(1, 0, 1)), 1)); }),
              HasSubstr("points[0] (gemm): a size is missing or 0"));
  EXPECT_THAT(refusal([](auto& p) { p.points.push_back(Timed(PointOf(Op{}), 1)); }),
              HasSubstr("points[0] (opaque)"));
  EXPECT_THAT(refusal([](auto& p) {
                p.overheads.push_back({OverheadKind::kGap, 0, 1e-6, 0, 0, 1});
              }),
              HasSubstr("overheads[0] (gap)"));
}

// Two uses of a measured row of 1 s, and one of a default row of 2 s.
TEST(ProgramCosts, WeighTheirProvenanceBySeconds) {
  ProgramCosts costs;
  costs.seconds = {1.0, 2.0};
  costs.launch_s = {0, 0};
  costs.provenance = {Provenance::kMeasured, Provenance::kDefault};
  costs.error = {0.02, 0.3};
  costs.row_of = {{0, 0}, {1}};
  const CostQuality quality = QualityOf(costs);
  EXPECT_THAT(quality.share, ElementsAre(0.5, 0, 0, 0.5));
  EXPECT_NEAR(quality.error, 0.16, 1e-12);
}

}  // namespace
}  // namespace foretrain
