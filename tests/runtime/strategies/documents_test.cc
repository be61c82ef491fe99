// Attention that ends at documents, in whole runs: a packed sample trains as its documents do as
// samples of their own, under every plan.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/runtime/checkpoint/saved_run.h"
#include "tests/runtime/equality/equality_check.h"
#include "tests/runtime/equality/feature_models.h"
#include "tests/runtime/equality/training_by_hand.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

constexpr std::int64_t kLength = 4;  // tokens of a document

// Tokens whose documents are all as long. Rows are numbered through the step, so a plan whose
// samples are documents reads the same ones as a plan that packs them.
class EqualDocuments final : public BatchSource {
 public:
  explicit EqualDocuments(const Plan& plan) : plan_(plan) {}

  Result<void> Fill(const BatchRequest& request, std::span<std::int32_t> ids,
                    std::span<std::int32_t> targets) override {
    const std::int64_t first = plan_.FirstSample(request.dp, request.micro_batch) * plan_.sequence;
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = Token(first + static_cast<int>(i));
    for (std::size_t i = 0; i < targets.size(); ++i) {
      targets[i] = Token(first + static_cast<int>(i) + 1);
    }
    return {};
  }
  Result<void> FillDocumentStarts(const BatchRequest&, std::span<std::int32_t> starts) override {
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const auto position = static_cast<std::int64_t>(i) % plan_.sequence;
      starts[i] = static_cast<std::int32_t>(position / kLength * kLength);
    }
    return {};
  }

 private:
  static std::int32_t Token(std::int64_t i) {
    return static_cast<std::int32_t>((i * 7919 + i * i * 104'729) % 251);
  }
  Plan plan_;
};

Plan PackedPlan() {
  Plan plan = TinyPlan();
  plan.documents = true;
  plan.global_batch = 4, plan.micro_batch = 2;
  return plan;
}
// The documents of PackedPlan's samples as samples of their own, in the same micro-batches.
Plan PlanApart() {
  Plan plan = PackedPlan();
  const std::int64_t documents = plan.sequence / kLength;
  plan.documents = false;
  plan.sequence = kLength;
  plan.global_batch *= documents, plan.micro_batch *= documents;
  return plan;
}

Trained OneStepOf(const ModelSpec& model, const Plan& plan) {
  EqualDocuments data(plan);
  return OneStep(model, plan, InitialWeights(model, 5), 0, data);
}

// Rows are the same ones in both, and attention takes the same steps in a document as in a sample.
TEST(PackedDocuments, TrainAsSamplesOfTheirOwn) {
  std::vector<FeatureModel> models = FeatureModels();
  models.push_back({"TinyGpt", TinyGpt()});
  models.push_back({"TinyLlama", TinyLlama()});
  models.push_back({"TinyLatent", TinyLatent()});
  for (const auto& [name, model] : models) {
    if (!ValidatePlan(PackedPlan(), model)) continue;  // encoders, and attention in chunks
    const Trained packed = OneStepOf(model, PackedPlan());
    const Trained apart = OneStepOf(model, PlanApart());
    EXPECT_EQ(packed.losses, apart.losses) << name;
    EXPECT_LT(LargestDifference(packed.gradients, apart.gradients), 1e-6) << name;
    Plan whole = PackedPlan();
    whole.documents = false;
    EXPECT_NE(OneStepOf(model, whole).losses, apart.losses) << name;
  }
}

// Stored scores and masks of whole samples sum zeros too.
TEST(PackedDocuments, TrainAsSamplesOfTheirOwnWithStoredScores) {
  for (const ModelSpec& model : {TinyGpt(), TinyLlama()}) {
    Plan packed = PackedPlan(), apart = PlanApart();
    packed.attention = apart.attention = AttentionAlgorithm::kStandard;
    const Trained one = OneStepOf(model, packed), other = OneStepOf(model, apart);
    EXPECT_NEAR(one.losses[0], other.losses[0], kLossTolerance) << model.name;
    EXPECT_LT(LargestDifference(one.gradients, other.gradients), kGradientTolerance) << model.name;
  }
}

struct Case {
  const char* name;
  void (*change)(Plan& plan);
};
const Case kCases[] = {
    {"tp", [](Plan& p) { p.tp = 2; }},
    {"split rows and vocabulary",
     [](Plan& p) { p.tp = 4, p.sequence_parallel = p.vocab_parallel = true; }},
    {"split rows", [](Plan& p) { p.tp = 2, p.sequence_parallel = true; }},
    {"pp", [](Plan& p) { p.pp = 4; }},
    {"interleaved", [](Plan& p) { p.pp = p.vpp = 2, p.schedule = ScheduleKind::kInterleaved; }},
    {"zb-h1", [](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kZbH1; }},
    {"zb-v", [](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kZbV; }},
    {"dualpipe", [](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kDualPipe; }},
    {"zero 3", [](Plan& p) { p.dp = 2, p.zero_stage = 3, p.micro_batch = 2; }},
    {"full recomputation", [](Plan& p) { p.pp = 2, p.recompute = RecomputeKind::kFull; }},
    {"selective recomputation", [](Plan& p) { p.tp = 2, p.recompute = RecomputeKind::kSelective; }},
    {"offloaded", [](Plan& p) { p.offload_activations = OffloadTarget::kHost; }},
    {"stored scores", [](Plan& p) { p.attention = AttentionAlgorithm::kStandard; }},
    {"fused", [](Plan& p) { p.fuse = FusionKind::kAll; }}};

TEST(PackedDocuments, TrainAlikeUnderEveryPlan) {
  for (const ModelSpec& model : {TinyGpt(), TinyLatent()}) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(model.name + std::string(", ") + c.name);
      Plan one = TinyPlan();
      one.documents = true;
      one.clip_norm = 0.5;
      Plan plan = one;
      c.change(plan);
      if (!ValidatePlan(plan, model)) continue;  // stored scores of latent attention
      ExpectTrainsAlike(model, one, plan, /*learns=*/0.1, /*seed=*/6);
    }
  }
}

