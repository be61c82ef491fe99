// Training in 8 bits compared with 16 bits, and on the CUDA kernels compared with the CPU. Slow:
// models are trained twice, and the host executes a GPU's kernels.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/runtime/training.h"

#if FORETRAIN_HAVE_CUDA_SHIM
#include "tests/plugins/shim/shim_device.h"
#endif

namespace foretrain {
namespace {

Plan In(Precision precision, const Plan& plan = TinyPlan()) {
  Plan in = plan;
  in.precision = precision;
  return in;
}

// Two layers whose rows are multiples of 128, also on two tensor-parallel ranks.
ModelSpec Wide(ModelSpec model) {
  model.layers = 2;
  model.hidden = 256;
  model.head_dim = 64;
  model.ffn_hidden = 256;
  return model;
}
ModelSpec WideExperts() {
  ModelSpec model = Wide(TinyExperts());
  model.expert_ffn_hidden = 128;
  model.shared_ffn_hidden = 256;
  return model;
}

// A cast to e4m3 has an error of at most 2^-4 of a number, and 2^-4 / sqrt(3) * 0.7 = 0.025 in root
// mean square. A product of two then has 0.036 of its terms, and with independent errors so has a
// linear's output. Logits start near 0, so the loss moves by only a part of this: 1 %. Over 12
// steps the loss falls as in 16 bits, within a tenth of its decrease.
TEST(Fp8, LossesAreNearThoseOf16Bits) {
  TrainingOptions longer;
  longer.steps = 12;
  struct Run {
    ModelSpec model;
    Precision precision;
  };
  const std::vector<Run> runs = {{TinyGpt(true), Precision::kFp8},
                                 {TinyLlama(), Precision::kFp8},
                                 {TinyExperts(), Precision::kFp8},
                                 {TinyLatent(), Precision::kFp8},
                                 {Wide(TinyGpt(true)), Precision::kFp8Block},
                                 {WideExperts(), Precision::kFp8Block}};
  for (const auto& [model, precision] : runs) {
    SCOPED_TRACE(model.name + " " + std::string(Name(precision)));
    Plan plan = In(precision);
    if (model.hidden > 32) plan.global_batch = 4, longer.learning_rate = 1e-3F;
    const Trained wide = TrainTiny(model, In(Precision::kBf16, plan), longer);
    const Trained in = TrainTiny(model, plan, longer);
    ASSERT_EQ(in.losses.size(), wide.losses.size());
    EXPECT_NEAR(in.losses[0], wide.losses[0], 1e-2 * wide.losses[0]);
    EXPECT_NE(in.losses[0], wide.losses[0]) << "nothing was cast";
    const double fall = wide.losses.front() - wide.losses.back();
    EXPECT_GT(fall, 0.3) << "it does not learn";
    EXPECT_NEAR(in.losses.front() - in.losses.back(), fall, 0.1 * fall);
  }
}

// The kernels add the same products in another order. A sum may then round to the neighbouring
// 16-bit number, and that to another code: 2^-4 of one number of a tensor.
TEST(Fp8, TheCudaKernelsTrainAsTheCpuDoes) {
#if !FORETRAIN_HAVE_CUDA_SHIM || defined(__SANITIZE_THREAD__)
  GTEST_SKIP()
      << "the shim's fibers are for x86-64 without ThreadSanitizer; preset release runs this "
         "there";
#else
  for (const Precision precision : {Precision::kFp8, Precision::kFp8Block}) {
    for (const bool split : {false, true}) {
      ModelSpec model = TinyGpt();
      model.layers = 1;
      if (precision == Precision::kFp8Block) {
        model.hidden = split ? 256 : 128, model.head_dim = split ? 64 : 32, model.ffn_hidden = 256;
      }
      Plan plan = In(precision);
      plan.global_batch = 2;
      if (split) plan.tp = 2, plan.sequence_parallel = true;
      SCOPED_TRACE(Describe(plan));
      TrainingOptions options;
      options.steps = 2;
      options.learning_rate = 1e-3F;
      const Trained expected = TrainTiny(model, plan, options);
      options.api = &ShimDeviceApi();
      const Trained actual = TrainTiny(model, plan, options);
      ASSERT_EQ(actual.losses.size(), expected.losses.size());
      for (std::size_t step = 0; step < expected.losses.size(); ++step) {
        EXPECT_NEAR(actual.losses[step], expected.losses[step], 1e-3 * expected.losses[step])
            << step;
      }
    }
  }
#endif
}

}  // namespace
}  // namespace foretrain
