#include "tests/runtime/training.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_device.h"
#include "runtime/data/token_data.h"

namespace foretrain {

ModelSpec TinyGpt(bool tied) {
  ModelSpec model;
  model.name = "tiny-gpt";
  model.layers = 4;
  model.hidden = 32;
  model.heads = model.kv_heads = 4;
  model.head_dim = 8;
  model.ffn_hidden = 64;
  model.vocab = 256;
  model.max_sequence = 24;  // longer than the training's: rows without a gradient
  model.tied_embeddings = tied;
  return model;
}

ModelSpec TinyLlama() {
  ModelSpec model = TinyGpt(false);
  model.name = "tiny-llama";
  model.kv_heads = 2;
  model.norm = NormKind::kRmsNorm;
  model.mlp = MlpKind::kSwiglu;
  model.positions = PositionKind::kRope;
  model.attention_bias = model.output_bias = model.mlp_bias = false;
  return model;
}

ModelSpec TinyExperts() {
  ModelSpec model = TinyLlama();
  model.name = "tiny-experts";
  model.experts = 4;
  model.experts_per_token = 2;
  model.expert_ffn_hidden = 24;
  model.shared_ffn_hidden = 16;
  model.first_dense_layers = 1;
  model.balance_weight = 0.1;
  return model;
}

ModelSpec TinyLatent() {
  ModelSpec model = TinyExperts();
  model.name = "tiny-latent";
  model.kv_heads = 4;
  model.attention = AttentionKind::kLatent;
  model.query_rank = 12;
  model.key_value_rank = 16;
  model.head_dim = 10;
  model.rope_head_dim = 4;
  model.value_head_dim = 8;
  model.router = RouterKind::kSigmoid;
  model.expert_groups = 2;
  model.groups_per_token = 1;
  model.expert_scale = 1.5;
  model.balance_tokens = 4;
  return model;
}

ModelSpec TinyMtp() {
  ModelSpec model = TinyLatent();
  model.name = "tiny-ahead";
  model.predict_ahead = 1;
  return model;
}

Plan TinyPlan() {
  Plan plan;
  plan.sequence = 16;
  plan.global_batch = 8;
  plan.micro_batch = 1;
  plan.bucket_bytes = 20'000;  // several buckets
  return plan;
}

const std::string& TrainingText() {
  static const std::string text = [] {
    std::string made;
    for (int i = 0; i < 400; ++i) {
      made += "step " + std::to_string(i * i) + " of " + std::to_string(i) + "; ";
    }
    return made;
  }();
  return text;
}

namespace {

class AllKnowingCapture : public OpCapture {
 public:
  void BeginStep(int, std::int64_t) override {}
  bool BeginOp(int, std::int64_t, OpId) override { return false; }
  void EndOp() override {}
  bool RecordsWork() const override { return true; }
};

}  // namespace

Trained TrainTiny(const ModelSpec& model, const Plan& plan, const TrainingOptions& options) {
  Trained trained;
  auto program = Compile(model, plan);
  EXPECT_TRUE(program.has_value()) << Describe(plan) << ": " << program.error().message;
  if (!program.has_value()) return trained;
  auto data = TokenData::FromText(TrainingText(), "text", model.vocab, plan, kDocumentEnd);
  EXPECT_TRUE(data.has_value()) << data.error().message;
  RealClock clock;
  ExecutorOptions executor_options;
  executor_options.timeout_ns = 60'000'000'000;
  executor_options.seed = options.seed;
  const FtDeviceApi& api = options.api != nullptr ? *options.api : CpuDeviceApi();
  executor_options.poison = options.poison && api.asynchronous == 0;
  executor_options.record_spans = executor_options.record_memory = options.record;
  executor_options.sm_share = options.sm_share;
  executor_options.graphs = options.graphs;
  if (options.graphs) executor_options.capture = std::make_shared<AllKnowingCapture>();
  executor_options.take_turns = options.take_turns;
  executor_options.faults = options.faults;
  executor_options.routing = options.routing;
  executor_options.gemm_algorithms = options.gemm_algorithms;
  executor_options.local = options.local;
  executor_options.world = options.world;
  executor_options.learning_rate = [rate = options.learning_rate](std::int64_t) { return rate; };
  auto executor = Executor::Make(std::make_shared<const Program>(*std::move(program)), api, clock,
                                 executor_options);
  EXPECT_TRUE(executor.has_value()) << executor.error().message;
  if (!executor.has_value()) return trained;
  const TensorSource weights =
      options.weights ? options.weights : InitialWeights(model, options.seed);
  EXPECT_TRUE(FillParameters(**executor, weights).has_value());
  RecordingSink sink;
  auto summary = (*executor)->Run(options.steps, **data, sink);
  EXPECT_TRUE(summary.has_value()) << Describe(plan) << ": " << summary.error().message;
  if (!summary.has_value()) return trained;
  trained.summary = *summary;
  std::vector<int> from(static_cast<std::size_t>(options.steps), plan.World());
  trained.losses.resize(from.size());
  for (const StepScalars& scalars : sink.scalars) {
    const auto step = static_cast<std::size_t>(scalars.step);
    if (!scalars.loss.has_value()) continue;
    // All ranks read the same sum.
    if (from[step] < plan.World()) {
      EXPECT_EQ(*scalars.loss, trained.losses[step]) << Describe(plan) << " rank " << scalars.rank;
    }
    from[step] = std::min(from[step], scalars.rank);
    trained.losses[step] = *scalars.loss;
    if (scalars.squared_norm.has_value()) {
      trained.squared_norms.resize(from.size());
      trained.squared_norms[step] = *scalars.squared_norm;
    }
  }
  trained.gradients = GatherTensors(**executor, GatheredState::kGradients);
  trained.parameters = GatherTensors(**executor, GatheredState::kParameters);
  trained.averages = GatherTensors(**executor, GatheredState::kAverage);
  trained.timeline = std::move(sink.timeline);
  trained.routing = std::move(sink.routing);
  return trained;
}

bool SameBits(const Trained& a, const Trained& b) {
  bool same = a.losses == b.losses;
  for (const auto& [name, tensor] : a.parameters) {
    same = same && tensor.values == b.parameters.at(name).values;
  }
  return same && !a.losses.empty();
}

double LargestDifference(const TensorMap& a, const TensorMap& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0, floor = 0;
  for (const auto& [name, tensor] : a) {
    for (const float value : tensor.values) floor = std::max(floor, 1e-3 * std::fabs(value));
  }
  for (const auto& [name, tensor] : a) {
    const auto other = b.find(name);
    if (other == b.end()) {
      ADD_FAILURE() << name << " is missing";
      continue;
    }
    EXPECT_EQ(tensor.rows, other->second.rows) << name;
    EXPECT_EQ(tensor.cols, other->second.cols) << name;
    double magnitude = floor, difference = 0;
    for (std::size_t i = 0; i < tensor.values.size(); ++i) {
      magnitude = std::max<double>(magnitude, std::fabs(tensor.values[i]));
      const double delta = std::fabs(tensor.values[i] - other->second.values[i]);
      difference = std::isnan(delta) ? INFINITY : std::max(difference, delta);
    }
    if (difference > 0) largest = std::max(largest, difference / magnitude);
  }
  return largest;
}

}  // namespace foretrain
