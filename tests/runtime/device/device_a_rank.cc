#include "tests/runtime/device/device_a_rank.h"

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_device.h"
#include "runtime/nccl/nccl_world.h"
#include "tests/runtime/device/fake_nccl_library.h"
#include "tests/runtime/device/later/later_device.h"
#include "tests/runtime/device/later/later_memory.h"

namespace foretrain {

void ExpectTrainsAlikeOnDevices(const ModelSpec& model, const Plan& plan, const char* name) {
  TrainingOptions options;
  options.steps = 3;
  const Trained expected = TrainTiny(model, plan, options);
  options.steps = 1;
  const TensorMap gradients = TrainTiny(model, plan, options).gradients;
  options.api = &LaterDeviceApi(CpuDeviceApi());
  options.world = NcclWorldMaker(FakeNcclApi());
  for (int rank = 0; rank < plan.World(); ++rank) options.local.push_back({rank, rank});
  Later().Reset();
  Later().devices = plan.World();
  Later().delays = 5;
  FakeNcclControl().Reset();
  FakeNcclControl().give = &GiveLater;
  FakeNcclControl().reach = &ReachableLater;
  EXPECT_LT(LargestDifference(TrainTiny(model, plan, options).gradients, gradients), 1e-5) << name;
  options.steps = 3;
  const Trained trained = TrainTiny(model, plan, options);
  ASSERT_EQ(trained.losses.size(), expected.losses.size()) << name;
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(trained.losses[i], expected.losses[i], 1e-5F * expected.losses[i]) << name;
  }
  EXPECT_EQ(Later().foreign, 0) << name;
  EXPECT_EQ(Later().Live(), 0) << name;
  EXPECT_EQ(FakeNcclControl().made > 0, plan.World() > 1) << name;
  EXPECT_EQ(FakeNcclControl().live, 0) << name;
  FakeNcclControl().Reset();
}

void ExpectTrainsAlikeOnTwoDevices(const ModelSpec& model, const Plan& plan, const char* name) {
  TrainingOptions options;
  options.steps = 3;
  const Trained expected = TrainTiny(model, plan, options);
  options.api = &LaterDeviceApi(CpuDeviceApi());
  for (int rank = 0; rank < plan.World(); ++rank) {
    options.local.push_back({rank, rank * 2 / plan.World()});
  }
  Later().Reset();
  Later().devices = 2;
  Later().delays = 7;
  EXPECT_TRUE(SameBits(expected, TrainTiny(model, plan, options))) << name;
  EXPECT_EQ(Later().foreign, 0) << name;
  EXPECT_EQ(Later().Live(), 0) << name;
}

}  // namespace foretrain
