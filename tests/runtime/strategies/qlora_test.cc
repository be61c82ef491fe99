// Adapters on 4-bit weights (QLoRA): layout and bytes, and that every plan trains as plain adapters
// do on the numbers that the 4 bits represent.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/numeric/nf4.h"
#include "sim/program/ir/program.h"
#include "tests/runtime/equality/equality_cases.h"
#include "tests/runtime/equality/equality_check.h"
#include "tests/runtime/strategies/quantized_base.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

Plan WithMethod(Plan plan, TrainingMethod method) {
  plan.method = method;
  plan.lora_rank = 4;
  plan.bucket_bytes = 4'000;  // several buckets
  return plan;
}
Plan Qlora(Plan plan) { return WithMethod(std::move(plan), TrainingMethod::kQlora); }
Plan Lora(Plan plan) { return WithMethod(std::move(plan), TrainingMethod::kLora); }

// As ExpectTrainsAlike, on the weights that the plan's own ranks quantized from their parts.
void ExpectTrainsAsLora(const ModelSpec& model, const Plan& plan) {
  TrainingOptions options;
  options.weights = QuantizedBase(model, plan, options);
  const Trained expected = TrainTiny(model, Lora(TinyPlan()), options);
  const Trained actual = TrainTiny(model, plan);
  ASSERT_EQ(actual.losses.size(), expected.losses.size());
  EXPECT_LT(actual.losses.back(), actual.losses.front() - 0.02) << "it does not learn";
  for (std::size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(actual.losses[step], expected.losses[step], kLossTolerance * expected.losses[step])
        << "step " << step;
  }
  TrainingOptions first = options;
  first.steps = 1;
  const Trained of_lora = TrainTiny(model, Lora(TinyPlan()), first);
  first.weights = nullptr;
  EXPECT_LT(LargestDifference(of_lora.gradients, TrainTiny(model, plan, first).gradients),
            kGradientTolerance);
}

class QloraEquality : public testing::TestWithParam<Case> {};

TEST_P(QloraEquality, TrainsAsAdaptersBesideTheNumbersItKeeps) {
  for (const ModelSpec& model : {TinyGpt(), TinyLlama()}) {
    SCOPED_TRACE(model.name);
    ExpectTrainsAsLora(model, Qlora(GetParam().plan));
  }
}

std::vector<Case> QloraCases() {
  return {
      {"One", TinyPlan()},
      {"Tp2", With([](Plan& p) { p.tp = 2; })},
      {"Tp2SequenceParallel", With([](Plan& p) { p.tp = 2, p.sequence_parallel = true; })},
      {"Tp4", With([](Plan& p) { p.tp = 4; })},  // for Llama: two ranks share a key head
      {"Tp4Dp2Zero3SequenceParallel",
       With([](Plan& p) { p.tp = 4, p.dp = 2, p.zero_stage = 3, p.sequence_parallel = true; })},
      {"Tp4Pp2ZbH1Selective", With([](Plan& p) {
         p.tp = 4, p.pp = 2, p.schedule = ScheduleKind::kZbH1;
         p.recompute = RecomputeKind::kSelective;
       })},
      {"Tp4ParametersOnHost", With([](Plan& p) {
         p.tp = 4, p.offload_parameters = p.offload_optimizer = OffloadTarget::kHost;
       })},
      {"Dp2Zero2", With([](Plan& p) { p.dp = 2, p.zero_stage = 2; })},
      {"Dp2Zero3", With([](Plan& p) { p.dp = 2, p.zero_stage = 3; })},
      {"Dp4Zero3Hsdp2Tp2",
       With([](Plan& p) { p.dp = 4, p.zero_stage = 3, p.replicas = p.tp = 2; })},
      {"Dp2Zero3GatheredTogether", With([](Plan& p) {
         p.dp = 2, p.zero_stage = 3, p.gather_bytes = 10'000, p.unsharded_bytes = 8'000;
       })},
      {"Dp2Zero3FullRecompute",
       With([](Plan& p) { p.dp = 2, p.zero_stage = 3, p.recompute = RecomputeKind::kFull; })},
      {"Pp2ZbH1", With([](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kZbH1; })},
      {"Pp2DualPipeV", With([](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kDualPipeV; })},
      {"Cp2Ring", With([](Plan& p) { p.cp = 2; })},
      {"MlpTilesSelective",
       With([](Plan& p) { p.mlp_tiles = 3, p.recompute = RecomputeKind::kSelective; })},
      {"ParametersOnHost",
       With([](Plan& p) { p.offload_parameters = p.offload_optimizer = OffloadTarget::kHost; })},
      {"Dp2Zero3ParametersOnDisk", With([](Plan& p) {
         p.dp = 2, p.zero_stage = 3;
         p.offload_parameters = p.offload_optimizer = OffloadTarget::kNvme;
       })},
  };
}
INSTANTIATE_TEST_SUITE_P(Plans, QloraEquality, testing::ValuesIn(QloraCases()),
                         [](const auto& test) { return std::string(test.param.name); });

// Multi-query attention with biases.
TEST(Qlora, TrainsAsAdaptersWhereAllRanksShareOneHead) {
  ModelSpec model = TinyGpt(true);
  model.kv_heads = 1;
  for (const int tp : {2, 4}) {
    Plan plan = Qlora(TinyPlan());
    plan.tp = tp;
    SCOPED_TRACE(Describe(plan));
    ExpectTrainsAsLora(model, plan);
  }
}

