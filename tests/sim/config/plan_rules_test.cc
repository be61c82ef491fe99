// One row per rule: the plan that breaks it, and the same plan with the remedy that the message
// names. Longer than other files, because one list holds the rows of all rules.
#include "sim/config/rules/plan_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/sim/models.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

struct Row {
  std::string_view rule;
  void (*breaks)(Plan&);
  std::string_view says;
  void (*mends)(Plan&);
  bool experts = false;  // the model has experts
  LayerOrder order = LayerOrder::kSequential;
  void (*has)(ModelSpec&) = nullptr;  // changes the model; null: none
};

// Latent attention with heads of 4.
void Latent(ModelSpec& m) {
  m.attention = AttentionKind::kLatent;
  m.positions = PositionKind::kRope;
  m.attention_bias = m.output_bias = false;
  m.key_value_rank = 8;
  m.rope_head_dim = m.value_head_dim = 2;
}
void AsT5(ModelSpec& m) {
  m.encoder_layers = m.layers;
  m.norm = NormKind::kRmsNorm;
  m.attention_bias = m.output_bias = m.mlp_bias = m.head_bias = false;
  m.positions = PositionKind::kRelative;
  m.relative_buckets = 8;
}

void WithMtp(ModelSpec& m) {
  m.norm = NormKind::kRmsNorm;
  m.positions = PositionKind::kRope;
  m.predict_ahead = 1;
}

Plan Base() {
  Plan plan;
  plan.sequence = 8;
  plan.micro_batch = 1;
  plan.global_batch = 8;
  return plan;
}

