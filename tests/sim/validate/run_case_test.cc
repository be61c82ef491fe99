#include "sim/validate/run_case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/validate/run_offload.h"
#include "sim/validate/stage_layers.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const CaseSources& Sources() {
  static const CaseSources sources = BuiltInCaseSources().value();
  return sources;
}

// Korthikanti et al., table 5: 22B with sequence parallelism and selective recomputation.
PublishedRun SmallRun() {
  PublishedRun run;
  run.id = "korth-002";
  run.family = "korth";
  run.model = "Megatron-GPT-22B";
  run.layers = 48;
  run.hidden = 6144;
  run.heads = run.kv_heads = 64;
  run.head_dim = 96;
  run.ffn_hidden = 24576;
  run.vocab = 51200;
  run.sequence = 2048;
  run.gpu = "A100-80GB-SXM";
  run.gpus = run.gpus_per_node = run.tp = 8;
  run.link_bytes_per_s = 300e9;
  run.dtype = "fp16";
  run.vpp = 1;
  run.zero_stage = 0;
  run.sequence_parallel = true;
  run.recompute = "selective";
  run.attention = "standard";
  run.micro_batch = run.global_batch = 4;
  return run;
}

TEST(RunCase, TakesThePlanOfTheRowAndTheRestOfThePreset) {
  const auto of = CaseOf(SmallRun(), Sources());
  ASSERT_TRUE(of.has_value()) << of.error().message;
  ASSERT_EQ(of->plans.size(), 1U);
  const Plan& plan = of->plans.front();
  EXPECT_EQ(plan.tp, 8);
  EXPECT_TRUE(plan.sequence_parallel);
  EXPECT_TRUE(plan.vocab_parallel);  // set by megatron-sp
  EXPECT_EQ(plan.recompute, RecomputeKind::kSelective);
  EXPECT_EQ(plan.schedule, ScheduleKind::k1f1b);
  EXPECT_EQ(of->plans[0].attention, AttentionAlgorithm::kStandard);
  EXPECT_TRUE(of->model.tied_embeddings);
  EXPECT_TRUE(of->open.empty());
}

TEST(RunCase, SearchesFieldsThatTheRowLeavesOpen) {
  PublishedRun run = SmallRun();
  run.micro_batch = 0;
  run.recompute.clear();
  run.global_batch = 4;
  const auto of = CaseOf(run, Sources());
  ASSERT_TRUE(of.has_value()) << of.error().message;
  EXPECT_THAT(of->open, ElementsAre("micro_batch", "recompute"));
  EXPECT_EQ(of->plans.size(), 3U * 3U);  // 1, 2, 4 samples; none, selective, full
}

// Qwen2.5-1.5B has 1.3e9 parameters in layers and 0.233e9 in a table of 151936 x 1536. Its
// published count of 1.54e9 includes the table once, so head and table are tied.
TEST(RunCase, TiesEmbeddingsWhereThatMakesThePublishedCount) {
  PublishedRun run = SmallRun();
  run.family = "llmq";
  run.layers = 28;
  run.hidden = 1536;
  run.heads = 12;
  run.kv_heads = 2;
  run.head_dim = 128;
  run.ffn_hidden = 8960;
  run.vocab = 151936;
  run.gated_mlp = true;
  run.parameters = 1.544e9;
  run.tp = 1;
  run.gpus = run.gpus_per_node = 1;
  run.sequence_parallel = false;
  const auto tied = CaseOf(run, Sources());
  ASSERT_TRUE(tied.has_value()) << tied.error().message;
  EXPECT_TRUE(tied->model.tied_embeddings);
  EXPECT_EQ(tied->model.norm, NormKind::kRmsNorm);
  run.parameters = 1.777e9;
  EXPECT_FALSE(CaseOf(run, Sources())->model.tied_embeddings);
}

TEST(RunCase, FillsTheHeadsThatTheFamilyIsKnownToHave) {
  PublishedRun run = SmallRun();
  run.family = "bloom";
  run.hidden = 14336;
  run.heads = run.kv_heads = run.head_dim = 0;
  run.ffn_hidden = 57344;
  const auto of = CaseOf(run, Sources());
  ASSERT_TRUE(of.has_value()) << of.error().message;
  EXPECT_EQ(of->model.heads, 112);
  EXPECT_EQ(of->model.head_dim, 128);
  EXPECT_THAT(of->filled, ElementsAre("heads 112"));
}

