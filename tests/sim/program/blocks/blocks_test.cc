// The ops that plans choose for a model's blocks: collectives, pieces, and kept tensors.
#include "sim/program/blocks/blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "sim/config/catalogue/catalogue.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/cost/step_flops.h"
#include "sim/memory/peak_memory.h"
#include "sim/program/blocks/backward_passes.h"
#include "sim/simulate/simulate.h"
#include "tests/sim/cost/profiles.h"
#include "tests/sim/models.h"
#include "tests/support/modules_in.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::Pair;

Plan TinyPlan() {
  Plan plan;
  plan.sequence = 8;
  plan.micro_batch = 1;
  plan.global_batch = 1;
  return plan;
}

// Collectives of a block by kind: their number and the sizes of their whole tensors.
struct Traffic {
  int count = 0;
  std::int64_t elements = 0;
  bool operator==(const Traffic&) const = default;
};
void PrintTo(const Traffic& t, std::ostream* out) { *out << t.count << " of " << t.elements; }

std::map<OpKind, Traffic> TrafficOf(const Plan& plan, const BlockRequest& request) {
  const ModelSpec model = SmallGpt();
  std::map<OpKind, Traffic> traffic;
  for (const Op& op : BuildBlock({model, plan, false}, request).ops) {
    if (!IsCommunication(op.kind)) continue;
    EXPECT_EQ(op.queue, Queue::kTp);
    EXPECT_EQ(op.group, GroupKind::kTp);
    ++traffic[op.kind].count;
    traffic[op.kind].elements += op.shape.elements;
  }
  return traffic;
}

// Each pass cut from a joint block equals the pass built by itself.
TEST(BackwardPasses, AreThoseOfBuildBlock) {
  for (const RecomputeKind recompute : {RecomputeKind::kNone, RecomputeKind::kFull}) {
    const ModelSpec model = SmallGpt();
    Plan plan = TinyPlan();
    plan.recompute = recompute;
    BlockRequest request{.kind = BlockKind::kLayer, .recompute = recompute};
    const BackwardPasses passes({model, plan, false}, request);
    for (const Pass pass : {Pass::kBackward, Pass::kBackwardInput, Pass::kBackwardWeight}) {
      request.pass = pass;
      const Block own = BuildBlock({model, plan, false}, request), taken = passes.Of(pass);
      ASSERT_EQ(taken.ops.size(), own.ops.size());
      for (std::size_t i = 0; i < own.ops.size(); ++i) {
        EXPECT_EQ(taken.ops[i].name, own.ops[i].name);
      }
      ASSERT_EQ(taken.slots.size(), own.slots.size());
      for (std::size_t i = 0; i < own.slots.size(); ++i) {
        EXPECT_EQ(taken.slots[i].name, own.slots[i].name);
        EXPECT_EQ(taken.slots[i].bytes, own.slots[i].bytes);
        EXPECT_EQ(taken.slots[i].role, own.slots[i].role);
      }
    }
  }
}

// 8 rows of 16: 128 elements a message. Korthikanti et al. 2022, s. 4.2.2.
TEST(SequenceParallelLayer, HasFourCollectivesForwardAndSixBackward) {
  Plan plan = TinyPlan();
  plan.tp = 2;
  EXPECT_THAT(TrafficOf(plan, {BlockKind::kLayer, Pass::kForward}),
              ElementsAre(Pair(OpKind::kAllReduce, Traffic{2, 256})));
  EXPECT_THAT(TrafficOf(plan, {BlockKind::kLayer, Pass::kBackward}),
              ElementsAre(Pair(OpKind::kAllReduce, Traffic{2, 256})));
  plan.sequence_parallel = true;
  EXPECT_THAT(TrafficOf(plan, {BlockKind::kLayer, Pass::kForward}),
              ElementsAre(Pair(OpKind::kReduceScatter, Traffic{2, 256}),
                          Pair(OpKind::kAllGather, Traffic{2, 256})));
  EXPECT_THAT(TrafficOf(plan, {BlockKind::kLayer, Pass::kBackward}),
              ElementsAre(Pair(OpKind::kReduceScatter, Traffic{2, 256}),
                          Pair(OpKind::kAllGather, Traffic{4, 512})));
}