const Row kRows[] = {
    {"vpp-needs-interleaving", [](Plan& p) { p.pp = 2, p.vpp = 2; }, "vpp 2 with schedule 1f1b",
     [](Plan& p) { p.schedule = ScheduleKind::kInterleaved; }},
    {"custom-needs-slots", [](Plan& p) { p.schedule = ScheduleKind::kCustom; },
     "give --schedule-file FILE", [](Plan& p) { p.schedule = ScheduleKind::k1f1b; }},
    {"custom-needs-slots",
     [](Plan& p) {
       p.slots = SlotOrder::FromCsv("0F0,0B0\n", "").value();
       p.global_batch = 1;
     },
     "schedule_slots with schedule 1f1b", [](Plan& p) { p.schedule = ScheduleKind::kCustom; }},
    {"slots-are-of-the-plan",
     [](Plan& p) {
       p.schedule = ScheduleKind::kCustom;
       p.slots = SlotOrder::FromCsv("0F0,0B0\n1F0,1B0\n", "two.csv").value();
       p.global_batch = 1;
     },
     "pp 1 with the schedule two.csv: it has 2 ranks; use pp 2", [](Plan& p) { p.pp = 2; }},
    {"slots-are-of-the-plan",
     [](Plan& p) {
       p.schedule = ScheduleKind::kCustom;
       p.slots = SlotOrder::FromCsv("0F0,0B0\n", "one.csv").value();
       p.dp = 2;
     },
     "it has 1 micro-batches and the plan 4; use global_batch 2",
     [](Plan& p) { p.global_batch = 2; }},
    {"interleaving-needs-whole-rounds",
     [](Plan& p) {
       p.pp = 2, p.vpp = 2, p.schedule = ScheduleKind::kInterleaved, p.global_batch = 7;
     },
     "nearest global_batch: 6 or 8", [](Plan& p) { p.global_batch = 6; }},
    {"weights-need-short-activations",
     [](Plan& p) { p.precision = Precision::kTf32, p.weights = WeightStorage::kFp32; },
     "weights fp32 with precision tf32", [](Plan& p) { p.precision = Precision::kBf16; }},
    {"gradients-need-short-activations", [](Plan& p) { p.gradients = GradientFormat::kCompute; },
     "gradients compute with precision fp32", [](Plan& p) { p.gradients = GradientFormat::kFp32; }},
    {"gather-format-shortens",
     [](Plan& p) {
       p.dp = 2, p.zero_stage = 3, p.precision = Precision::kFp16;
       p.gather_format = GatherFormat::kBf16;
     },
     "gather_format bf16 with precision fp16",
     [](Plan& p) { p.gather_format = GatherFormat::kInt8; }},
    {"masters-leave-parameters-here",
     [](Plan& p) {
       p.precision = Precision::kBf16;
       p.offload_optimizer = p.offload_parameters = OffloadTarget::kHost;
     },
     "offload_parameters host with precision bf16 and weights master",
     [](Plan& p) { p.weights = WeightStorage::kFp32; }},
    {"unsharded-is-read-as-gathered",
     [](Plan& p) {
       p.dp = 2, p.zero_stage = 3, p.unsharded_bytes = 4096;
       p.precision = Precision::kBf16, p.weights = WeightStorage::kFp32;
     },
     "unsharded_bytes 4096 with precision bf16 and weights fp32",
     [](Plan& p) { p.weights = WeightStorage::kMaster; }},
    {"post-validation-amends-fp32",
     [](Plan& p) {
       p.pp = 2, p.schedule = ScheduleKind::kZbH1, p.clip_norm = 1, p.post_validation = true;
       p.precision = Precision::kBf16;
     },
     "post_validation with precision bf16, weights master and gradients fp32",
     [](Plan& p) { p.weights = WeightStorage::kFp32; }},
    {"products-need-whole-blocks", [](Plan& p) { p.precision = Precision::kFp8Block; },
     "precision fp8-block: hidden is 16", [](Plan& p) { p.precision = Precision::kFp8; }},
    {"two-ways-need-micro-batches",
     [](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kDualPipeV, p.global_batch = 3; },
     "use global_batch 4", [](Plan& p) { p.global_batch = 4; }},
    {"two-ways-need-micro-batches", [](Plan& p) { p.pp = 3, p.schedule = ScheduleKind::kDualPipe; },
     "an even pp; nearest: 4", [](Plan& p) { p.pp = 4; }},
    {"two-ways-need-micro-batches",
     [](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kDualPipe, p.global_batch = 7; },
     "nearest global_batch: 8", [](Plan& p) { p.global_batch = 8; }},
    {"dualpipe-keeps-whole-parameters",
     [](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kDualPipe, p.zero_stage = 3; },
     "use zero_stage 1", [](Plan& p) { p.zero_stage = 1; }},
    {"gather-bucket-needs-copies", [](Plan& p) { p.zero_stage = 2, p.gather_bytes = 4096; },
     "gather_bytes 4096 with zero_stage 2", [](Plan& p) { p.zero_stage = 3; }},
    {"unsharded-needs-sharded-parameters",
     [](Plan& p) { p.zero_stage = 1, p.unsharded_bytes = 4096; },
     "unsharded_bytes 4096 with zero_stage 1", [](Plan& p) { p.zero_stage = 3; }},
    {"unsharded-needs-sharded-parameters",
     [](Plan& p) {
       p.zero_stage = 3, p.unsharded_bytes = 4096;
       p.offload_optimizer = p.offload_parameters = OffloadTarget::kHost;
     },
     "unsharded_bytes 4096 with offload_parameters host",
     [](Plan& p) { p.offload_parameters = OffloadTarget::kNone; }},
    {"post-validation-needs-zero-bubble",
     [](Plan& p) { p.pp = 2, p.clip_norm = 1, p.post_validation = true; },
     "post_validation with schedule 1f1b", [](Plan& p) { p.schedule = ScheduleKind::kZbH1; }},
    {"post-validation-needs-zero-bubble",
     [](Plan& p) { p.schedule = ScheduleKind::kZbV, p.clip_norm = 1, p.post_validation = true; },
     "post_validation with pp 1", [](Plan& p) { p.post_validation = false; }},
    {"post-validation-needs-what-to-validate",
     [](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kZbH2, p.post_validation = true; },
     "post_validation with clip_norm 0 and loss_scale 0", [](Plan& p) { p.clip_norm = 1; }},
    {"post-validation-keeps-fp32-on-the-device",
     [](Plan& p) {
       p.pp = 2, p.schedule = ScheduleKind::kZbH1, p.clip_norm = 1, p.post_validation = true;
       p.moments = MomentFormat::kBf16;
     },
     "post_validation with moments bf16", [](Plan& p) { p.moments = MomentFormat::kFp32; }},
    {"post-validation-keeps-fp32-on-the-device",
     [](Plan& p) {
       p.pp = 2, p.schedule = ScheduleKind::kZbH1, p.clip_norm = 1, p.post_validation = true;
       p.offload_optimizer = OffloadTarget::kHost;
     },
     "post_validation with offload_optimizer host",
     [](Plan& p) { p.offload_optimizer = OffloadTarget::kNone; }},
    {"overlap-needs-micro-batches",
     [](Plan& p) { p.pp = 4, p.schedule = ScheduleKind::kPipeDream2bw, p.global_batch = 3; },
     "schedule pipedream-2bw with pp 4 and 3 micro-batches", [](Plan& p) { p.global_batch = 4; }},
    {"overlap-updates-alone",
     [](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kPipeDream, p.clip_norm = 1; },
     "schedule pipedream with clip_norm 1", [](Plan& p) { p.schedule = ScheduleKind::k1f1b; }},
    {"overlap-updates-alone",
     [](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kPipeDream2bw, p.loss_scale = 1024; },
     "schedule pipedream-2bw with loss_scale 1024", [](Plan& p) { p.loss_scale = 0; }},
    {"overlap-keeps-whole-parameters",
     [](Plan& p) { p.dp = 2, p.schedule = ScheduleKind::kPipeDream2bw, p.zero_stage = 3; },
     "use zero_stage 2 or schedule 1f1b", [](Plan& p) { p.zero_stage = 2; }},
    {"overlap-keeps-whole-parameters",
     [](Plan& p) { p.dp = 2, p.schedule = ScheduleKind::kPipeDream, p.zero_stage = 1; },
     "use zero_stage 0 or schedule 1f1b", [](Plan& p) { p.zero_stage = 0; }},
    {"pipedream-sums-once",
     [](Plan& p) {
       p.dp = 2, p.schedule = ScheduleKind::kPipeDream;
       p.reduction_time = ReductionTime::kMicroBatch;
     },
     "schedule pipedream with reduction_time micro-batch",
     [](Plan& p) { p.reduction_time = ReductionTime::kEnd; }},
    {"pipedream-unties-embeddings",
     [](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kPipeDream; },
     "schedule pipedream with pp 2 and tied_embeddings",
     [](Plan& p) { p.schedule = ScheduleKind::kPipeDream2bw; }},
    {"overlap-trains-all",
     [](Plan& p) {
       p.pp = 2, p.global_batch = 4, p.schedule = ScheduleKind::kPipeDream2bw;
       p.method = TrainingMethod::kLora;
     },
     "schedule pipedream-2bw with method lora", [](Plan& p) { p.method = TrainingMethod::kFull; }},
    {"overlap-stays-on-the-device",
     [](Plan& p) {
       p.schedule = ScheduleKind::kPipeDream, p.offload_activations = OffloadTarget::kHost;
     },
     "schedule pipedream with offload_activations host",
     [](Plan& p) { p.offload_activations = OffloadTarget::kNone; }},
    {"fraction-needs-offload", [](Plan& p) { p.offload_fraction = 0.5; },
     "offload_fraction 0.5 with offload_optimizer none",
     [](Plan& p) { p.offload_optimizer = OffloadTarget::kHost; }},
    {"stream-needs-offload", [](Plan& p) { p.stream_optimizer = true; },
     "stream_optimizer with offload_optimizer none",
     [](Plan& p) { p.offload_optimizer = OffloadTarget::kHost; }},
    {"delay-needs-host-update", [](Plan& p) { p.delayed_update = true; },
     "delayed_update with offload_optimizer none",
     [](Plan& p) { p.offload_optimizer = OffloadTarget::kHost; }},
    {"delay-needs-host-update",
     [](Plan& p) {
       p.offload_optimizer = OffloadTarget::kHost, p.delayed_update = p.stream_optimizer = true;
     },
     "delayed_update with stream_optimizer", [](Plan& p) { p.stream_optimizer = false; }},
    {"delay-needs-host-update",
     [](Plan& p) {
       p.offload_optimizer = OffloadTarget::kNvme, p.delayed_update = true;
       p.offload_fraction = 0.25;
     },
     "delayed_update with offload_fraction 0.25", [](Plan& p) { p.offload_fraction = 1; }},
    {"offloaded-moments-are-fp32",
     [](Plan& p) { p.offload_optimizer = OffloadTarget::kHost, p.moments = MomentFormat::kBf16; },
     "offload_optimizer host with moments bf16", [](Plan& p) { p.moments = MomentFormat::kFp32; }},
    {"offloaded-moments-are-fp32",
     [](Plan& p) { p.offload_optimizer = OffloadTarget::kNvme, p.optimizer = OptimizerKind::kSgd; },
     "offload_optimizer nvme with optimizer sgd",
     [](Plan& p) { p.optimizer = OptimizerKind::kAdamW; }},
    {"delay-needs-plain-loss",
     [](Plan& p) {
       p.offload_optimizer = OffloadTarget::kHost, p.delayed_update = true, p.loss_scale = 1024;
     },
     "delayed_update with loss_scale 1024", [](Plan& p) { p.loss_scale = 0; }},
    {"parameters-need-offloaded-updates",
     [](Plan& p) { p.offload_parameters = OffloadTarget::kHost; },
     "offload_parameters host with offload_optimizer none and offload_fraction 1",
     [](Plan& p) { p.offload_optimizer = OffloadTarget::kNvme; }},
    {"parameters-need-offloaded-updates",
     [](Plan& p) {
       p.offload_parameters = p.offload_optimizer = OffloadTarget::kNvme;
       p.delayed_update = true;
     },
     "offload_parameters nvme with delayed_update", [](Plan& p) { p.delayed_update = false; }},
    {"parameters-need-offloaded-updates",
     [](Plan& p) {
       p.offload_parameters = p.offload_optimizer = OffloadTarget::kHost;
       p.dp = 2, p.zero_stage = 1;
     },
     "zero_stage 1 on 2 data-parallel ranks", [](Plan& p) { p.zero_stage = 3; }},
    {"gradients-need-offloaded-updates",
     [](Plan& p) { p.offload_gradients = OffloadTarget::kHost; },
     "offload_gradients host with offload_optimizer none and offload_fraction 1",
     [](Plan& p) { p.offload_optimizer = OffloadTarget::kHost; }},
    {"gradients-need-offloaded-updates",
     [](Plan& p) {
       p.offload_gradients = p.offload_optimizer = OffloadTarget::kHost;
       p.offload_fraction = 0.5;
     },
     "offload_optimizer host and offload_fraction 0.5", [](Plan& p) { p.offload_fraction = 1; }},
    {"gradients-stay-in-memory",
     [](Plan& p) { p.offload_gradients = p.offload_optimizer = OffloadTarget::kNvme; },
     "use offload_gradients host", [](Plan& p) { p.offload_gradients = OffloadTarget::kHost; }},
    {"gradients-leave-summed",
     [](Plan& p) {
       p.offload_gradients = p.offload_optimizer = OffloadTarget::kHost;
       p.dp = 2, p.zero_stage = 1;
     },
     "offload_gradients host with reduction_time end on 2 data-parallel ranks",
     [](Plan& p) { p.reduction_time = ReductionTime::kMicroBatch; }},
    {"gradients-leave-summed",
     [](Plan& p) {
       p.offload_gradients = p.offload_optimizer = OffloadTarget::kHost;
       p.pp = 2, p.schedule = ScheduleKind::kDualPipe;
     },
     "reduction_time micro-batch, schedule dualpipe-v",
     [](Plan& p) {
       p.schedule = ScheduleKind::kDualPipeV, p.reduction_time = ReductionTime::kMicroBatch;
     }},
    {"dualpipe-sums-at-the-end",
     [](Plan& p) {
       p.pp = 2, p.schedule = ScheduleKind::kDualPipe;
       p.reduction_time = ReductionTime::kMicroBatch;
     },
     "use reduction_time end", [](Plan& p) { p.reduction_time = ReductionTime::kEnd; }},
    {"replicas-divide-ranks", [](Plan& p) { p.dp = 4, p.zero_stage = 1, p.replicas = 3; },
     "replicas 3 with 4 data-parallel ranks: each replica holds all shards, so it must divide "
     "them; use replicas 2",
     [](Plan& p) { p.replicas = 2; }},
    {"replicas-divide-ranks", [](Plan& p) { p.dp = 4, p.zero_stage = 1, p.replicas = 9; },
     "use replicas 4", [](Plan& p) { p.replicas = 4; }},
    {"replicas-need-sharding", [](Plan& p) { p.dp = 4, p.replicas = 2; },
     "replicas 2 with zero_stage 0", [](Plan& p) { p.zero_stage = 1; }},
    {"gather-format-needs-sharded-parameters",
     [](Plan& p) { p.dp = 2, p.zero_stage = 2, p.gather_format = GatherFormat::kFp8; },
     "gather_format fp8 with zero_stage 2", [](Plan& p) { p.zero_stage = 3; }},
    {"sgd-has-no-moments",
     [](Plan& p) { p.optimizer = OptimizerKind::kSgd, p.moments = MomentFormat::kInt8; },
     "moments int8 with optimizer sgd", [](Plan& p) { p.optimizer = OptimizerKind::kAdamW; }},
    {"one-moment-has-16-bits",
     [](Plan& p) { p.optimizer = OptimizerKind::kLion, p.moments = MomentFormat::kInt8; },
     "moments int8 with optimizer lion", [](Plan& p) { p.moments = MomentFormat::kBf16; }},
    {"post-validation-amends-adamw-and-sgd",
     [](Plan& p) {
       p.pp = 2, p.schedule = ScheduleKind::kZbH2, p.post_validation = true, p.clip_norm = 1;
       p.optimizer = OptimizerKind::kMomentum;
     },
     "post_validation with optimizer momentum",
     [](Plan& p) { p.optimizer = OptimizerKind::kAdamW; }},
    {"muon-needs-plain-updates", [](Plan& p) { p.optimizer = OptimizerKind::kMuon, p.tp = 2; },
     "optimizer muon with tp 2", [](Plan& p) { p.tp = 1; }},
    {"muon-needs-plain-updates",
     [](Plan& p) { p.optimizer = OptimizerKind::kMuon, p.loss_scale = 64; },
     "optimizer muon with loss_scale 64", [](Plan& p) { p.loss_scale = 0; }},
    {"muon-needs-plain-updates",
     [](Plan& p) { p.optimizer = OptimizerKind::kMuon, p.moments = MomentFormat::kBf16; },
     "optimizer muon with moments bf16", [](Plan& p) { p.moments = MomentFormat::kFp32; }},
    {"adafactor-needs-plain-updates",
     [](Plan& p) { p.optimizer = OptimizerKind::kAdafactor, p.moments = MomentFormat::kBf16; },
     "optimizer adafactor with moments bf16", [](Plan& p) { p.moments = MomentFormat::kFp32; }},
    {"adafactor-needs-plain-updates",
     [](Plan& p) { p.optimizer = OptimizerKind::kAdafactor, p.loss_scale = 64; },
     "optimizer adafactor with loss_scale 64", [](Plan& p) { p.loss_scale = 0; }},
    {"average-needs-plain-updates",
     [](Plan& p) { p.average_decay = 0.5, p.offload_optimizer = OffloadTarget::kHost; },
     "average_decay 0.5 with offload_optimizer host",
     [](Plan& p) { p.offload_optimizer = OffloadTarget::kNone; }},
    {"average-needs-plain-updates",
     [](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kPipeDream2bw, p.average_decay = 0.5; },
     "average_decay 0.5 with schedule pipedream-2bw",
     [](Plan& p) { p.schedule = ScheduleKind::k1f1b; }},
    {"average-needs-plain-updates",
     [](Plan& p) {
       p.pp = 2, p.schedule = ScheduleKind::kZbH2, p.post_validation = true, p.clip_norm = 1;
       p.average_decay = 0.5;
     },
     "average_decay 0.5 with post_validation", [](Plan& p) { p.average_decay = 0; }},
    {"vocab-parallel-needs-tp", [](Plan& p) { p.vocab_parallel = true; },
     "vocab_parallel 1 with tp 1", [](Plan& p) { p.tp = 2; }},
    {"vocab-multiple-leaves-ids",
     [](Plan& p) { p.tp = 2, p.vocab_parallel = true, p.vocab_multiple = 4096; },
     "vocab_multiple 4096 with vocab_parallel 1 and a vocabulary of",
     [](Plan& p) { p.vocab_multiple = 1; }},
    {"sequence-parallel-needs-tp", [](Plan& p) { p.sequence_parallel = true; },
     "sequence_parallel 1 with tp 1", [](Plan& p) { p.tp = 2; }},
    {"sequence-parallel-needs-even-rows",
     [](Plan& p) { p.sequence_parallel = true, p.tp = 4, p.sequence = 6; },
     "sequence_parallel 1 with tp 4: must divide the 6 tokens of a micro-batch; use tp 2",
     [](Plan& p) { p.tp = 2; }},
    {"recompute-layers-need-recompute", [](Plan& p) { p.recompute_layers = 1; },
     "recompute_layers 1 with recompute none", [](Plan& p) { p.recompute = RecomputeKind::kFull; }},
    {"recompute-every-needs-recompute", [](Plan& p) { p.recompute_every = 2; },
     "recompute_every 2 with recompute none", [](Plan& p) { p.recompute = RecomputeKind::kFull; }},
    {"recompute-modules-are-selective",
     [](Plan& p) {
       p.recompute = RecomputeKind::kFull;
       p.recompute_modules = BitOf(RecomputeModule::kNorm) | BitOf(RecomputeModule::kMlp);
     },
     "recompute_modules norm,mlp with recompute full: only selective recomputation chooses",
     [](Plan& p) { p.recompute = RecomputeKind::kSelective; }},
    {"recompute-modules-exist",
     [](Plan& p) {
       p.recompute = RecomputeKind::kSelective;
       p.recompute_modules = BitOf(RecomputeModule::kExperts) | BitOf(RecomputeModule::kMlp);
     },
     "recompute_modules mlp,experts: the model has no experts; leave experts out",
     [](Plan& p) { p.recompute_modules = BitOf(RecomputeModule::kMlp); }},
    {"recompute-modules-exist",
     [](Plan& p) {
       p.recompute = RecomputeKind::kSelective;
       p.recompute_modules = BitOf(RecomputeModule::kQkv);
     },
     "use mla-up in place of qkv",
     [](Plan& p) { p.recompute_modules = BitOf(RecomputeModule::kLatentUp); }, false,
     LayerOrder::kSequential, Latent},
    {"loss-chunks-fit-the-rows", [](Plan& p) { p.loss_chunks = 9; },
     "loss_chunks 9 with 8 tokens of a micro-batch: a piece has at least one; use loss_chunks 8",
     [](Plan& p) { p.loss_chunks = 8; }},
    {"mlp-tiles-fit-the-rows", [](Plan& p) { p.mlp_tiles = 9; }, "use mlp_tiles 8",
     [](Plan& p) { p.mlp_tiles = 8; }},
    {"mlp-tiles-need-a-whole-backward",
     [](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kZbH1, p.mlp_tiles = 2; },
     "mlp_tiles 2 with schedule zb-h1", [](Plan& p) { p.schedule = ScheduleKind::k1f1b; }},
    {"tp-tiles-need-tp", [](Plan& p) { p.tp_tiles = 2; }, "tp_tiles 2 with tp 1",
     [](Plan& p) { p.tp = 2; }},
    {"tp-tiles-fit-the-rows", [](Plan& p) { p.tp = 2, p.tp_tiles = 9; }, "use tp_tiles 8",
     [](Plan& p) { p.tp_tiles = 8; }},
    {"scattered-tiles-are-of-one-kind",
     [](Plan& p) { p.tp = p.tp_tiles = p.mlp_tiles = 2, p.sequence_parallel = true; },
     "tp_tiles 2 with mlp_tiles 2 and sequence_parallel 1", [](Plan& p) { p.mlp_tiles = 1; }},
    {"context-needs-whole-chunks", [](Plan& p) { p.cp = 3; }, "nearest sequence: 6 or 12",
     [](Plan& p) { p.sequence = 6; }},
    {"context-needs-whole-chunks", [](Plan& p) { p.cp = 5; }, "nearest sequence: 10",
     [](Plan& p) { p.cp = 4; }},
    {"ring-has-few-turns", [](Plan& p) { p.cp = 1024, p.sequence = 2048; },
     "use cp 512 or cp_kind all-gather", [](Plan& p) { p.cp = 4, p.sequence = 8; }},
    {"all-to-all-needs-key-heads",
     [](Plan& p) { p.cp = 4, p.tp = 2, p.cp_kind = ContextParallelKind::kAllToAll; },
     "use cp 2 or cp_kind ring", [](Plan& p) { p.cp = 2; }},
    {"stages-need-layers",
     [](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kInterleaved, p.vpp = 3; },
     "cuts the model into 6 stages and it has 4 layers", [](Plan& p) { p.vpp = 2; }},
    {"stages-need-layers",
     [](Plan& p) {
       p.pp = 4, p.stage_layers = {2, 0, 2, 0};
     },
     "stage 1 has no layer",
     [](Plan& p) {
       p.stage_layers = {0, 1, 3, 0};
     }},
    {"stages-need-layers",
     [](Plan& p) {
       p.pp = 2, p.stage_layers = {1, 1};
     },
     "gives 2 layers to 2 stages",
     [](Plan& p) {
       p.stage_layers = {1, 3};
     }},
    {"scores-need-whole-sequences",
     [](Plan& p) { p.cp = 2, p.attention = AttentionAlgorithm::kStandard; },
     "attention standard with cp 2", [](Plan& p) { p.cp = 1; }},
    {"adapters-need-lora", [](Plan& p) { p.lora_rank = 4; },
     "lora_rank 4 with method full: there are no adapters; use method lora or lora_rank 8",
     [](Plan& p) { p.method = TrainingMethod::kLora; }},
    {"adapters-need-lora", [](Plan& p) { p.lora_alpha = 32; },
     "lora_alpha 32 with method full: there are no adapters; use method lora or lora_alpha 16",
     [](Plan& p) { p.lora_alpha = 16; }},
    {"adapters-are-scaled",
     [](Plan& p) { p.method = TrainingMethod::kLora, p.lora_rank = 4, p.lora_alpha = 0; },
     "lora_alpha 0 with method lora", [](Plan& p) { p.lora_alpha = 8; }},
    {"adapters-are-thin", [](Plan& p) { p.method = TrainingMethod::kLora, p.lora_rank = 1 << 20; },
     "lora_rank 1048576 with method lora: the model has hidden", [](Plan& p) { p.lora_rank = 2; }},
    {"quantized-base-is-read-in-16-bits",
     [](Plan& p) {
       p.method = TrainingMethod::kQlora, p.lora_rank = 2, p.precision = Precision::kFp8;
     },
     "precision fp8 with method qlora", [](Plan& p) { p.precision = Precision::kBf16; }},
    {"scale-window-needs-a-scale", [](Plan& p) { p.loss_scale_window = 100; },
     "loss_scale_window 100 with loss_scale 0", [](Plan& p) { p.loss_scale = 65536; }},
    {"scale-is-known-where-it-is-undone",
     [](Plan& p) {
       p.pp = 2, p.schedule = ScheduleKind::kZbH1, p.post_validation = true, p.loss_scale = 64;
       p.loss_scale_window = 100;
     },
     "loss_scale_window 100 with post_validation", [](Plan& p) { p.loss_scale_window = 0; }},
    {"balanced-biases-stay-here",
     [](Plan& p) { p.offload_parameters = p.offload_optimizer = OffloadTarget::kHost; },
     "offload_parameters host with router_bias_rate 0.001",
     [](Plan& p) { p.offload_parameters = OffloadTarget::kNone; }, true, LayerOrder::kSequential,
     [](ModelSpec& m) { m.router = RouterKind::kSigmoid, m.router_bias_rate = 0.001; }},
    {"capacity-needs-experts", [](Plan& p) { p.capacity_factor = 1.25; },
     "capacity_factor 1.25 with a model of 0 experts", [](Plan& p) { p.capacity_factor = 0; }},
    {"whole-experts-need-experts",
     [](Plan& p) { p.tp = 2, p.expert_tp = 1, p.sequence_parallel = true; },
     "expert_tp 1 with a model of 0 experts", [](Plan& p) { p.expert_tp = 0; }},
    {"ep-divides-ranks-and-experts",
     [](Plan& p) { p.dp = 6, p.global_batch = 12, p.ep = 3, p.capacity_factor = 1; },
     "ep 3 with dp * cp 6 and 4 experts: must divide both; nearest ep: 2",
     [](Plan& p) { p.ep = 2; }, true},
    {"headroom-needs-dropless-ep", [](Plan& p) { p.expert_headroom = 2; },
     "expert_headroom 2 with ep 1 and capacity_factor 0", [](Plan& p) { p.expert_headroom = 0; },
     true},
    {"headroom-holds-an-even-share",
     [](Plan& p) { p.dp = p.ep = 2, p.global_batch = 4, p.expert_headroom = 0.5; },
     "expert_headroom 0.5: even choices would not fit", [](Plan& p) { p.expert_headroom = 1.5; },
     true},
    {"whole-experts-need-split-rows", [](Plan& p) { p.tp = 2, p.expert_tp = 1; },
     "expert_tp 1 with tp 2 and sequence_parallel 0", [](Plan& p) { p.sequence_parallel = true; },
     true},
    {"experts-are-cut-or-whole", [](Plan& p) { p.tp = 4, p.expert_tp = 2; },
     "expert_tp 2 with tp 4", [](Plan& p) { p.expert_tp = 0; }, true},
    {"moe-pieces-need-ep", [](Plan& p) { p.moe_pieces = 2; }, "moe_pieces 2 with ep 1",
     [](Plan& p) { p.moe_pieces = 1; }, true},
    {"moe-pieces-fit-the-tokens",
     [](Plan& p) { p.dp = p.ep = 2, p.global_batch = 4, p.moe_pieces = 9; },
     "moe_pieces 9 with 8 tokens of a micro-batch on a rank", [](Plan& p) { p.moe_pieces = 8; },
     true},
    {"balance-groups-are-whole", [](Plan& p) { p.sequence = 7; },
     "balance_tokens 2 with 7 tokens of a micro-batch on a rank", [](Plan& p) { p.sequence = 6; },
     true},
    {"balance-groups-are-whole", [](Plan& p) { p.cp = 4; },
     "balance_tokens 2 with 1 tokens of a micro-batch side by side on a rank",
     [](Plan& p) { p.cp = 2; }, true},
    {"ep-needs-one-replica",
     [](Plan& p) {
       p.dp = 4, p.global_batch = 4, p.ep = p.replicas = 2, p.zero_stage = 1, p.capacity_factor = 1;
     },
     "ep 2 and expert_tp 0 with replicas 2", [](Plan& p) { p.replicas = 1; }, true},
    {"adapters-leave-experts-out", [](Plan& p) { p.method = TrainingMethod::kLora; },
     "method lora with 4 experts", [](Plan& p) { p.method = TrainingMethod::kFull; }, true},
    {"mlp-tiles-need-an-mlp", [](Plan& p) { p.mlp_tiles = 2; },
     "mlp_tiles 2 with a model of 4 experts", [](Plan& p) { p.mlp_tiles = 1; }, true},
    {"scattered-tiles-need-two-norms",
     [](Plan& p) { p.tp = p.tp_tiles = 2, p.sequence_parallel = true; },
     "tp_tiles 2 with sequence_parallel 1 and order parallel-one-norm",
     [](Plan& p) { p.tp_tiles = 1; }, false, LayerOrder::kParallelOneNorm},
    {"overlap-trains-all-of-the-router",
     [](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kPipeDream2bw; },
     "schedule pipedream-2bw with router sigmoid",
     [](Plan& p) { p.schedule = ScheduleKind::k1f1b; }, true, LayerOrder::kSequential,
     [](ModelSpec& m) { m.router = RouterKind::kSigmoid; }},
    {"adapters-leave-latent-attention-out", [](Plan& p) { p.method = TrainingMethod::kLora; },
     "method lora with latent attention of rank 8",
     [](Plan& p) { p.method = TrainingMethod::kFull; }, false, LayerOrder::kSequential, Latent},
    {"sinks-need-all-scores", [](Plan& p) { p.cp = 2, p.cp_kind = ContextParallelKind::kAllToAll; },
     "cp_kind all-to-all with cp 2 and attention_sinks",
     [](Plan& p) { p.cp_kind = ContextParallelKind::kRing; }, false, LayerOrder::kSequential,
     [](ModelSpec& m) { m.attention_sinks = true; }},
    {"whole-head-norms-need-all-heads", [](Plan& p) { p.tp = 2; }, "tp 2 with qk_norm_whole",
     [](Plan& p) { p.tp = 1; }, false, LayerOrder::kSequential,
     [](ModelSpec& m) { m.qk_norm = m.qk_norm_whole = true; }},
    {"mtp-needs-whole-sequences", [](Plan& p) { p.cp = 2; }, "cp 2 with predict_ahead 1",
     [](Plan& p) { p.cp = 1; }, false, LayerOrder::kSequential, WithMtp},
    {"mtp-needs-all-logits", [](Plan& p) { p.loss_chunks = 2; },
     "loss_chunks 2 with predict_ahead 1", [](Plan& p) { p.loss_chunks = 1; }, false,
     LayerOrder::kSequential, WithMtp},
    {"mtp-drops-nothing", [](Plan& p) { p.dropout = 0.1; },
     "dropout 0.1 and attention_dropout 0 with predict_ahead 1", [](Plan& p) { p.dropout = 0; },
     false, LayerOrder::kSequential, WithMtp},
    {"written-scores-are-plain", [](Plan& p) { p.attention = AttentionAlgorithm::kStandard; },
     "attention standard with attention_sinks",
     [](Plan& p) { p.attention = AttentionAlgorithm::kFlash; }, false, LayerOrder::kSequential,
     [](ModelSpec& m) { m.attention_sinks = true; }},
    {"chunks-are-whole", [](Plan& p) { p.sequence = 7; },
     "sequence 7 with attention_chunk 4: must be a multiple of it, or less; nearest: 4",
     [](Plan& p) { p.sequence = 4; }, false, LayerOrder::kSequential,
     [](ModelSpec& m) { m.attention_chunk = 4; }},
    {"documents-need-causal-sequences", [](Plan& p) { p.documents = true; },
     "documents with causal false", [](Plan& p) { p.documents = false; }, false,
     LayerOrder::kSequential, [](ModelSpec& m) { m.causal = false; }},
    {"stacks-read-tokens", [](Plan& p) { p.encoder_sequence = 4; },
     "encoder_sequence 4: the model has no encoder; use 0", [](Plan& p) { p.encoder_sequence = 0; },
     false, LayerOrder::kSequential, nullptr},
    {"stacks-are-whole", [](Plan& p) { p.documents = true; },
     "documents with an encoder-decoder: it is not modelled; use documents off",
     [](Plan& p) { p.documents = false; }, false, LayerOrder::kSequential, AsT5},
    {"residuals-start-at-wide-norms", [](Plan& p) { p.precision = Precision::kFp8; },
     "precision fp8 with residual_after_norm", [](Plan& p) { p.precision = Precision::kBf16; },
     false, LayerOrder::kSequential, [](ModelSpec& m) { m.residual_after_norm = true; }},
    {"adapters-leave-mtp-out", [](Plan& p) { p.method = TrainingMethod::kLora; },
     "method lora with predict_ahead 1", [](Plan& p) { p.method = TrainingMethod::kFull; }, false,
     LayerOrder::kSequential, WithMtp},
    {"mtp-needs-one-last-stage", [](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kDualPipe; },
     "schedule dualpipe with predict_ahead 1",
     [](Plan& p) { p.schedule = ScheduleKind::kDualPipeV; }, false, LayerOrder::kSequential,
     WithMtp},
};