// 4 query heads of 8 and 2 heads of keys and values on 4 ranks: each rank has q [8, 32], followed
// by one head's k and v [8, 32] each as one tensor, at a multiple of 16 bytes.
TEST(Qlora, RoundsSharedHeadsAlikeOnAllRanksThatHaveThem) {
  const ModelSpec model = TinyLlama();
  Plan plan = Qlora(TinyPlan());
  plan.tp = 4;
  const auto program = Compile(model, plan);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  for (const RankProgram& rank : program->ranks) {
    const auto place = [&](const std::string& name) {
      return *std::find_if(rank.parameters.begin(), rank.parameters.end(), [&](const auto& of) {
        return of.name == "layers.1.attention." + name + ".weight";
      });
    };
    const std::int64_t q_bytes = 256 / 2 + 256 / 64 + 4 + 4;  // 140
    EXPECT_EQ(place("k").offset, place("q").offset + (q_bytes + 15) / 16 * 16);
    EXPECT_EQ(place("v").offset, place("k").offset);
    EXPECT_EQ(place("q").packed_elements, 256);
    EXPECT_EQ(place("k").packed_elements, 512);
    EXPECT_EQ(place("v").packed_first, 256);
    EXPECT_EQ(place("k").row_begin, rank.tp / 2 * 8);
  }
  const TensorMap plain = TrainTiny(model, Lora(TinyPlan())).parameters;
  const TensorMap quantized = TrainTiny(model, plan).parameters;
  for (const std::int64_t head : {0, 1}) {
    std::vector<float> numbers, made(512);
    for (const char* name : {"layers.1.attention.k.weight", "layers.1.attention.v.weight"}) {
      const auto first = plain.at(name).values.begin() + head * 256;
      numbers.insert(numbers.end(), first, first + 256);
    }
    std::vector<std::uint8_t> packed(static_cast<std::size_t>(Nf4Layout(512).bytes));
    QuantizeNf4(numbers.data(), 512, packed.data());
    DequantizeNf4(packed.data(), 512, made.data());
    const std::vector<float>& k = quantized.at("layers.1.attention.k.weight").values;
    EXPECT_TRUE(std::equal(made.begin(), made.begin() + 256, k.begin() + head * 256));
    const std::vector<float>& v = quantized.at("layers.1.attention.v.weight").values;
    EXPECT_TRUE(std::equal(made.begin() + 256, made.end(), v.begin() + head * 256));
  }
}

// One rank multiplies the same numbers in the same order.
TEST(Qlora, IsLoraBesideItsNumbersToTheBit) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    for (const WeightStorage weights : {WeightStorage::kMaster, WeightStorage::kAlone}) {
      Plan plan = TinyPlan();
      plan.precision = precision;
      if (precision == Precision::kBf16) plan.weights = weights;
      SCOPED_TRACE(Describe(plan));
      TrainingOptions options;
      options.weights = QuantizedBase(TinyLlama(), Qlora(plan), options);
      EXPECT_EQ(TrainTiny(TinyLlama(), Qlora(plan)).losses,
                TrainTiny(TinyLlama(), Lora(plan), options).losses);
    }
  }
}

// Only linears of layers are quantized: embeddings, norms, biases and the head are not.
TEST(Qlora, KeepsLinearsOfLayersInFourBits) {
  const ModelSpec model = TinyLlama();
  const TensorMap plain = TrainTiny(model, Lora(TinyPlan())).parameters;
  const TensorMap quantized = TrainTiny(model, Qlora(TinyPlan())).parameters;
  const Tensor& initial = plain.at("layers.1.attention.out.weight");
  const auto n = static_cast<std::int64_t>(initial.values.size());
  std::vector<std::uint8_t> packed(static_cast<std::size_t>(Nf4Layout(n).bytes));
  QuantizeNf4(initial.values.data(), n, packed.data());
  std::vector<float> expected(initial.values.size());
  DequantizeNf4(packed.data(), n, expected.data());
  EXPECT_EQ(quantized.at("layers.1.attention.out.weight").values, expected);
  EXPECT_NE(expected, initial.values);
  for (const char* name : {"embedding.tokens.weight", "head.weight", "layers.2.norm1.weight"}) {
    EXPECT_EQ(quantized.at(name).values, plain.at(name).values) << name;
  }
}

// A layer of TinyLlama: q, k and v are [32 + 16 + 16, 32], out [32, 32], gate and up [2 f, 32],
// down [32, f] with f = 64 or so. Each takes n / 2 + n / 64 + 4 + 4 bytes (below 2^14 numbers), at
// multiples of 16; halves on two tensor-parallel ranks.
TEST(Qlora, TakesTheBytesOfFourBitsAndTheirScales) {
  const ModelSpec model = TinyLlama();
  for (const int tp : {1, 2}) {
    Plan plan = Qlora(TinyPlan());
    plan.tp = tp;
    const auto program = Compile(model, plan);
    ASSERT_TRUE(program.has_value()) << program.error().message;
    const auto bytes = [&](std::int64_t numbers) {
      const std::int64_t n = numbers / tp;
      return (n / 2 + n / 64 + 4 + 4 + 15) / 16 * 16;
    };
    const std::int64_t layer = bytes(64 * 32) + bytes(32 * 32) + bytes(2 * model.ffn_hidden * 32) +
                               bytes(32 * model.ffn_hidden);
    std::int64_t all = 0;
    for (const Bucket& bucket : program->ranks[0].buckets) {
      if (bucket.weights != NumberFormat::kByte) continue;
      EXPECT_TRUE(bucket.frozen);
      EXPECT_EQ(bucket.gradients, -1);
      all += bucket.used;
      EXPECT_EQ(program->ranks[0].buffers[static_cast<std::size_t>(bucket.parameters)].bytes,
                bucket.elements);
    }
    EXPECT_EQ(all, model.layers * layer) << "tp " << tp;
  }
}

}  // namespace
}  // namespace foretrain