// The embedding's output; the maximum, two sums and the input gradient of the loss.
TEST(VocabParallelBlocks, SendOneTensorAndThreeNumbersARow) {
  Plan plan = TinyPlan();
  plan.tp = 2;
  plan.vocab_parallel = true;
  EXPECT_THAT(TrafficOf(plan, {BlockKind::kEmbedding, Pass::kForward}),
              ElementsAre(Pair(OpKind::kAllReduce, Traffic{1, 128})));
  EXPECT_THAT(TrafficOf(plan, {BlockKind::kHead, Pass::kForward}),
              ElementsAre(Pair(OpKind::kAllReduce, Traffic{3, 24})));
  EXPECT_THAT(TrafficOf(plan, {BlockKind::kHead, Pass::kBackward}),
              ElementsAre(Pair(OpKind::kAllReduce, Traffic{1, 128})));
  plan.sequence_parallel = true;
  EXPECT_THAT(TrafficOf(plan, {BlockKind::kEmbedding, Pass::kForward}),
              ElementsAre(Pair(OpKind::kReduceScatter, Traffic{1, 128})));
  EXPECT_THAT(TrafficOf(plan, {BlockKind::kEmbedding, Pass::kBackward}),
              ElementsAre(Pair(OpKind::kAllGather, Traffic{1, 128})));
  EXPECT_THAT(TrafficOf(plan, {BlockKind::kHead, Pass::kBackward}),
              ElementsAre(Pair(OpKind::kReduceScatter, Traffic{1, 128}),
                          Pair(OpKind::kAllGather, Traffic{1, 128})));
}

// Norms and row-parallel biases: 6 vectors of 16 a layer, 2 of the head. One bucket: 26 * 16.
TEST(SequenceParallel, SumsGradientsOfOwnRowsOncePerBucket) {
  Plan plan = TinyPlan();
  plan.tp = 2;
  plan.sequence_parallel = true;
  const auto program = Compile(SmallGpt(), plan);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  for (const RankProgram& rank : program->ranks) {
    std::vector<std::int64_t> sums;
    for (const Instruction& instruction : rank.step) {
      if (instruction.key.kind != InstructionKind::kAllReduce) continue;
      sums.push_back(
          program->blocks[static_cast<std::size_t>(instruction.block)].ops.front().shape.elements);
    }
    EXPECT_THAT(sums, ElementsAre(26 * 16));
  }
}

std::int64_t SavedElements(const Plan& plan, const BlockRequest& request) {
  const ModelSpec model = SmallGpt();
  std::int64_t bytes = 0;
  for (const TensorSlot& slot : BuildBlock({model, plan, false}, request).slots) {
    if (slot.role == SlotRole::kSaved) bytes += slot.bytes;
  }
  return bytes / 4;
}

// A layer of 8 rows, hidden 16, 4 heads, ffn 64, in elements:
//   norm1 128, mean and rstd 8 + 8, qkv 384, attention 128, lse 32, residual 128, norm2 128, mean
//   and rstd 8 + 8, up 512, activated 512: 1984
// selective drops norm1, attention, lse, norm2 and activated: 928. Tiles drop up as well.
TEST(Recompute, KeepsWhatItSays) {
  Plan plan = TinyPlan();
  const auto kept = [&](RecomputeKind recompute) {
    return SavedElements(
        plan, {.kind = BlockKind::kLayer, .pass = Pass::kForward, .recompute = recompute});
  };
  EXPECT_EQ(kept(RecomputeKind::kNone), 1984);
  EXPECT_EQ(kept(RecomputeKind::kSelective), 1984 - 928);
  EXPECT_EQ(kept(RecomputeKind::kFull), 0);
  plan.mlp_tiles = 2;
  EXPECT_EQ(kept(RecomputeKind::kNone), 1984);
  EXPECT_EQ(kept(RecomputeKind::kSelective), 1984 - 928 - 512);
  // Full recomputation leaves the MLP to the tiles.
  EXPECT_EQ(SavedElements(plan, {BlockKind::kLayer, Pass::kRecompute}), 1984 - 1024);
}

