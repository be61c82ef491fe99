// Each tensor's computed gradient is the slope of the computed loss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu/cpu_device.h"
#include "runtime/parameters/tensors.h"
#include "tests/runtime/equality/feature_models.h"
#include "tests/runtime/equality/training_by_hand.h"
#include "tests/runtime/executor/recording_sink.h"
#include "tests/runtime/gather_tensors.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

// The same batch in every step.
struct FixedBatches : BatchSource {
  Result<void> Fill(const BatchRequest& request, std::span<std::int32_t> ids,
                    std::span<std::int32_t> targets) override {
    const auto base = static_cast<std::size_t>(request.micro_batch * 100);
    const std::string& text = TrainingText();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ids[i] = static_cast<unsigned char>(text[base + i]);
    }
    for (std::size_t i = 0; i < targets.size(); ++i) {
      targets[i] = static_cast<unsigned char>(text[base + i + 1]);
    }
    return {};
  }
};

class Slope {
 public:
  Slope(const ModelSpec& model, const Plan& plan) {
    auto program = Compile(model, plan);
    EXPECT_TRUE(program.has_value());
    program_ = std::make_shared<const Program>(*std::move(program));
    MakeExecutor();
    EXPECT_TRUE(FillParameters(*executor_, InitialWeights(model, 3)).has_value());
    start_ = GatherTensors(*executor_, GatheredState::kParameters);
    // Moves norms and biases away from their start, where some slopes vanish.
    for (auto& [name, tensor] : start_) {
      for (std::size_t i = 0; i < tensor.values.size(); ++i) {
        tensor.values[i] += 0.02F * std::sin(static_cast<float>(i) + 0.1F);
      }
    }
    loss_ = LossAt(start_);
    gradients_ = GatherTensors(*executor_, GatheredState::kGradients);
  }

  // Always uses a run's first step, whose dropout masks do not depend on the parameters.
  double LossAt(const TensorMap& parameters) {
    MakeExecutor();
    EXPECT_TRUE(FillParameters(*executor_, SourceOf(parameters)).has_value());
    RecordingSink sink;
    FixedBatches batches;
    EXPECT_TRUE(executor_->Run(1, batches, sink).has_value());  // the learning rate is 0
    return sink.scalars.empty() ? NAN : static_cast<double>(*sink.scalars.back().loss);
  }

  // Slope of the loss along the gradient g of one tensor, divided by |g|^2. It is 1 up to rounding
  // of the losses (2^-24 * 5.5 over the change) and the fifth derivative. Fourth-order differences:
  // (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12 h.
  struct Ratio {
    double ratio = 0;
    double change = 0;  // of the loss, between f(-h) and f(h)
  };
  // Limits of a step: `step` in root mean square of the elements, `loss_step` of the loss.
  Ratio RatioAlong(const std::string& name, double step, double loss_step) {
    const Tensor& gradient = gradients_.at(name);
    double squared = 0;
    for (const float g : gradient.values) squared += double{g} * g;
    if (squared == 0) return {NAN, 0};
    // A step 2 h changes the loss by at most twice loss_step, and elements by twice `step`.
    const double rms = std::sqrt(squared / static_cast<double>(gradient.values.size()));
    const double h = std::min(loss_step / squared, step / rms);
    TensorMap at = start_;
    const auto move = [&](double by) {
      for (std::size_t i = 0; i < gradient.values.size(); ++i) {
        at.at(name).values[i] =
            static_cast<float>(start_.at(name).values[i] + by * double{gradient.values[i]});
      }
      return LossAt(at);
    };
    const double near = move(h) - move(-h);
    const double far = move(2 * h) - move(-2 * h);
    return {(8 * near - far) / (12 * h * squared), 2 * h * squared};
  }

  const TensorMap& gradients() const { return gradients_; }
  double loss() const { return loss_; }

 private:
  void MakeExecutor() {
    executor_ = nullptr;
    auto made = Executor::Make(program_, CpuDeviceApi(), clock_, {});
    EXPECT_TRUE(made.has_value()) << made.error().message;
    executor_ = *std::move(made);
  }

  RealClock clock_;
  std::shared_ptr<const Program> program_;
  std::unique_ptr<Executor> executor_;
  TensorMap start_, gradients_;
  double loss_ = 0;
};

