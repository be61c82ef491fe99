// Bytes of tensors, and number formats of products, for each choice of formats.
#include "sim/program/ir/precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <string>

#include "sim/program/blocks/blocks.h"
#include "sim/program/ir/program.h"
#include "sim/program/ops/op_kinds.h"
#include "sim/program/ops/op_work.h"
#include "tests/sim/models.h"

namespace foretrain {
namespace {

// 4 layers of 128 in 4 heads, ffn 512, 256 tokens, 8 positions: whole blocks of any format.
ModelSpec WideGpt() {
  ModelSpec model = SmallGpt();
  model.hidden = 128;
  model.head_dim = 32;
  model.ffn_hidden = 512;
  model.vocab = 256;
  model.tied_embeddings = false;
  return model;
}

Plan PlanIn(Precision precision) {
  Plan plan;
  plan.sequence = 8;
  plan.micro_batch = 2;
  plan.global_batch = 4;
  plan.precision = precision;
  return plan;
}

// Bytes that a layer's forward keeps for its backward: its input and its saved tensors.
std::int64_t KeptBytes(const Plan& plan, BlockKind kind = BlockKind::kLayer) {
  const ModelSpec model = WideGpt();
  std::int64_t bytes = 0;
  for (const TensorSlot& slot : BuildBlock({model, plan, false}, {.kind = kind}).slots) {
    const bool kept = slot.role == SlotRole::kInput || slot.role == SlotRole::kSaved;
    if (kept) bytes += slot.bytes;
  }
  return bytes;
}

constexpr std::int64_t kS = 8, kB = 2, kH = 128, kA = 4, kV = 256;
constexpr std::int64_t kSbh = kS * kB * kH;
// fp32 beside them: mean and rstd of two norms, a log-sum-exp for each head.
constexpr std::int64_t kStatistics = 4 * kS * kB * (4 + kA);

// Korthikanti et al. 2022, s. 4.1 counts 34 sbh + 5 a s^2 b in 16 bits. Without dropout its two
// masks of 1 sbh go, and fused attention keeps no scores but 4 bytes a row and head. The rest is
// the same:
//   attention 10   input of q, k, v 2; q, k, v 6; input of the projection 2
//   MLP       18   input 2; input of GELU 8; input of the second linear 8
//   norms      4   input of each 2
TEST(Precision, KeepsThePublishedBytesOfALayerIn16Bits) {
  for (const Precision precision : {Precision::kBf16, Precision::kFp16}) {
    EXPECT_EQ(KeptBytes(PlanIn(precision)), 32 * kSbh + kStatistics);
  }
  EXPECT_EQ(KeptBytes(PlanIn(Precision::kFp32)), 64 * kSbh + kStatistics);
  EXPECT_EQ(KeptBytes(PlanIn(Precision::kTf32)), 64 * kSbh + kStatistics);
}

// The same, s. 4.2: sbh (10 + 24 / t), of which 2 are masks; with sequence parallelism 34 / t. The
// norms' mean and rstd go with the rows, log-sum-exps with the heads.
TEST(Precision, KeepsThePublishedBytesOfALayerUnderTensorParallelism) {
  Plan plan = PlanIn(Precision::kBf16);
  plan.tp = 2;
  EXPECT_EQ(KeptBytes(plan), (8 + 24 / 2) * kSbh + 4 * kS * kB * (4 + kA / 2));
  plan.sequence_parallel = true;
  EXPECT_EQ(KeptBytes(plan), (32 * kSbh + kStatistics) / 2);
}

// Full recomputation keeps the layer's input, 2 sbh.
TEST(Precision, KeepsALayersInputUnderFullRecomputation) {
  const ModelSpec model = WideGpt();
  const Plan plan = PlanIn(Precision::kBf16);
  std::int64_t bytes = 0;
  const BlockRequest request{.recompute = RecomputeKind::kFull};
  for (const TensorSlot& slot : BuildBlock({model, plan, false}, request).slots) {
    if (slot.role == SlotRole::kInput || slot.role == SlotRole::kSaved) bytes += slot.bytes;
  }
  EXPECT_EQ(bytes, 2 * kSbh);
}

// 4 sbh (1 + V / h): input of the last norm 2, input of the head 2, logits in fp32. Beside them the
// norm's mean and rstd and the loss's log-sum-exp.
TEST(Precision, KeepsThePublishedBytesOfTheHead) {
  EXPECT_EQ(KeptBytes(PlanIn(Precision::kBf16), BlockKind::kHead),
            4 * kSbh + 4 * kS * kB * kV + 3 * 4 * kS * kB);
}

// For 16-bit activations that only products read, the cast is kept: inputs of q, k, v and of both
// MLP linears take 1 + 1 + 4 bytes instead of 2 + 2 + 8. Attention's output is kept for its own
// backward, 2, and as the projection's input, 1. So 32 - 6 + 1 = 27.
TEST(Precision, KeepsThe8BitInputsOfProducts) {
  // Each of the four casts has one fp32 scale.
  EXPECT_EQ(KeptBytes(PlanIn(Precision::kFp8)), 27 * kSbh + 4 * 4 + kStatistics);
  // One fp32 scale per 128 numbers of the 1 + 1 + 4 + 1 = 7 sbh that are cast.
  EXPECT_EQ(KeptBytes(PlanIn(Precision::kFp8Block)), 27 * kSbh + 7 * kSbh / 128 * 4 + kStatistics);
  // Half a byte, and one byte of scale per 16: 20 + 7 * (1 / 2 + 1 / 16).
  EXPECT_EQ(KeptBytes(PlanIn(Precision::kFp4)), 20 * kSbh + 7 * kSbh * 9 / 16 + kStatistics);
}

std::int64_t StateBytes(const RankProgram& rank, Category category) {
  std::int64_t bytes = 0;
  for (const Buffer& buffer : rank.buffers) {
    if (buffer.persistent && buffer.category == category) bytes += buffer.bytes;
  }
  return bytes;
}

// Bytes of parameters, gradients, masters and moments on rank 0, over its parameters.
std::array<double, 4> StateOf(const Plan& plan) {
  const auto program = Compile(WideGpt(), plan);
  EXPECT_TRUE(program.has_value()) << program.error().message;
  if (!program.has_value()) return {};
  const RankProgram& rank = program->ranks[0];
  double elements = 0;
  for (const Bucket& bucket : rank.buckets) elements += static_cast<double>(bucket.elements);
  std::array<double, 4> state;
  const Category categories[] = {Category::kParameters, Category::kGradients,
                                 Category::kMasterWeights, Category::kOptimizerState};
  for (std::size_t i = 0; i < 4; ++i) {
    state[i] = static_cast<double>(StateBytes(rank, categories[i])) / elements;
  }
  return state;
}

using State = std::array<double, 4>;

// Megatron's count: 18 bytes a parameter with fp32 gradients, 16 with 16-bit ones, of which a
// distributed optimizer shards 12: 6 + 12 / d.
TEST(Precision, HoldsThePublishedBytesOfAParameter) {
  Plan plan = PlanIn(Precision::kBf16);
  EXPECT_EQ(StateOf(plan), (State{2, 4, 4, 8}));
  plan.gradients = GradientFormat::kCompute;
  EXPECT_EQ(StateOf(plan), (State{2, 2, 4, 8}));
  plan.weights = WeightStorage::kAlone;
  EXPECT_EQ(StateOf(plan), (State{2, 2, 0, 8}));
  plan.gradients = GradientFormat::kFp32;
  plan.weights = WeightStorage::kFp32;  // as autocast keeps them
  EXPECT_EQ(StateOf(plan), (State{4, 4, 0, 8}));
  EXPECT_EQ(StateOf(PlanIn(Precision::kFp32)), (State{4, 4, 0, 8}));
}

TEST(Precision, ShardsMastersWithMoments) {
  Plan plan = PlanIn(Precision::kBf16);
  plan.dp = 2;
  plan.zero_stage = 1;
  EXPECT_EQ(StateOf(plan), (State{2, 4, 2, 4}));
  plan.zero_stage = 2;
  EXPECT_EQ(StateOf(plan), (State{2, 2, 2, 4}));
  plan.zero_stage = 3;
  EXPECT_EQ(StateOf(plan), (State{1, 2, 2, 4}));
  plan.offload_optimizer = OffloadTarget::kHost;
  EXPECT_EQ(StateOf(plan), (State{1, 2, 2, 4}));  // wherever they lie
}

// Bytes that rank 0 contributes to each kind of collective, relative to its parameters.
std::map<std::string, double> SentBytes(const Plan& plan) {
  const auto program = Compile(WideGpt(), plan);
  EXPECT_TRUE(program.has_value()) << program.error().message;
  std::map<std::string, double> sent;
  if (!program.has_value()) return sent;
  const RankProgram& rank = program->ranks[0];
  double elements = 0;
  for (const Bucket& bucket : rank.buckets) elements += static_cast<double>(bucket.elements);
  for (const OpRef ref : OpRefs(*program, rank)) {
    const Op& op = OpAt(*program, rank, ref);
    if (!IsCollective(op.kind) || op.shape.elements == 1) continue;
    sent[std::string(Name(op.kind))] += WorkOf(op).bytes / elements;
  }
  return sent;
}

// ZeRO-1: gradients in fp32 or 16 bits, and the updated 16-bit weights. ZeRO-3 gathers the
// parameters that blocks read, twice except for the embedding's backward, whose 264 rows of 128 are
// 33,792 of 859,904 elements.
TEST(Precision, SendsWeightsIn16BitsAndGradientsAsTheyAreSummed) {
  Plan plan = PlanIn(Precision::kBf16);
  plan.dp = 2;
  plan.micro_batch = 1;
  plan.global_batch = 2;
  plan.zero_stage = 1;
  using Sent = std::map<std::string, double>;
  EXPECT_EQ(SentBytes(plan), (Sent{{"reduce_scatter", 4}, {"all_gather", 2}}));
  plan.gradients = GradientFormat::kCompute;
  EXPECT_EQ(SentBytes(plan), (Sent{{"reduce_scatter", 2}, {"all_gather", 2}}));
  plan.gradients = GradientFormat::kFp32;
  plan.weights = WeightStorage::kFp32;
  EXPECT_EQ(SentBytes(plan), (Sent{{"reduce_scatter", 4}, {"all_gather", 4}}));
  plan.zero_stage = 3;
  const Sent sharded = SentBytes(plan);
  EXPECT_NEAR(sharded.at("all_gather"), 2 * (2 - 33792.0 / 859904), 1e-12);
  EXPECT_EQ(sharded.at("reduce_scatter"), 4);
}

std::set<std::string> FormatsOfProducts(Precision precision, BlockKind kind) {
  const ModelSpec model = WideGpt();
  const Plan plan = PlanIn(precision);
  std::set<std::string> formats;
  for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
    for (const Op& op : BuildBlock({model, plan, false}, {.kind = kind, .pass = pass}).ops) {
      if (op.kind == OpKind::kGemm) formats.insert(std::string(Name(op.format)));
    }
  }
  return formats;
}

TEST(Precision, ComputesLayersInItAndTheHeadIn16BitsAtLeast) {
  using Formats = std::set<std::string>;
  EXPECT_EQ(FormatsOfProducts(Precision::kFp32, BlockKind::kLayer), Formats{"fp32"});
  EXPECT_EQ(FormatsOfProducts(Precision::kTf32, BlockKind::kLayer), Formats{"tf32"});
  EXPECT_EQ(FormatsOfProducts(Precision::kFp16, BlockKind::kLayer), Formats{"fp16"});
  EXPECT_EQ(FormatsOfProducts(Precision::kFp8, BlockKind::kLayer), Formats{"fp8-tensor"});
  EXPECT_EQ(FormatsOfProducts(Precision::kFp4, BlockKind::kLayer), Formats{"fp4"});
  EXPECT_EQ(FormatsOfProducts(Precision::kFp8, BlockKind::kHead), Formats{"bf16"});
  EXPECT_EQ(FormatsOfProducts(Precision::kTf32, BlockKind::kHead), Formats{"tf32"});
}

std::vector<std::string> CastsOf(const Plan& plan, Pass pass) {
  const ModelSpec model = WideGpt();
  std::vector<std::string> casts;
  for (const Op& op : BuildBlock({model, plan, false}, {.pass = pass}).ops) {
    if (op.kind == OpKind::kQuantize) casts.push_back(op.name);
  }
  return casts;
}

// Weights stored in fp32 are cast before each product that reads them; nothing else is cast.
TEST(Precision, CastsFp32WeightsForEachUse) {
  EXPECT_TRUE(CastsOf(PlanIn(Precision::kBf16), Pass::kForward).empty());
  Plan plan = PlanIn(Precision::kBf16);
  plan.weights = WeightStorage::kFp32;
  EXPECT_THAT(CastsOf(plan, Pass::kForward),
              testing::ElementsAre("attention.qkv.weight.cast", "attention.out.weight.cast",
                                   "mlp.up.weight.cast", "mlp.down.weight.cast"));
  EXPECT_EQ(CastsOf(plan, Pass::kBackward).size(), 4U);
  // If they are gathered, the gather has cast them.
  plan.dp = 2;
  plan.zero_stage = 3;
  EXPECT_TRUE(CastsOf(plan, Pass::kForward).empty());
}

// With 8 bits: 4 inputs and 4 weights forward; backward 4 output gradients, each once for both of
// its products, and 4 weights. Saved inputs are casts already.
TEST(Precision, CastsTheOperandsOfProductsOnce) {
  EXPECT_EQ(CastsOf(PlanIn(Precision::kFp8), Pass::kForward).size(), 8U);
  EXPECT_EQ(CastsOf(PlanIn(Precision::kFp8), Pass::kBackward).size(), 8U);
  EXPECT_EQ(CastsOf(PlanIn(Precision::kFp8Block), Pass::kForward).size(), 8U);
  // With blocks, the products of weight gradients read columns: 4 of output gradients, and 4 of
  // inputs, made from their rows.
  EXPECT_EQ(CastsOf(PlanIn(Precision::kFp8Block), Pass::kBackward).size(), 16U);
}

// Names of the ops that start with `begin`, with the formats of their first two operands.
std::vector<std::string> OpsOf(const Plan& plan, const std::string& begin) {
  const ModelSpec model = WideGpt();
  std::vector<std::string> ops;
  for (const Op& op : BuildBlock({model, plan, false}, {}).ops) {
    if (!op.name.starts_with(begin)) continue;
    ops.push_back(op.name + (op.maximum ? " max " : " ") + std::string(Name(op.formats[0])) + " " +
                  std::string(Name(op.formats[1])));
  }
  return ops;
}

// Ranks gather rows from each other as codes. With one scale per tensor they first agree on the
// largest scale of all ranks; with scales per block the scales travel too.
TEST(Precision, GathersCodesWithTheirScales) {
  Plan plan = PlanIn(Precision::kFp8);
  plan.tp = 2;
  plan.sequence_parallel = true;
  EXPECT_THAT(OpsOf(plan, "norm1"),
              testing::ElementsAre("norm1 bf16 bf16", "norm1.cast.scale bf16 fp32",
                                   "norm1.cast.scale.most max fp32 fp32", "norm1.cast bf16 e4m3",
                                   "norm1.gather e4m3 e4m3"));
  plan.precision = Precision::kFp8Block;
  EXPECT_THAT(OpsOf(plan, "norm1"),
              testing::ElementsAre("norm1 bf16 bf16", "norm1.cast bf16 e4m3",
                                   "norm1.gather e4m3 e4m3", "norm1.gather.scales fp32 fp32"));
}

// 42 codes, with the scale at byte 44: copies read all 48 bytes, gathers 42 from each rank.
TEST(Precision, WritesAllOfATensorOfCodesWhateverItsSize) {
  ModelSpec model = WideGpt();
  model.hidden = 6;
  model.heads = model.kv_heads = 2;
  model.head_dim = 3;
  model.ffn_hidden = 6;
  model.max_sequence = 14;
  Plan plan = PlanIn(Precision::kFp8);
  plan.micro_batch = 1;
  plan.sequence = 7;
  plan.offload_activations = OffloadTarget::kHost;
  const auto copied = Compile(model, plan);
  EXPECT_TRUE(copied.has_value()) << copied.error().message;
  plan.sequence = 14;
  plan.tp = 2;
  plan.sequence_parallel = true;
  const auto gathered = Compile(model, plan);
  EXPECT_TRUE(gathered.has_value()) << gathered.error().message;
}

// Slots of the backward's products: e5m2 gradients with one scale per tensor, e4m3 with blocks.
TEST(Precision, GradientsHaveMoreRangeWhereOneScaleServesATensor) {
  const ModelSpec model = WideGpt();
  for (const Precision precision : {Precision::kFp8, Precision::kFp8Block}) {
    const Plan plan = PlanIn(precision);
    for (const Op& op : BuildBlock({model, plan, false}, {.pass = Pass::kBackward}).ops) {
      if (op.kind != OpKind::kGemm) continue;
      const bool tensor = precision == Precision::kFp8;
      EXPECT_EQ(op.formats[0], tensor ? NumberFormat::kE5m2 : NumberFormat::kE4m3) << op.name;
      EXPECT_EQ(op.formats[1], NumberFormat::kE4m3) << op.name;
    }
  }
}

// 8 x 128 by 128 x 128 in blocks of 128: one byte per number, 8 fp32 scales for a and one for b; c
// in 16 bits.
TEST(Precision, CountsScalesOfBlocks) {
  Op op;
  op.kind = OpKind::kGemm;
  op.trans_b = true;
  op.format = NumberFormat::kFp8Block;
  op.shape = {.rows = 8, .cols = 128, .inner = 128};
  SetFormat(op, "a", NumberFormat::kE4m3);
  SetFormat(op, "b", NumberFormat::kE4m3);
  SetFormat(op, "c", NumberFormat::kBf16);
  EXPECT_DOUBLE_EQ(WorkOf(op).bytes, 8 * 128 + 8 * 4 + 128 * 128 + 4 + 8 * 128 * 2);
  op.format = NumberFormat::kFp8Tensor;
  EXPECT_DOUBLE_EQ(WorkOf(op).bytes, 8 * 128 + 128 * 128 + 8 * 128 * 2);
}

// 12 rows of 8 -> 6 columns, from bf16 to an fp32 gradient that is added to: 2 (12 * 8 + 12 * 6)
// bytes are read, 2 * 4 * 48 read and written.
TEST(Precision, CountsEachOperandOfAnOpInItsOwnFormat) {
  Op op;
  op.kind = OpKind::kGemm;
  op.trans_a = true;
  op.accumulate = true;
  op.shape = {.rows = 8, .cols = 6, .inner = 12};
  SetFormat(op, "a", NumberFormat::kBf16);
  SetFormat(op, "b", NumberFormat::kBf16);
  EXPECT_DOUBLE_EQ(WorkOf(op).bytes, 2 * (12 * 8 + 12 * 6) + 2 * 4 * 48);
  // Master read and written 8, fp32 gradient 4, bf16 moments 8, 16-bit weights written 2.
  Op adamw;
  adamw.kind = OpKind::kAdamW;
  adamw.shape.elements = 100;
  adamw.format = NumberFormat::kBf16;
  SetFormat(adamw, "weights", NumberFormat::kBf16);
  EXPECT_DOUBLE_EQ(WorkOf(adamw).bytes, 100 * (8 + 4 + 8 + 2));
}

// 64 * 256 numbers of 4 bits, a byte each 64, one scale and a mean, to bf16.
TEST(Precision, DequantizesWithFourBitsReadAndTwoBytesWritten) {
  Op op;
  op.kind = OpKind::kDequantize;
  op.format = NumberFormat::kNf4;
  SetFormat(op, "x", NumberFormat::kNf4);
  SetFormat(op, "out", NumberFormat::kBf16);
  op.shape = {.rows = 1, .elements = 1 << 14};
  EXPECT_DOUBLE_EQ(WorkOf(op).bytes, (1 << 13) + 256 + 4 + 4 + 2 * (1 << 14));
}

TEST(Precision, CountsBytesOfEachFormat) {
  EXPECT_EQ(BytesIn(NumberFormat::kFp32, 1000), 4000);
  EXPECT_EQ(BytesIn(NumberFormat::kTf32, 1000), 4000);
  EXPECT_EQ(BytesIn(NumberFormat::kFp16, 1001), 2002);
  EXPECT_EQ(BytesIn(NumberFormat::kFp8, 257), 257 + 8);
  EXPECT_EQ(BytesIn(NumberFormat::kFp8Tensor, 257), 260 + 4);  // the scale lies at a word
  EXPECT_EQ(BytesIn(NumberFormat::kFp8Block, 256), 256 + 8);
  EXPECT_EQ(BytesIn(NumberFormat::kFp8Tile, 256 * 128), 256 * 128 + 8);
  EXPECT_EQ(BytesIn(NumberFormat::kFp4, 32), 16 + 2);
  // A code each 64 numbers, an fp32 scale each 256 codes, an fp32 mean: 4.127 bits a number.
  EXPECT_EQ(BytesIn(NumberFormat::kNf4, 65), 33 + 2 + 4 + 4);
  EXPECT_EQ(BytesIn(NumberFormat::kNf4, 1 << 20), (1 << 19) + (1 << 14) + 64 * 4 + 4);
  EXPECT_DOUBLE_EQ(8 * BytesEach(NumberFormat::kNf4), 4 + 8.0 / 64 + 32.0 / (64 * 256));
}

}  // namespace
}  // namespace foretrain