// The same layer. Each module drops its own tensors; means, rstds and the residual always stay.
TEST(Recompute, DropsTheTensorsOfItsModules) {
  using enum RecomputeModule;
  const auto dropped = [](RecomputeModules modules) {
    Plan plan = TinyPlan();
    plan.recompute = RecomputeKind::kSelective;
    plan.recompute_modules = modules;
    return 1984 - SavedElements(plan, {.kind = BlockKind::kLayer,
                                       .pass = Pass::kForward,
                                       .recompute = RecomputeKind::kSelective});
  };
  EXPECT_EQ(dropped(BitOf(kCoreAttention)), 128 + 32);
  EXPECT_EQ(dropped(BitOf(kNorm)), 2 * 128);
  EXPECT_EQ(dropped(BitOf(kActivation)), 512);
  EXPECT_EQ(dropped(BitOf(kMlp)), 2 * 512);
  EXPECT_EQ(dropped(BitOf(kQkv)), 384);
  EXPECT_EQ(dropped(BitOf(kMlp) | BitOf(kNorm)), 2 * 512 + 2 * 128);
  EXPECT_EQ(dropped(ModulesIn(SmallGpt())), 1984 - (4 * 8 + 128));
}

// The up projection of 8 rows from 16 to 64: 2 * 8 * 16 * 64 = 16384 flop a layer; qkv, from 16 to
// 48: 12288. Every second of two layers a stage, and the fourth of four, are two layers and one.
TEST(Recompute, CountsTheWorkOfItsModules) {
  Plan plan = TinyPlan();
  const double none = FlopsOfStep(SmallGpt(), plan).hardware;
  plan.recompute = RecomputeKind::kSelective;
  plan.recompute_modules = BitOf(RecomputeModule::kMlp);
  EXPECT_EQ(FlopsOfStep(SmallGpt(), plan).hardware, none + 4 * 16384);
  plan.recompute_modules |= BitOf(RecomputeModule::kQkv);
  EXPECT_EQ(FlopsOfStep(SmallGpt(), plan).hardware, none + 4 * (16384 + 12288));
  plan.recompute_every = 4;
  EXPECT_EQ(FlopsOfStep(SmallGpt(), plan).hardware, none + (16384 + 12288));
  plan.recompute_every = 2;
  plan.pp = 2;
  EXPECT_EQ(FlopsOfStep(SmallGpt(), plan).hardware, none + 2 * (16384 + 12288));
}

// Selective recomputes one attention core of 2 products over 36 pairs in 4 heads of 4:
// 2 * 2 * 36 * 4 * 4 = 2304 flop a layer; two of four layers are 4608.
TEST(Recompute, CountsItsWorkForTheLayersThatRecompute) {
  Plan plan = TinyPlan();
  const StepFlops none = FlopsOfStep(SmallGpt(), plan);
  EXPECT_EQ(none.hardware, none.model);
  plan.recompute = RecomputeKind::kSelective;
  EXPECT_EQ(FlopsOfStep(SmallGpt(), plan).hardware, none.model + 4 * 2304);
  plan.recompute_layers = 1;
  plan.pp = 2;
  EXPECT_EQ(FlopsOfStep(SmallGpt(), plan).hardware, none.model + 2 * 2304);
  EXPECT_EQ(FlopsOfStep(SmallGpt(), plan).model, none.model);
}

std::int64_t LargestOf(const Program& program, Category category) {
  std::int64_t bytes = 0;
  for (const Buffer& buffer : program.ranks[0].buffers) {
    if (buffer.category == category) bytes = std::max(bytes, buffer.bytes);
  }
  return bytes;
}

// 8 rows of 32 tokens are 1024 bytes; 4 chunks have 2 rows each, 256 bytes; with the vocabulary on
// two ranks 128.
TEST(LossChunks, HoldTheLogitsOfOneChunk) {
  Plan plan = TinyPlan();
  EXPECT_EQ(LargestOf(*Compile(SmallGpt(), plan), Category::kLogits), 1024);
  plan.loss_chunks = 4;
  EXPECT_EQ(LargestOf(*Compile(SmallGpt(), plan), Category::kLogits), 256);
  plan.tp = 2;
  plan.vocab_parallel = true;
  EXPECT_EQ(LargestOf(*Compile(SmallGpt(), plan), Category::kLogits), 128);
}