const Case kSplitSequences[] = {
    {"ring", [](Plan& p) { p.cp = 2; }},
    {"long ring", [](Plan& p) { p.cp = 4; }},
    {"gathered keys",
     [](Plan& p) { p.cp = 2, p.cp_kind = ContextParallelKind::kAllGather, p.micro_batch = 2; }},
    {"exchanged heads",
     [](Plan& p) { p.cp = 2, p.cp_kind = ContextParallelKind::kAllToAll, p.micro_batch = 2; }},
    {"exchanged heads, recomputed",
     [](Plan& p) {
       p.cp = p.pp = 2, p.cp_kind = ContextParallelKind::kAllToAll;
       p.recompute = RecomputeKind::kFull;
     }},
    {"ring with tp, split rows and vocabulary",
     [](Plan& p) { p.cp = p.tp = 2, p.sequence_parallel = p.vocab_parallel = true; }}};

// Windows, slopes, caps, sinks, rotary positions and position tables all meet borders of documents
// in the middle of a rank's tokens.
TEST(PackedDocuments, TrainAlikeWhereSequencesAreSplit) {
  std::vector<FeatureModel> models = FeatureModels();
  models.push_back({"TinyGpt", TinyGpt()});
  models.push_back({"TinyLlama", TinyLlama()});
  int trained = 0;
  for (const auto& [name, model] : models) {
    for (const Case& c : kSplitSequences) {
      SCOPED_TRACE(std::string(name) + ", " + c.name);
      Plan one = TinyPlan();
      one.documents = true;
      one.clip_norm = 0.5;
      Plan plan = one;
      c.change(plan);
      if (!ValidatePlan(one, model) || !ValidatePlan(plan, model)) continue;
      ExpectTrainsAlike(model, one, plan, /*learns=*/0.0, /*seed=*/6);
      ++trained;
    }
  }
  EXPECT_GT(trained, 30);
}

// Weights are older in later stages, so only the first loss is that of one rank. Under PipeDream
// each micro-batch is an update, which changes that one too.
TEST(PackedDocuments, ReachEveryStageOfOverlappedSteps) {
  Plan plan = TinyPlan();
  plan.documents = true;
  const Trained one = TrainTiny(TinyLlama(), plan);
  plan.pp = 4, plan.schedule = ScheduleKind::kPipeDream2bw;
  const Trained trained = TrainTiny(TinyLlama(), plan);
  EXPECT_NEAR(trained.losses[0], one.losses[0], kLossTolerance);
  EXPECT_LT(trained.losses.back(), trained.losses.front());
  plan.schedule = ScheduleKind::kPipeDream;
  const Trained each = TrainTiny(TinyLlama(), plan);
  EXPECT_LT(each.losses.back(), each.losses.front());
}

TEST(PackedDocuments, GoOnToTheBit) {
  Plan plan = TinyPlan();
  plan.documents = true;
  plan.pp = 2;
  ExpectGoesOnToTheBit(TinyGpt(), plan);
}

}  // namespace
}  // namespace foretrain
