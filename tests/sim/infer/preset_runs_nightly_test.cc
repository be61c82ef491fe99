// The plan read from the traces of every preset at the size of a toy: what is told is right, but
// for the fields that kUndecided names.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/sim/infer/toy_runs.h"
#include "tests/sim/models.h"
#include "tests/sim/preset_plans.h"

namespace foretrain {
namespace {

// Fields of presets whose step looks like another's. deepcompile keeps all parameters of a toy
// whole, as ZeRO-2 does. A step of PipeDream by itself has the order of 1F1B: it differs in that
// steps overlap.
const std::map<std::string, std::string> kUndecided = {
    {"deepcompile", "zero_stage"}, {"pipedream", "schedule"}, {"pipedream-2bw", "schedule"}};

class InferredPresets : public testing::TestWithParam<Preset> {};

TEST_P(InferredPresets, SayNothingWrong) {
  ModelSpec model = Gpt2();
  model.layers = 8;
  model.hidden = 256;
  model.heads = model.kv_heads = 8;
  model.head_dim = 32;
  model.ffn_hidden = 1024;
  model.vocab = 512;
  if (GetParam().Has(PlanFieldOf("ep"))) {
    model.experts = 8;
    model.experts_per_token = 2;
    model.expert_ffn_hidden = 256;
  }
  model = ModelFor(GetParam(), model);
  Plan plan = ToyPlan(GetParam(), model, 8);
  plan.sequence = 128;
  SCOPED_TRACE(Describe(plan));
  const auto undecided = kUndecided.find(GetParam().name);
  const InferredPlan inferred = InferredFrom(model, plan);
  for (const std::string& wrong : WrongFields(inferred, plan)) {
    const bool expected = undecided != kUndecided.end() && wrong.starts_with(undecided->second);
    EXPECT_TRUE(expected) << wrong;
  }
  // At least the degrees are told.
  for (const char* degree : {"dp", "tp", "pp", "cp", "ep"}) {
    EXPECT_NE(inferred.Value(degree), "") << degree;
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, InferredPresets, testing::ValuesIn(AllPresets()), NameOfPreset);

}  // namespace
}  // namespace foretrain