// torchtitan's selective recomputation recomputes every second layer.
TEST(RunCase, ReadsSelectiveRecomputationAsTheFamilyMeansIt) {
  PublishedRun run = SmallRun();
  run.family = "titanA100";
  const auto of = CaseOf(run, Sources());
  ASSERT_TRUE(of.has_value()) << of.error().message;
  EXPECT_EQ(of->plans.front().recompute, RecomputeKind::kFull);
  EXPECT_EQ(of->plans.front().recompute_every, 2);
}

TEST(RunCase, ReadsTheModulesThatNotesName) {
  using enum RecomputeModule;
  PublishedRun run = SmallRun();
  run.family = "llmq";
  const auto modules = [&](const std::string& notes) {
    run.assumptions = "bf16 weights; " + notes + "; command: --lmhead-chunks=8";
    const auto of = CaseOf(run, Sources());
    EXPECT_TRUE(of.has_value());
    return of.has_value() ? of->plans.front().recompute_modules : 0;
  };
  EXPECT_EQ(modules("recompute flags: ffn,norm"), BitOf(kMlp) | BitOf(kNorm));
  EXPECT_EQ(modules("recompute flags: swiglu,norm"), BitOf(kActivation) | BitOf(kNorm));
  EXPECT_EQ(modules("recompute flags: ffn,att"), BitOf(kMlp) | BitOf(kQkv) | BitOf(kCoreAttention));
  run.recompute = "full";
  EXPECT_EQ(modules("recompute flags: block"), 0U);
}

TEST(RunCase, TakesOfAFamilyWhatItsSourceDoesNotState) {
  PublishedRun run = SmallRun();
  run.recompute = "full";
  run.family = "vtrainsingle";
  EXPECT_EQ(CaseOf(run, Sources())->plans.front().recompute, RecomputeKind::kNone);
  run.family = "vtrainmulti";
  EXPECT_EQ(CaseOf(run, Sources())->plans.front().recompute, RecomputeKind::kFull);
  run.family = "jzv100";  // four Omni-Path adapters per node
  EXPECT_EQ(CaseOf(run, Sources())->cluster.adapters_per_node, 4);
}

TEST(RunCase, MakesLogitsInPiecesWhereTheCommandSaysSo) {
  PublishedRun run = SmallRun();
  run.assumptions = "flags: none; command: --lmhead-chunks=4 --shard-weights";
  const auto made = CaseOf(run, Sources());
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ(made->plans.front().loss_chunks, 4);
  run.assumptions = "--lmhead-chunks=0";
  const auto refused = CaseOf(run, Sources());
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("--lmhead-chunks"));
}

TEST(RunCase, RefusesDegreesThatDoNotMakeTheDevices) {
  PublishedRun run = SmallRun();
  run.dp = 3;
  const auto of = CaseOf(run, Sources());
  ASSERT_FALSE(of.has_value());
  EXPECT_THAT(of.error().message, HasSubstr("n_gpus 8: dp 3 x tp 8 x pp 1 x cp 1 make 24"));
}

// Layers of a Llama model with hidden h and MLP f have 4 h^2 + 3 h f parameters. 16 layers of
// 67.1e6 and a head of 268.4e6 have 1342.2e6. 10 layers are exactly half, so the 11th passes it. 80
// layers of 973.1e6 and a head of 1073.7e6: the 21st layer passes a quarter, the 41st half, the
// 61st three quarters.
TEST(StageLayers, EndsAStageWhereItPassesItsShareOfParameters) {
  ModelSpec model;
  model.layers = 16;
  model.hidden = 2048;
  model.heads = model.kv_heads = 32;
  model.head_dim = 64;
  model.ffn_hidden = 8192;
  model.mlp = MlpKind::kSwiglu;
  model.vocab = 131072;
  EXPECT_THAT(StageLayersByParameters(model, 2), ElementsAre(11, 5));
  model.layers = 80;
  model.hidden = 8192;
  model.heads = model.kv_heads = 64;
  model.head_dim = 128;
  model.ffn_hidden = 28672;
  EXPECT_THAT(StageLayersByParameters(model, 4), ElementsAre(21, 20, 20, 19));
  EXPECT_TRUE(StageLayersByParameters(model, 1).empty());
  // 32 layers and a head of two layers' size in 16 stages: the head gets a stage of its own.
  model.layers = 32;
  model.hidden = 4096;
  model.heads = model.kv_heads = 32;
  model.ffn_hidden = 14336;
  EXPECT_THAT(StageLayersByParameters(model, 16),
              ElementsAre(3, 2, 2, 2, 2, 2, 2, 3, 2, 2, 2, 2, 2, 2, 2, 0));
}