// 8 rows of 40 columns, 32 of them ids, in bf16; lse is fp32. Their gradient needs no cast.
TEST(Logits, HaveTheFormatAndTheColumnsOfThePlan) {
  Plan plan = TinyPlan();
  plan.precision = Precision::kBf16;
  plan.logits = GradientFormat::kCompute;
  plan.vocab_multiple = 20;
  const Program program = *Compile(SmallGpt(), plan);
  EXPECT_EQ(LargestOf(program, Category::kLogits), 8 * 40 * 2);
  for (const Block& block : program.blocks) {
    for (const Op& op : block.ops) {
      EXPECT_NE(op.name, "head.loss.grad.cast");
      if (op.kind != OpKind::kCrossEntropyForward && op.kind != OpKind::kCrossEntropyBackward) {
        continue;
      }
      EXPECT_EQ(op.shape.vocab, 40);
      EXPECT_EQ(op.shape.vocab_total, 32);
    }
  }
}

// A vocabulary of 65,536 and 64 rows: logits of 16 MiB dominate the activations. Under GPipe four
// micro-batches hold theirs. The peak is the first backward's GEMM, when its lse is no longer
// needed; chunks of 8 rows leave 2 MiB at a time.
TEST(LossChunks, ShrinkThePeakByTheLogits) {
  ModelSpec model = SmallGpt();
  model.vocab = 65536;
  model.max_sequence = 64;
  Plan plan = TinyPlan();
  plan.sequence = 64;
  plan.global_batch = 4;
  plan.schedule = ScheduleKind::kGpipe;
  const PeakMemory whole = PlannedPeak(model, plan, {});
  plan.loss_chunks = 8;
  const PeakMemory chunked = PlannedPeak(model, plan, {});
  const auto logits = static_cast<std::size_t>(Category::kLogits);
  EXPECT_EQ(whole.bytes[logits], 4 * 64 * 65536 * 4 + 3 * 64 * 4);
  EXPECT_EQ(chunked.bytes[logits], 8 * 65536 * 4 + 8 * 4);
  EXPECT_LT(chunked.total, whole.total - 4 * (14 << 20));
}

// Seconds of a step in which each GEMM named `gemm` (by its pieces) takes 1 s, its all-reduce as
// long, and everything else no time.
double StepSeconds(const Plan& plan, const std::string& gemm) {
  ModelSpec model = SmallGpt();
  model.layers = 1;
  const auto program = Compile(model, plan);
  EXPECT_TRUE(program.has_value()) << program.error().message;
  const auto is = [](const std::string& name, const std::string& what) {
    const bool begins = name.compare(0, what.size(), what) == 0;
    return begins && name.find_first_not_of(".0123456789", what.size()) == std::string::npos;
  };
  Replay replay;
  for (const RankProgram& rank : program->ranks) {
    double gemms = 0, sums = 0;
    const std::vector<OpRef> ops = OpRefs(*program, rank);
    for (const OpRef ref : ops) {
      gemms += is(OpAt(*program, rank, ref).name, gemm);
      sums += is(OpAt(*program, rank, ref).name, gemm + ".sum");
    }
    EXPECT_GT(gemms * sums, 0);
    std::vector<double>& seconds = replay.seconds.emplace_back();
    for (const OpRef ref : ops) {
      const std::string& name = OpAt(*program, rank, ref).name;
      seconds.push_back(is(name, gemm) ? 1 / gemms : is(name, gemm + ".sum") ? 1 / sums : 0.0);
    }
    replay.launch_s.emplace_back(ops.size(), 0.0);
  }
  const ClusterSpec cluster = GpuCluster(1, plan.World());
  const auto cost = CostModel::Make(cluster, DeriveProfile(cluster));
  EXPECT_TRUE(cost.has_value());
  auto costs = cost->CostsOf(*program);
  EXPECT_TRUE(costs.has_value());
  costs->gap_s = costs->wake_s = 0;
  const auto simulation = Simulate(*program, *costs, {.contention = false, .replay = &replay});
  EXPECT_TRUE(simulation.has_value()) << simulation.error().message;
  return simulation.has_value() ? simulation->step_s : NAN;
}

