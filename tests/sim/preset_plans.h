// Presets at the size of a toy, for tests that compile, simulate or train all of them.
#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <vector>

#include "sim/config/plan/preset.h"

namespace foretrain {

// The built-in presets; fails the test where they cannot be read.
inline std::vector<Preset> AllPresets() {
  auto presets = BuiltInPresets();
  EXPECT_TRUE(presets.has_value()) << presets.error().message;
  return presets.value_or(std::vector<Preset>{});
}

// `model` as the preset can train it: an update after each micro-batch leaves no time to sum the
// gradients of a table that two stages hold.
inline ModelSpec ModelFor(const Preset& preset, ModelSpec model) {
  if (preset.plan.UpdatesEachMicroBatch()) model.tied_embeddings = false;
  return model;
}

// The preset's plan on `ranks` ranks: four micro-batches of one sample of 16 tokens a stage.
inline Plan ToyPlan(const Preset& preset, const ModelSpec& model, int ranks) {
  Plan plan;
  SpreadRanks(preset, model, ranks, {}, plan);
  ApplyPreset(preset, {}, plan);
  plan.sequence = 16;
  plan.micro_batch = 1;
  plan.global_batch = std::int64_t{4} * plan.dp * plan.pp;
  return plan;
}

// "megatron-sp" -> "megatron_sp".
inline std::string NameOfPreset(const testing::TestParamInfo<Preset>& test) {
  std::string name = test.param.name;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

inline void PrintTo(const Preset& preset, std::ostream* out) { *out << preset.name; }

}  // namespace foretrain