// A step of 0.02 is as large as the elements.
void ExpectSlopes(const ModelSpec& model, double step = 0.02, double loss_step = 0.0025,
                  const Plan& plan = TinyPlan()) {
  Slope slope(model, plan);
  ASSERT_TRUE(std::isfinite(slope.loss()));
  for (const auto& [name, gradient] : slope.gradients()) {
    // A key's bias shifts all scores of a query equally, which softmax cancels: the exact slope is
    // zero.
    if (name.ends_with("attention.k.bias")) continue;
    // With a shorter step, rounding grows and the fifth derivative falls. The best of four steps
    // counts: a wrong gradient is wrong at each of them.
    double nearest = NAN, allowed = 0;
    for (const double share : {1.0, 0.4, 0.2, 0.1}) {
      const auto [ratio, change] = slope.RatioAlong(name, share * step, share * loss_step);
      if (std::abs(nearest - 1) <= std::abs(ratio - 1)) continue;
      nearest = ratio;
      // A loss of 5.5 is accurate to 2^-22 and is the sum of 8 parts.
      allowed = 0.01 + 1e-6 / change;
      if (std::abs(nearest - 1) <= allowed) break;
    }
    EXPECT_NEAR(nearest, 1.0, allowed) << name;
  }
}

TEST(Gradient, IsTheSlopeOfTheLossOfAGpt) { ExpectSlopes(TinyGpt(true)); }
TEST(Gradient, IsTheSlopeOfTheLossOfAnUntiedGpt) { ExpectSlopes(TinyGpt(false)); }
TEST(Gradient, IsTheSlopeOfTheLossWithinAWindow) {
  ModelSpec model = TinyLlama();
  model.attention_window = 3;
  model.global_attention_every = 4;
  ExpectSlopes(model);
}
TEST(Gradient, IsTheSlopeOfTheLossOfALlama) { ExpectSlopes(TinyLlama()); }

// Every token goes to all experts, so that no choice changes. The balance is not part of the loss
// that is read.
ModelSpec WithoutChoices(ModelSpec model) {
  model.experts_per_token = model.experts;
  model.expert_groups = model.groups_per_token = 0;
  model.balance_weight = 0;
  model.balance_tokens = 0;
  return model;
}

// A step's masks do not depend on the parameters.
TEST(Gradient, IsTheSlopeOfTheLossWithDropout) {
  Plan plan = TinyPlan();
  plan.dropout = plan.attention_dropout = 0.2;
  for (const AttentionAlgorithm attention :
       {AttentionAlgorithm::kFlash, AttentionAlgorithm::kStandard}) {
    plan.attention = attention;
    SCOPED_TRACE(Describe(plan));
    for (const ModelSpec& model : {TinyGpt(true), TinyLlama()}) {
      ExpectSlopes(model, 0.02, 0.0025, plan);
    }
  }
}

// A RoPE base of 10000 would rotate the last of 4 pairs by only 0.001 a token. With head norms the
// loss curves strongly, which the shorter steps handle. After a norm of the embeddings, slopes of
// q's bias are so small that only a longer step rises above the rounding.
TEST(Gradient, IsTheSlopeOfTheLossOfWhatModelsDifferIn) {
  for (const FeatureModel& feature : FeatureModels()) {
    SCOPED_TRACE(feature.name);
    ModelSpec model = WithoutChoices(feature.model);
    model.rope_theta = 100;
    ExpectSlopes(model, model.embedding_norm ? 0.04 : 0.02);
  }
}

// The sum of all losses with MTP layers. The norm of their embeddings, few of which are used,
// curves within a fifth of the usual step: the shortest steps handle it.
TEST(Gradient, IsTheSlopeOfTheLossOfLatentAttentionAndMtpLayers) {
  ModelSpec two = TinyMtp();
  two.predict_ahead = 2;
  for (const ModelSpec& of : {TinyLatent(), TinyMtp(), two}) {
    SCOPED_TRACE(of.name + ' ' + std::to_string(of.predict_ahead));
    ModelSpec model = WithoutChoices(of);
    model.rope_theta = 100;
    ExpectSlopes(model, 0.01);
  }
}

// A router's softmax curves within a step of 0.02.
TEST(Gradient, IsTheSlopeOfTheLossOfAMixtureOfExperts) {
  ModelSpec model = WithoutChoices(TinyExperts());
  for (const RouterKind router : {RouterKind::kTopKSoftmax, RouterKind::kSoftmaxTopK}) {
    model.router = router;
    ExpectSlopes(model, 0.01);
  }
}

}  // namespace
}  // namespace foretrain
