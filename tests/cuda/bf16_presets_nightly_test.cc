// Each preset in bf16 through the plugin, as in training_test.cc.
#include <gtest/gtest.h>

#include "tests/cuda/training.h"
#include "tests/sim/preset_plans.h"

namespace foretrain {
namespace {

class Bf16PresetsOnCuda : public testing::TestWithParam<Preset> {};

TEST_P(Bf16PresetsOnCuda, TrainAsOnTheCpu) {
  ExpectPresetTrainsAsOnTheCpu(GetParam(), Precision::kBf16, kBf16OnCudaTolerance);
}

INSTANTIATE_TEST_SUITE_P(Presets, Bf16PresetsOnCuda, testing::ValuesIn(AllPresets()), NameOfPreset);

}  // namespace
}  // namespace foretrain