ModelSpec ModelOf(const Row& row) {
  ModelSpec model = SmallGpt();
  model.order = row.order;
  if (row.has != nullptr) row.has(model);
  if (row.experts) {
    model.experts = 4;
    model.experts_per_token = 2;
    model.expert_ffn_hidden = 8;
    model.balance_tokens = 2;
  }
  return model;
}

TEST(PlanRules, RefuseWithBothChoicesAndTheRemedy) {
  for (const Row& row : kRows) {
    const ModelSpec model = ModelOf(row);
    Plan plan = Base();
    row.breaks(plan);
    const auto refused = ValidatePlan(plan, model);
    ASSERT_FALSE(refused.has_value()) << row.rule;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr(std::string(row.says))) << row.rule;
    row.mends(plan);
    const auto mended = ValidatePlan(plan, model);
    EXPECT_TRUE(mended.has_value()) << row.rule << ": " << mended.error().message;
  }
}

TEST(PlanRules, HaveARowEach) {
  std::set<std::string_view> rows;
  for (const Row& row : kRows) rows.insert(row.rule);
  for (const PlanRule& rule : PlanRules()) EXPECT_TRUE(rows.count(rule.name)) << rule.name;
  for (const PlanModelRule& rule : PlanModelRules()) EXPECT_TRUE(rows.count(rule.name));
}

}  // namespace
}  // namespace foretrain