// GEMM 1 s, all-reduce 1 s. Whole: one after the other, 2 s. In 4 pieces the GEMMs end at 1/4, 1/2,
// 3/4 and 1 s, and each all-reduce of 1/4 s overlaps with the next GEMM; the last ends at 1 1/4 s.
// With sequence parallelism a piece's GEMM is one per rank, of 1/8 s.
TEST(TpTiles, OverlapEachSumWithTheNextPiece) {
  Plan plan = TinyPlan();
  plan.tp = 2;
  for (const std::string gemm :
       {"attention.out", "mlp.down", "mlp.up.input_grad", "attention.qkv.input_grad"}) {
    for (const bool split_rows : {false, true}) {
      SCOPED_TRACE(gemm + (split_rows ? " scattered" : ""));
      plan.sequence_parallel = split_rows;
      plan.tp_tiles = 1;
      EXPECT_NEAR(StepSeconds(plan, gemm), 2.0, 1e-6);
      plan.tp_tiles = 4;
      EXPECT_NEAR(StepSeconds(plan, gemm), 1.25, 1e-6);
    }
  }
}

// GPT-2's 12 layers of width 768 and rank 8: A of qkv, out and up has 8 * 768 each, of down 8 *
// 3072; B of qkv 2304 * 8, of out and down 768 * 8 each, of up 3072 * 8. Llama 3 8B's 32 of rank
// 16: A 16 * (3 * 4096 + 14336), B 16 * (6144 + 4096 + 2 * 14336 + 4096).
TEST(ParameterCounts, AreThoseOfAllAndOfWhatIsTrained) {
  ModelSpec gpt;
  gpt.layers = gpt.heads = gpt.kv_heads = 12;
  gpt.hidden = 768;
  gpt.head_dim = 64;
  gpt.ffn_hidden = 3072;
  gpt.vocab = 50257;
  gpt.max_sequence = 1024;
  Plan plan;
  EXPECT_EQ(CountParameters(gpt, plan).all, 124'439'808);
  EXPECT_EQ(CountParameters(gpt, plan).trained, 124'439'808);
  plan.method = TrainingMethod::kLora;
  const std::int64_t adapters = 12 * 8 * (3 * 768 + 3072 + 2304 + 768 + 3072 + 768);
  EXPECT_EQ(CountParameters(gpt, plan).trained, adapters);
  EXPECT_EQ(CountParameters(gpt, plan).all, 124'439'808 + adapters);
  ModelSpec llama;
  llama.layers = llama.heads = 32;
  llama.kv_heads = 8;
  llama.hidden = 4096;
  llama.head_dim = 128;
  llama.ffn_hidden = 14336;
  llama.vocab = 128256;
  llama.max_sequence = 8192;
  llama.norm = NormKind::kRmsNorm;
  llama.mlp = MlpKind::kSwiglu;
  llama.positions = PositionKind::kRope;
  llama.attention_bias = llama.output_bias = llama.mlp_bias = llama.tied_embeddings = false;
  plan.lora_rank = 16;
  EXPECT_EQ(CountParameters(llama, plan).trained,
            std::int64_t{32} * 16 * (3 * 4096 + 14336 + 6144 + 4096 + 2 * 14336 + 4096));
  EXPECT_EQ(CountParameters(llama, plan).all - CountParameters(llama, plan).trained, 8'030'261'248);
}

// The blocks of every model that can be planned hold the parameters that its description counts.
TEST(Blocks, HoldTheParametersOfEveryModelOfTheCatalogue) {
  const auto catalogue = BuiltInCatalogue();
  ASSERT_TRUE(catalogue.has_value());
  int planned = 0;
  for (const ModelEntry& entry : catalogue->models) {
    if (!entry.described || !entry.unsupported.empty()) continue;
    ++planned;
    EXPECT_EQ(CountParameters(entry.spec, Plan{}).all, ParameterCount(entry.spec)) << entry.name;
  }
  EXPECT_GE(planned, 117);
}

}  // namespace
}  // namespace foretrain
