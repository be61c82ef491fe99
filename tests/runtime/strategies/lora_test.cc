// Training of low-rank adapters: compared with a model with merged weights; what stays frozen; and
// that every plan trains the same adapters as one rank.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/equality/equality_cases.h"
#include "tests/runtime/equality/equality_check.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

constexpr int kRank = 4;
constexpr double kAlpha = 6.0;

Plan Lora(Plan plan) {
  plan.method = TrainingMethod::kLora;
  plan.lora_rank = kRank;
  plan.lora_alpha = kAlpha;
  plan.bucket_bytes = 4'000;  // several buckets
  return plan;
}
Plan Clipped(Plan plan) {
  plan.clip_norm = 0.5;
  return plan;
}

class LoraEquality : public testing::TestWithParam<std::pair<const char*, Case>> {};

TEST_P(LoraEquality, LossesAndGradientsAreThoseOfOneRank) {
  const auto& [family, one] = GetParam();
  const ModelSpec model = std::string(family) == "Gpt" ? TinyGpt() : TinyLlama();
  // Adapters alone learn less in four steps.
  ExpectTrainsAlike(model, Clipped(Lora(TinyPlan())), Clipped(Lora(one.plan)), /*learns=*/0.02);
}

std::vector<std::pair<const char*, Case>> Of(const char* family, const std::vector<Case>& cases) {
  std::vector<std::pair<const char*, Case>> all;
  for (const Case& one : cases) all.emplace_back(family, one);
  return all;
}
std::string NameOfTest(const testing::TestParamInfo<std::pair<const char*, Case>>& test) {
  return std::string(test.param.first) + "_" + test.param.second.name;
}

std::vector<Case> OffloadedCases() {
  return {
      {"OptimizerOnHost", With([](Plan& p) { p.offload_optimizer = OffloadTarget::kHost; })},
      {"Dp2Zero1StreamedHalf", With([](Plan& p) {
         p.dp = 2, p.zero_stage = 1, p.offload_optimizer = OffloadTarget::kHost;
         p.stream_optimizer = true, p.offload_fraction = 0.5;
       })},
      {"Dp2Zero3ParametersOnHost", With([](Plan& p) {
         p.dp = 2, p.zero_stage = 3;
         p.offload_parameters = p.offload_optimizer = OffloadTarget::kHost;
       })},
      {"Pp2Activations", With([](Plan& p) {
         p.pp = 2, p.offload_activations = OffloadTarget::kHost;
         p.recompute = RecomputeKind::kSelective;
       })},
  };
}

INSTANTIATE_TEST_SUITE_P(Plans, LoraEquality, testing::ValuesIn(Of("Llama", Cases())), NameOfTest);
INSTANTIATE_TEST_SUITE_P(GptPlans, LoraEquality, testing::ValuesIn(Of("Gpt", Cases())), NameOfTest);
INSTANTIATE_TEST_SUITE_P(ContextPlans, LoraEquality, testing::ValuesIn(Of("Llama", ContextCases())),
                         NameOfTest);
INSTANTIATE_TEST_SUITE_P(OffloadedPlans, LoraEquality,
                         testing::ValuesIn(Of("Llama", OffloadedCases())), NameOfTest);

bool IsAdapter(const std::string& name) { return name.find(".lora_") != std::string::npos; }

TEST(Lora, TrainsAdaptersAlone) {
  TrainingOptions none;
  none.steps = 0;
  for (const ModelSpec& model : {TinyGpt(), TinyLlama()}) {
    Plan plan = Lora(TinyPlan());
    plan.dp = plan.tp = 2;
    plan.zero_stage = 2;
    const Trained trained = TrainTiny(model, plan);
    const Trained base = TrainTiny(model, TinyPlan(), none);
    // 4 linears a layer have an A; each of q, k, v and of gate and up has its own B.
    const std::size_t adapters = model.mlp == MlpKind::kSwiglu ? 4 + 7 : 4 + 6;
    EXPECT_EQ(trained.gradients.size(), 4 * adapters);
    EXPECT_EQ(trained.parameters.size(), base.parameters.size() + 4 * adapters);
    for (const auto& [name, tensor] : trained.gradients) EXPECT_TRUE(IsAdapter(name)) << name;
    for (const auto& [name, tensor] : base.parameters) {
      EXPECT_EQ(trained.parameters.at(name).values, tensor.values) << name;
    }
  }
}

TEST(Lora, BeginsAsTheModelItAdapts) {
  const Trained full = TrainTiny(TinyLlama(), TinyPlan());
  const Trained lora = TrainTiny(TinyLlama(), Lora(TinyPlan()));
  EXPECT_EQ(lora.losses[0], full.losses[0]);
  EXPECT_NE(lora.losses[1], full.losses[1]);
}

// c[m, n] = scale * a[m, k] b[k, n]; trans_*: stored transposed.
std::vector<double> Product(const Tensor& a, bool trans_a, const Tensor& b, bool trans_b,
                            double scale) {
  const std::int64_t m = trans_a ? a.cols : a.rows, k = trans_a ? a.rows : a.cols;
  const std::int64_t n = trans_b ? b.rows : b.cols;
  std::vector<double> c(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        sum += double{a.values[static_cast<std::size_t>(trans_a ? l * m + i : i * k + l)]} *
               b.values[static_cast<std::size_t>(trans_b ? j * k + l : l * n + j)];
      }
      c[static_cast<std::size_t>(i * n + j)] = scale * sum;
    }
  }
  return c;
}

