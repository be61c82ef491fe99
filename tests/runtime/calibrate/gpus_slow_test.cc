// Calibrates two asynchronous GPUs emulated on this machine's processors, with the tests' NCCL
// between them. Checks the points between devices, and that predictions use them. Slow because of
// the grids.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kernels/cpu/cpu_device.h"
#include "runtime/calibrate/calibrate.h"
#include "runtime/nccl/nccl_world.h"
#include "sim/config/catalogue/catalogue.h"
#include "sim/cost/cost_model.h"
#include "tests/runtime/device/fake_nccl_library.h"
#include "tests/runtime/device/later/later_device.h"
#include "tests/runtime/device/later/later_memory.h"

namespace foretrain {
namespace {

TEST(CalibrateGpus, TimesWhatTheyTellEachOtherAndWhatThatTakesFromCompute) {
  Later().Reset();
  Later().devices = 2;
  FakeNcclControl().Reset();
  FakeNcclControl().give = &GiveLater;
  FakeNcclControl().reach = &ReachableLater;
  const auto catalogue = BuiltInCatalogue();
  ASSERT_TRUE(catalogue.has_value());
  const auto cluster = ParseCluster("1x2xH100-80GB-SXM", *catalogue);
  ASSERT_TRUE(cluster.has_value()) << cluster.error().message;
  CalibrateOptions options;
  options.cluster = *cluster;
  options.seconds = 10;
  options.grid = true;
  options.devices = {0, 1};
  options.world = NcclWorldMaker(FakeNcclApi());
  options.gpu = {.max = 8192, .gemm = 64, .elements = 1 << 20};
  options.nvme.folder = testing::TempDir();
  RealClock clock;
  auto profile = Calibrate(options, LaterDeviceApi(CpuDeviceApi()), clock);
  // On a busy machine it may happen that no product runs beside an all-reduce.
  for (int more = 0; more < 4 && profile.has_value() &&
                     profile->rates.overlap_slowdown.provenance != Provenance::kMeasured;
       ++more) {
    profile = Calibrate(options, LaterDeviceApi(CpuDeviceApi()), clock);
  }
  ASSERT_TRUE(profile.has_value()) << profile.error().message;
  std::map<OpKind, std::set<std::int64_t>> sizes;
  for (const ProfilePoint& point : profile->points) {
    if (IsCommunication(point.kind)) {
      EXPECT_EQ(point.group, 2);
      sizes[point.kind].insert(point.shape.elements);
    }
  }
  for (const OpKind kind : {OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kAllGather,
                            OpKind::kAllToAll, OpKind::kRotate, OpKind::kSend}) {
    EXPECT_EQ(sizes[kind].size(), 4U) << Name(kind);  // scales 1, 64, 1024, 8192
  }
  EXPECT_EQ(profile->rates.overlap_slowdown.provenance, Provenance::kMeasured);
  EXPECT_GE(profile->rates.overlap_slowdown.value, 1);
  EXPECT_EQ(profile->rates.link_bytes_per_s.provenance, Provenance::kMeasured);
  EXPECT_EQ(Later().foreign, 0);
  EXPECT_EQ(Later().Live(), 0);
  EXPECT_EQ(FakeNcclControl().live, 0);

  // A prediction uses the measured all-reduce, not the assumed one.
  const auto costs = CostModel::Make(*cluster, *profile);
  ASSERT_TRUE(costs.has_value()) << costs.error().message;
  const auto point =
      std::find_if(profile->points.begin(), profile->points.end(), [](const ProfilePoint& at) {
        return at.kind == OpKind::kAllReduce && at.shape.elements == 8192 * 16 * 2;
      });
  ASSERT_TRUE(point != profile->points.end());
  Op op;
  op.kind = OpKind::kAllReduce;
  op.op_class = OpClass::kDpComm;
  op.group = GroupKind::kDp;
  op.queue = Queue::kReduce;
  op.shape.elements = point->shape.elements;
  GroupPlace place;
  place.members = place.per_node = 2;
  const OpCost cost = costs->CostOf(op, place);
  EXPECT_NEAR(cost.seconds.front(), point->seconds, 0.02 * point->seconds);
  EXPECT_NE(cost.provenance, Provenance::kDefault);
}

}  // namespace
}  // namespace foretrain
