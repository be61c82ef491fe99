// Offloading tensors, and updating them on host or device, changes no bit.
#include <gtest/gtest.h>

#include <vector>

#include "tests/runtime/equality/equality_cases.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

// A moment has the same value wherever it is stored and updated.
TEST(EqualityToTheBit, HoldsForEveryPlaceOfStateAndActivations) {
  const ModelSpec model = TinyGpt();
  Plan plan = TinyPlan();
  plan.dp = 2;
  plan.zero_stage = 1;
  for (const double clip_norm : {0.0, 0.5}) {
    plan.clip_norm = clip_norm;
    const Trained here = TrainTiny(model, plan);
    for (const OffloadTarget target : {OffloadTarget::kHost, OffloadTarget::kNvme}) {
      Plan offloaded = plan;
      offloaded.offload_activations = target;
      EXPECT_TRUE(SameBits(here, TrainTiny(model, offloaded))) << Describe(offloaded);
      offloaded.offload_optimizer = target;
      EXPECT_TRUE(SameBits(here, TrainTiny(model, offloaded))) << Describe(offloaded);
      offloaded.offload_fraction = 0.4;
      EXPECT_TRUE(SameBits(here, TrainTiny(model, offloaded))) << Describe(offloaded);
      offloaded.stream_optimizer = true;
      EXPECT_TRUE(SameBits(here, TrainTiny(model, offloaded))) << Describe(offloaded);
      TrainingOptions plain;
      plain.poison = false;
      EXPECT_TRUE(SameBits(here, TrainTiny(model, offloaded, plain))) << Describe(offloaded);
    }
  }
}

// Other strategies act on gradients and parameters alike, wherever these are stored.
TEST(EqualityToTheBit, HoldsForOffloadBesideScaledLossesAndQuantizedGathers) {
  Plan plan = TinyPlan();
  plan.dp = 2;
  plan.zero_stage = 3;
  plan.loss_scale = 1024;
  plan.gather_format = GatherFormat::kInt8;
  for (const int depth : {0, 1, 3}) {
    plan.prefetch_depth = depth;
    plan.clip_norm = depth == 1 ? 0.0 : 0.5;
    const Trained here = TrainTiny(TinyLlama(), plan);
    for (const OffloadTarget target : {OffloadTarget::kHost, OffloadTarget::kNvme}) {
      Plan offloaded = plan;
      offloaded.offload_optimizer = target;
      EXPECT_TRUE(SameBits(here, TrainTiny(TinyLlama(), offloaded))) << Describe(offloaded);
      offloaded.offload_parameters = target;
      EXPECT_TRUE(SameBits(here, TrainTiny(TinyLlama(), offloaded))) << Describe(offloaded);
      offloaded.stream_optimizer = true;
      EXPECT_TRUE(SameBits(here, TrainTiny(TinyLlama(), offloaded))) << Describe(offloaded);
    }
  }
}

TEST(EqualityToTheBit, HoldsWithAndWithoutPoisonOffTheDevice) {
  for (const Case& one : OffloadCases()) {
    TrainingOptions plain;
    plain.poison = false;
    EXPECT_TRUE(SameBits(TrainTiny(TinyGpt(), one.plan), TrainTiny(TinyGpt(), one.plan, plain)))
        << one.name;
  }
}

}  // namespace
}  // namespace foretrain