struct Adapted {
  std::string weight, a, b;
};
std::vector<Adapted> AdaptedWeights(const ModelSpec& model) {
  const bool gated = model.mlp == MlpKind::kSwiglu;
  std::vector<std::pair<std::string, std::string>> linears = {
      {"attention.q", "attention.qkv"},
      {"attention.k", "attention.qkv"},
      {"attention.v", "attention.qkv"},
      {"attention.out", "attention.out"},
      {"mlp.up", gated ? "mlp.gate_up" : "mlp.up"},
      {"mlp.down", "mlp.down"}};
  if (gated) linears.emplace_back("mlp.gate", "mlp.gate_up");
  std::vector<Adapted> all;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer) + ".";
    for (const auto& [name, shared] : linears) {
      all.push_back({prefix + name + ".weight", prefix + shared + ".lora_A.weight",
                     prefix + name + ".lora_B.weight"});
    }
  }
  return all;
}

TensorSource SourceOf(const TensorMap& tensors) {
  return [&tensors](const ParameterPlace& place, std::int64_t row, std::int64_t col,
                    std::span<float> out) -> Result<void> {
    const Tensor& tensor = tensors.at(place.name);
    std::copy_n(tensor.values.begin() + row * tensor.cols + col, out.size(), out.begin());
    return {};
  };
}

// Replacing W by W + s B A gives the same function. With G its gradient, the adapters' gradients
// are s G A^T and s B^T G. An A shared by several weights has the sum of theirs.
TEST(Lora, ComputesAndDifferentiatesAsTheMergedModelDoes) {
  for (const ModelSpec& model : {TinyGpt(), TinyLlama()}) {
    const TensorMap trained = TrainTiny(model, Lora(TinyPlan())).parameters;
    TensorMap merged;
    for (const auto& [name, tensor] : trained) {
      if (!IsAdapter(name)) merged[name] = tensor;
    }
    const double scale = kAlpha / kRank;
    for (const Adapted& one : AdaptedWeights(model)) {
      const auto change = Product(trained.at(one.b), false, trained.at(one.a), false, scale);
      std::vector<float>& values = merged.at(one.weight).values;
      ASSERT_EQ(change.size(), values.size()) << one.weight;
      double size = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(values[i] + change[i]);
        size = std::max(size, std::abs(change[i]));
      }
      EXPECT_GT(size, 1e-3) << one.b << " has not learnt";
    }
    TrainingOptions options;
    options.steps = 1;
    options.weights = SourceOf(trained);
    const Trained adapted = TrainTiny(model, Lora(TinyPlan()), options);
    options.weights = SourceOf(merged);
    const Trained whole = TrainTiny(model, TinyPlan(), options);
    EXPECT_NEAR(adapted.losses[0], whole.losses[0], kLossTolerance * whole.losses[0]);
    TensorMap expected;
    for (const Adapted& one : AdaptedWeights(model)) {
      const Tensor& gradient = whole.gradients.at(one.weight);
      const Tensor& a = trained.at(one.a);
      const Tensor& b = trained.at(one.b);
      const auto of_b = Product(gradient, false, a, true, scale);
      expected[one.b] = {b.rows, b.cols, std::vector<float>(of_b.begin(), of_b.end())};
      const auto of_a = Product(b, true, gradient, false, scale);
      Tensor& sum = expected.try_emplace(one.a, Tensor{a.rows, a.cols, {}}).first->second;
      sum.values.resize(of_a.size());
      for (std::size_t i = 0; i < of_a.size(); ++i) {
        sum.values[i] += static_cast<float>(of_a[i]);
      }
    }
    EXPECT_LT(LargestDifference(expected, adapted.gradients), kGradientTolerance);
  }
}

TEST(Lora, HoldsToTheBitForWhatOnlyMovesOrRepeatsWork) {
  const ModelSpec model = TinyLlama();
  Plan plan = Lora(TinyPlan());
  plan.pp = 2;
  const Trained plain = TrainTiny(model, plan);
  const auto same = [&](const Plan& other) {
    const Trained trained = TrainTiny(model, other);
    EXPECT_EQ(trained.losses, plain.losses) << Describe(other);
    EXPECT_EQ(LargestDifference(trained.parameters, plain.parameters), 0.0) << Describe(other);
  };
  for (const RecomputeKind recompute : {RecomputeKind::kSelective, RecomputeKind::kFull}) {
    Plan other = plan;
    other.recompute = recompute;
    same(other);
    other.schedule = ScheduleKind::kZbH1;
    same(other);
  }
  Plan fused = plan;
  fused.fuse = FusionKind::kAll;
  same(fused);
}

TEST(Lora, TrainsWithAndWithoutPoisonToTheSameBits) {
  TrainingOptions plain;
  plain.poison = false;
  for (const Case& one :
       {Case{"", With([](Plan& p) { p.dp = 2, p.zero_stage = 3, p.loss_scale = 64; })},
        Case{"", With([](Plan& p) {
               p.tp = p.pp = 2, p.schedule = ScheduleKind::kZbH1, p.sequence_parallel = true;
               p.vocab_parallel = true, p.loss_chunks = 3, p.tp_tiles = 2;
               p.recompute = RecomputeKind::kSelective;
             })},
        Case{"", With([](Plan& p) { p.cp = 2, p.mlp_tiles = 3, p.zero_stage = 2; })}}) {
    const Plan plan = Lora(one.plan);
    EXPECT_EQ(TrainTiny(TinyLlama(), plan).losses, TrainTiny(TinyLlama(), plan, plain).losses)
        << Describe(plan);
  }
}

}  // namespace
}  // namespace foretrain