// BLOOM: 70 layers in 12 stages count as 72 blocks, six per stage. Qwen3: 94 in 32 count as 96,
// three each.
TEST(StageLayers, CountsEmbeddingAndHeadAsALayerEach) {
  EXPECT_THAT(StageLayers(70, 12, true), ElementsAre(5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5));
  const std::vector<int> qwen = StageLayers(94, 32, true);
  EXPECT_EQ(qwen.front(), 2);
  EXPECT_EQ(qwen[1], 3);
  EXPECT_EQ(qwen.back(), 2);
  EXPECT_TRUE(StageLayers(72, 12, true).empty());
  EXPECT_TRUE(StageLayers(70, 12, false).empty());
  EXPECT_THAT(StageLayers(4, 6, false), ElementsAre(0, 1, 1, 1, 1, 0));
  EXPECT_TRUE(StageLayers(4, 7, true).empty());
}

TEST(RunOffload, SetsWhatTheWordsSay) {
  Plan plan;
  plan.recompute = RecomputeKind::kFull;
  ASSERT_TRUE(SetOffload("opt-m; opt-v; master; gradients; residual", plan).has_value());
  EXPECT_EQ(plan.offload_optimizer, OffloadTarget::kHost);
  EXPECT_TRUE(plan.stream_optimizer);
  EXPECT_EQ(plan.offload_gradients, OffloadTarget::kHost);
  EXPECT_EQ(plan.offload_activations, OffloadTarget::kHost);
  EXPECT_EQ(plan.offload_parameters, OffloadTarget::kNone);
  const auto refused = SetOffload("everything", plan);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("\"everything\""));
}

// After its heading "Rebalancing layers", BigScience's log describes DeepSpeed's bf16 optimizer.
TEST(RunFamily, NamesThePresetOfRowsThatRanAnotherSystem) {
  RunFamily family;
  family.preset = "bloom-fp16";
  family.zero_3_preset = "zero-3";
  family.rows = {{110, 129, "bloom"}};
  EXPECT_EQ(family.PresetOf("bloom-109", false), "bloom-fp16");
  EXPECT_EQ(family.PresetOf("bloom-110", false), "bloom");
  EXPECT_EQ(family.PresetOf("bloom-129", false), "bloom");
  EXPECT_EQ(family.PresetOf("bloom-130", false), "bloom-fp16");
  EXPECT_EQ(family.PresetOf("bloom-120", true), "zero-3");
  EXPECT_EQ(family.PresetOf("bloom", false), "bloom-fp16");
}

// "tp-cp-dp-pp" names no ep, which then runs just below dp.
TEST(RunCase, ReadsTheRankOrderOfTheRow) {
  PublishedRun run = SmallRun();
  run.rank_order = "tp-cp-pp-dp (a remark)";
  const auto of = CaseOf(run, Sources());
  ASSERT_TRUE(of.has_value()) << of.error().message;
  EXPECT_EQ(NameOfRankOrder(of->plans.front().rank_order), "tp-cp-pp-ep-dp");
  run.rank_order = "tp-tp";
  EXPECT_THAT(CaseOf(run, Sources()).error().message, HasSubstr("rank_order \"tp-tp\""));
}

