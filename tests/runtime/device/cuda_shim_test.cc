// Training with the CUDA kernels executed on the host (tests/plugins/shim/host_shim.h), compared
// with the CPU's kernels.
#include <gtest/gtest.h>

#include <string>

#include "tests/runtime/device/later/later_device.h"
#include "tests/runtime/equality/equality_cases.h"
#include "tests/runtime/equality/equality_check.h"
#include "tests/runtime/training.h"

#if FORETRAIN_HAVE_CUDA_SHIM
#include "tests/plugins/shim/shim_device.h"
#endif

namespace foretrain {
namespace {

class OnCudaShim : public testing::TestWithParam<Case> {};

// The kernels add the same fp32 products in another order, as plans do, so their tolerance applies.
TEST_P(OnCudaShim, PlansTrainAsOnTheCpu) {
#if !FORETRAIN_HAVE_CUDA_SHIM || defined(__SANITIZE_THREAD__)
  GTEST_SKIP()
      << "the shim's fibers are for x86-64 without ThreadSanitizer; preset release runs this "
         "there";
#else
  ModelSpec model = TinyGpt();
  model.layers = 2;
  Plan plan = GetParam().plan;
  plan.global_batch = 4;
  plan.clip_norm = 0.5;
  TrainingOptions options;
  options.steps = 3;
  const Trained expected = TrainTiny(model, plan, options);
  Later().Reset();
  for (const FtDeviceApi* api : {&ShimDeviceApi(), &LaterDeviceApi(ShimDeviceApi())}) {
    options.api = api;
    const Trained actual = TrainTiny(model, plan, options);
    ASSERT_EQ(actual.losses.size(), expected.losses.size());
    for (std::size_t step = 0; step < expected.losses.size(); ++step) {
      EXPECT_NEAR(actual.losses[step], expected.losses[step],
                  kLossTolerance * expected.losses[step])
          << "step " << step;
      EXPECT_NEAR(actual.squared_norms[step], expected.squared_norms[step],
                  10 * kLossTolerance * expected.squared_norms[step])
          << "step " << step;
    }
  }
#endif
}

INSTANTIATE_TEST_SUITE_P(
    Plans, OnCudaShim,
    testing::Values(Case{"OneRank", TinyPlan()}, Case{"Dp2", With([](Plan& p) { p.dp = 2; })},
                    Case{"Pp2Recompute",
                         With([](Plan& p) { p.pp = 2, p.recompute = RecomputeKind::kFull; })},
                    Case{"Tp2SequenceVocab", With([](Plan& p) {
                           p.tp = 2, p.sequence_parallel = p.vocab_parallel = true;
                         })},
                    Case{"Dp2Zero3", With([](Plan& p) { p.dp = 2, p.zero_stage = 3; })},
                    Case{"Dp2Zero1Offload", With([](Plan& p) {
                           p.dp = 2, p.zero_stage = 1;
                           p.offload_optimizer = p.offload_activations = OffloadTarget::kHost;
                         })},
                    Case{"Epilogues", With([](Plan& p) { p.fuse = FusionKind::kAll; })},
                    Case{"Tp2EpiloguesRecompute", With([](Plan& p) {
                           p.tp = 2, p.fuse = FusionKind::kAll;
                           p.recompute = RecomputeKind::kFull;
                         })},
                    Case{"Cp2", With([](Plan& p) { p.cp = 2; })},
                    Case{"Cp2Documents", With([](Plan& p) { p.cp = 2, p.documents = true; })},
                    Case{"Dp2Tp2Zero2Adafactor", With([](Plan& p) {
                           p.dp = p.tp = 2, p.zero_stage = 2;
                           p.optimizer = OptimizerKind::kAdafactor;
                         })}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace foretrain