TEST(RunCase, ReadsAdaptersAndTheirRank) {
  PublishedRun run = SmallRun();
  run.method = "lora";
  run.assumptions = "LoRA rank 16 on attention";
  const auto of = CaseOf(run, Sources());
  ASSERT_TRUE(of.has_value()) << of.error().message;
  EXPECT_EQ(of->plans.front().method, TrainingMethod::kLora);
  EXPECT_EQ(of->plans.front().lora_rank, 16);
  run.method = "prefix";
  EXPECT_THAT(CaseOf(run, Sources()).error().message, HasSubstr("method \"prefix\""));
}

TEST(RunCase, ReadsFormatsOfBlackwellAndNamesWhatItLeavesOut) {
  PublishedRun run = SmallRun();
  const auto plan = [&](std::string_view dtype) {
    run.dtype = dtype;
    const auto of = CaseOf(run, Sources());
    EXPECT_TRUE(of.has_value()) << dtype;
    return of.has_value() ? of->plans.front() : Plan{};
  };
  EXPECT_EQ(plan("fp8-cs").precision, Precision::kFp8);
  EXPECT_EQ(plan("fp8-mx").precision, Precision::kFp8Block);
  EXPECT_EQ(plan("nvfp4").precision, Precision::kFp4);
  EXPECT_EQ(plan("bf16-pure").weights, WeightStorage::kAlone);
  EXPECT_EQ(plan("bf16-pure").moments, MomentFormat::kBf16);
  EXPECT_EQ(plan("fp8|nvfp4").precision, Precision::kFp4);
  EXPECT_THAT(CaseOf(run, Sources())->filled, testing::Contains("dtype nvfp4 of fp8|nvfp4"));
}

// The row's preset comes first, then its family's, then a default with its reason.
TEST(RunCase, ChoosesAPresetAndSaysWhy) {
  PublishedRun run = SmallRun();
  run.preset = "megatron-core";
  EXPECT_EQ(CaseOf(run, Sources())->preset, "megatron-core");
  run.preset = "no such system";
  EXPECT_FALSE(CaseOf(run, Sources()).has_value());
  run.preset.clear();
  EXPECT_EQ(CaseOf(run, Sources())->preset, "megatron-sp");
  run.family = "unknown";
  run.zero_stage = 3;
  const auto of = CaseOf(run, Sources());
  ASSERT_TRUE(of.has_value()) << of.error().message;
  EXPECT_EQ(of->preset, "torchtitan");
  EXPECT_THAT(of->filled, testing::Contains("preset torchtitan: ZeRO-3 with tensor parallelism"));
}

// Tables have no columns for DeepSeek-V3's latent attention, shared expert and dense layers.
TEST(RunCase, TakesAMixtureOfExpertsFromTheCatalogue) {
  PublishedRun run = SmallRun();
  run.family = "bridge";
  run.model = "deepseekv3 truncated to 4 layers";
  run.assumptions = "MLA attention, 1 dense layer of 18432";
  run.layers = 4;
  run.hidden = 7168;
  run.heads = run.kv_heads = 128;
  run.head_dim = 56;
  run.ffn_hidden = 2048;
  run.experts = 256;
  run.experts_per_token = 8;
  run.gated_mlp = true;
  run.dtype = "bf16";
  run.attention = "flash";
  const auto of = CaseOf(run, Sources());
  ASSERT_TRUE(of.has_value()) << of.error().message;
  EXPECT_TRUE(of->model.IsLatent());
  EXPECT_EQ(of->model.layers, 4);
  EXPECT_EQ(of->model.first_dense_layers, 1);
  EXPECT_THAT(of->filled, testing::Contains("model deepseek-v3 of the catalogue"));
}

// A kernel that a row's notes name replaces the preset's.
TEST(RunCase, TakesKernelsFromTheNotes) {
  PublishedRun run = SmallRun();
  run.family = "layouts";
  run.assumptions = "kernel: flash_attention2 + RMS kernel; ZeRO-1";
  EXPECT_TRUE(CaseOf(run, Sources())->system.fused_norm);
  run.assumptions = "kernel: flash_attentionv1.0.8; ZeRO-1";
  EXPECT_EQ(CaseOf(run, Sources())->system.attention, AttentionKernel::kFlash1);
  EXPECT_FALSE(CaseOf(run, Sources())->system.fused_norm);
}

}  // namespace
}  // namespace foretrain
