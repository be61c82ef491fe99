#include "tests/runtime/equality/equality_cases.h"

#include "tests/runtime/training.h"

namespace foretrain {
namespace {

void Chunked(Plan& plan, ScheduleKind schedule) {
  plan.pp = 2;
  plan.schedule = schedule;
  plan.vpp = schedule == ScheduleKind::kInterleaved ? 2 : 1;
}

}  // namespace

Plan With(void (*change)(Plan&)) {
  Plan plan = TinyPlan();
  change(plan);
  return plan;
}

std::vector<Case> ContextCases() {
  return {
      {"Cp2AllGather", With([](Plan& p) { p.cp = 2, p.cp_kind = kCpAllGather; })},
      {"Cp4AllGather", With([](Plan& p) { p.cp = 4, p.cp_kind = kCpAllGather; })},
      {"Cp2Ring", With([](Plan& p) { p.cp = 2, p.cp_kind = kCpRing; })},
      {"Cp4Ring", With([](Plan& p) { p.cp = 4, p.cp_kind = kCpRing; })},
      {"Cp2AllToAll", With([](Plan& p) { p.cp = 2, p.cp_kind = kCpAllToAll; })},
      {"Cp2AllGatherMicroBatch2",
       With([](Plan& p) { p.cp = 2, p.cp_kind = kCpAllGather, p.micro_batch = 2; })},
      {"Cp4RingMicroBatch2",
       With([](Plan& p) { p.cp = 4, p.cp_kind = kCpRing, p.micro_batch = 2; })},
      {"Cp2AllToAllMicroBatch2",
       With([](Plan& p) { p.cp = 2, p.cp_kind = kCpAllToAll, p.micro_batch = 2; })},
      {"Cp2Tp2AllGather", With([](Plan& p) { p.cp = p.tp = 2, p.cp_kind = kCpAllGather; })},
      {"Cp2Tp2Ring", With([](Plan& p) { p.cp = p.tp = 2, p.cp_kind = kCpRing; })},
      {"Cp2Pp2AllGatherRecompute", With([](Plan& p) {
         p.cp = p.pp = 2, p.cp_kind = kCpAllGather, p.recompute = RecomputeKind::kFull;
       })},
      {"Cp2Pp2RingZbH1", With([](Plan& p) {
         p.cp = p.pp = 2, p.cp_kind = kCpRing, p.schedule = ScheduleKind::kZbH1;
       })},
      {"Cp2Pp2AllToAllZbV", With([](Plan& p) {
         Chunked(p, ScheduleKind::kZbV);
         p.cp = 2, p.cp_kind = kCpAllToAll;
       })},
      {"Cp2Pp2RingDualPipe", With([](Plan& p) {
         Chunked(p, ScheduleKind::kDualPipe);
         p.cp = 2, p.cp_kind = kCpRing;
       })},
      {"Cp2Dp2AllGatherZero1",
       With([](Plan& p) { p.cp = p.dp = 2, p.cp_kind = kCpAllGather, p.zero_stage = 1; })},
      {"Cp2Dp2RingZero3Recompute", With([](Plan& p) {
         p.cp = p.dp = 2, p.zero_stage = 3, p.recompute = RecomputeKind::kFull;
       })},
      {"Cp4RingRecompute", With([](Plan& p) { p.cp = 4, p.recompute = RecomputeKind::kFull; })},
      {"Cp2AllToAllZero3Recompute", With([](Plan& p) {
         p.cp = 2, p.cp_kind = kCpAllToAll, p.zero_stage = 3, p.recompute = RecomputeKind::kFull;
       })},
      {"Cp4RingSelective",
       With([](Plan& p) { p.cp = 4, p.recompute = RecomputeKind::kSelective; })},
      {"Cp2AllGatherSelectiveZbH1", With([](Plan& p) {
         p.cp = p.pp = 2, p.cp_kind = kCpAllGather, p.schedule = ScheduleKind::kZbH1;
         p.recompute = RecomputeKind::kSelective;
       })},
      {"Cp2AllToAllSelective", With([](Plan& p) {
         p.cp = 2, p.cp_kind = kCpAllToAll, p.recompute = RecomputeKind::kSelective;
       })},
      {"Cp2Tp2RingSequenceParallelVocabParallel",
       With([](Plan& p) { p.cp = p.tp = 2, p.sequence_parallel = p.vocab_parallel = true; })},
      {"Cp2Tp2AllGatherSequenceParallel", With([](Plan& p) {
         p.cp = p.tp = 2, p.cp_kind = kCpAllGather, p.sequence_parallel = true;
         p.micro_batch = 2, p.tp_tiles = 2, p.loss_chunks = 3;
       })},
      {"Cp2AllToAllMlpTilesZero2", With([](Plan& p) {
         p.cp = p.dp = 2, p.cp_kind = kCpAllToAll, p.mlp_tiles = 3, p.zero_stage = 2;
       })},
      {"Cp2Dp2RingHsdp", With([](Plan& p) { p.cp = p.dp = 2, p.zero_stage = 3, p.replicas = 2; })},
      {"Cp2Dp2Tp2Pp2RingZero1",
       With([](Plan& p) { p.cp = p.dp = p.tp = p.pp = 2, p.cp_kind = kCpRing, p.zero_stage = 1; })},
  };
}

std::vector<Case> Cases() {
  return {
      {"MicroBatch2", With([](Plan& p) { p.micro_batch = 2; })},
      {"Recompute", With([](Plan& p) { p.recompute = RecomputeKind::kFull; })},
      {"Dp2", With([](Plan& p) { p.dp = 2; })},
      {"Dp4", With([](Plan& p) { p.dp = 4; })},
      {"Dp2Zero1", With([](Plan& p) { p.dp = 2, p.zero_stage = 1; })},
      {"Dp4Zero3", With([](Plan& p) { p.dp = 4, p.zero_stage = 3; })},
      {"Dp4Zero2", With([](Plan& p) { p.dp = 4, p.zero_stage = 2; })},
      {"Dp2Pp2Zero2ZbH1", With([](Plan& p) {
         p.dp = 2, p.pp = 2, p.zero_stage = 2, p.schedule = ScheduleKind::kZbH1;
       })},
      {"Dp2Pp2Zero2DualPipeV", With([](Plan& p) {
         p.dp = 2, p.pp = 2, p.zero_stage = 2, p.schedule = ScheduleKind::kDualPipeV;
       })},
      {"Dp4Zero1Replicas", With([](Plan& p) { p.dp = 4, p.zero_stage = 1, p.replicas = 2; })},
      {"Dp4Pp2Zero2Replicas",
       With([](Plan& p) { p.dp = 4, p.pp = 2, p.zero_stage = 2, p.replicas = 2; })},
      {"Dp4Tp2Zero3Replicas",
       With([](Plan& p) { p.dp = 4, p.tp = 2, p.zero_stage = 3, p.replicas = 2; })},
      {"Dp2Zero3Prefetch0",
       With([](Plan& p) { p.dp = 2, p.zero_stage = 3, p.prefetch_depth = 0; })},
      {"Dp2Pp2Zero3Prefetch3",
       With([](Plan& p) { p.dp = 2, p.pp = 2, p.zero_stage = 3, p.prefetch_depth = 3; })},
      {"Dp2Pp2Zero3GatherTogether",
       With([](Plan& p) { p.dp = 2, p.pp = 2, p.zero_stage = 3, p.gather_bytes = 20'000; })},
      {"Dp2Zero3Unsharded",
       With([](Plan& p) { p.dp = 2, p.zero_stage = 3, p.unsharded_bytes = 40'000; })},
      {"Dp4Zero3ReplicasGatherTogetherUnsharded", With([](Plan& p) {
         p.dp = 4, p.zero_stage = 3, p.replicas = 2, p.prefetch_depth = 2;
         p.gather_bytes = 20'000, p.unsharded_bytes = 40'000;
       })},
      {"Dp2EachMicroBatch",
       With([](Plan& p) { p.dp = 2, p.reduction_time = ReductionTime::kMicroBatch; })},
      {"Dp4Pp2Zero1EachMicroBatch", With([](Plan& p) {
         p.dp = 4, p.pp = 2, p.zero_stage = 1, p.reduction_time = ReductionTime::kMicroBatch;
       })},
      {"Dp2Zero3Recompute",
       With([](Plan& p) { p.dp = 2, p.zero_stage = 3, p.recompute = RecomputeKind::kFull; })},
      {"Tp2", With([](Plan& p) { p.tp = 2; })},
      {"Pp2Gpipe", With([](Plan& p) { p.pp = 2, p.schedule = ScheduleKind::kGpipe; })},
      {"Pp2", With([](Plan& p) { p.pp = 2; })},
      {"Pp4", With([](Plan& p) { p.pp = 4; })},
      {"Pp4ZbH1", With([](Plan& p) { p.pp = 4, p.schedule = ScheduleKind::kZbH1; })},
      {"Pp3", With([](Plan& p) { p.pp = 3; })},
      {"Pp2Recompute", With([](Plan& p) { p.pp = 2, p.recompute = RecomputeKind::kFull; })},
      {"Dp2Tp2", With([](Plan& p) { p.dp = 2, p.tp = 2; })},
      {"Dp2Pp2", With([](Plan& p) { p.dp = 2, p.pp = 2; })},
      {"Tp2Pp2", With([](Plan& p) { p.tp = 2, p.pp = 2; })},
      {"Dp2Tp2Pp2", With([](Plan& p) { p.dp = 2, p.tp = 2, p.pp = 2; })},
      {"Dp2Tp2Pp2Zero1", With([](Plan& p) { p.dp = 2, p.tp = 2, p.pp = 2, p.zero_stage = 1; })},
      {"Dp2Pp2Zero3", With([](Plan& p) { p.dp = 2, p.pp = 2, p.zero_stage = 3; })},
      {"Dp2Pp2Zero1ZbH1", With([](Plan& p) {
         p.dp = 2, p.pp = 2, p.zero_stage = 1, p.schedule = ScheduleKind::kZbH1;
       })},
      {"Pp2Interleaved", With([](Plan& p) { Chunked(p, ScheduleKind::kInterleaved); })},
      {"Pp2ZbH2", With([](Plan& p) { Chunked(p, ScheduleKind::kZbH2); })},
      {"Pp2ZbV", With([](Plan& p) { Chunked(p, ScheduleKind::kZbV); })},
      {"Pp2DualPipeV", With([](Plan& p) { Chunked(p, ScheduleKind::kDualPipeV); })},
      {"Pp2DualPipe", With([](Plan& p) { Chunked(p, ScheduleKind::kDualPipe); })},
      {"Pp4DualPipe", With([](Plan& p) { Chunked(p, ScheduleKind::kDualPipe), p.pp = 4; })},
      {"Tp2Pp2InterleavedRecompute", With([](Plan& p) {
         Chunked(p, ScheduleKind::kInterleaved);
         p.tp = 2, p.recompute = RecomputeKind::kFull;
       })},
      {"Dp2Pp2ZbVZero1", With([](Plan& p) {
         Chunked(p, ScheduleKind::kZbV);
         p.dp = 2, p.zero_stage = 1;
       })},
      {"Dp2Pp2InterleavedZero3", With([](Plan& p) {
         Chunked(p, ScheduleKind::kInterleaved);
         p.dp = 2, p.zero_stage = 3;
       })},
      {"Dp2Pp2DualPipeVZero3", With([](Plan& p) {
         Chunked(p, ScheduleKind::kDualPipeV);
         p.dp = 2, p.zero_stage = 3;
       })},
      {"Tp2Pp2DualPipe", With([](Plan& p) { Chunked(p, ScheduleKind::kDualPipe), p.tp = 2; })},
      {"Tp2Pp2DualPipeVRecompute", With([](Plan& p) {
         Chunked(p, ScheduleKind::kDualPipeV);
         p.tp = 2, p.recompute = RecomputeKind::kFull;
       })},
      {"Dp2Pp2DualPipeZero1", With([](Plan& p) {
         Chunked(p, ScheduleKind::kDualPipe);
         p.dp = 2, p.zero_stage = 1;
       })},
      {"Pp3Uneven", With([](Plan& p) {
         p.pp = 3, p.stage_layers = {1, 2, 1};
       })},
      {"Pp3EndsWithoutLayers", With([](Plan& p) {
         p.pp = 3, p.stage_layers = {0, 4, 0};
       })},
      {"Dp2Pp2InterleavedEndsWithoutLayersZero1", With([](Plan& p) {
         Chunked(p, ScheduleKind::kInterleaved);
         p.vpp = 3, p.stage_layers = {0, 1, 1, 1, 1, 0};
         p.dp = 2, p.zero_stage = 1;
       })},
      {"Dp2Tp2Pp2Zero3Recompute", With([](Plan& p) {
         p.dp = 2, p.tp = 2, p.pp = 2, p.zero_stage = 3, p.recompute = RecomputeKind::kFull;
       })},
      {"VocabMultiple24", With([](Plan& p) { p.vocab_multiple = 24; })},
      {"Tp2Vocab", With([](Plan& p) { p.tp = 2, p.vocab_parallel = true; })},
      {"Tp2VocabMultiple24Dp2Zero3LossChunks2", With([](Plan& p) {
         p.tp = p.dp = p.loss_chunks = 2, p.zero_stage = 3, p.vocab_parallel = true;
         p.vocab_multiple = 24;
       })},
      {"Dp2Tp2VocabPp2Zero1",
       With([](Plan& p) { p.tp = p.dp = p.pp = 2, p.zero_stage = 1, p.vocab_parallel = true; })},
      {"Tp2VocabDp2Zero3",
       With([](Plan& p) { p.tp = 2, p.dp = 2, p.zero_stage = 3, p.vocab_parallel = true; })},
      {"Tp2Sequence", With([](Plan& p) { p.tp = 2, p.sequence_parallel = true; })},
      {"Tp2SequenceVocab",
       With([](Plan& p) { p.tp = 2, p.sequence_parallel = p.vocab_parallel = true; })},
      {"Tp2SequencePp2Dp2Zero1",
       With([](Plan& p) { p.tp = p.pp = p.dp = 2, p.zero_stage = 1, p.sequence_parallel = true; })},
      {"Tp2SequenceVocabPp2ZbH1", With([](Plan& p) {
         p.tp = p.pp = 2, p.schedule = ScheduleKind::kZbH1;
         p.sequence_parallel = p.vocab_parallel = true;
       })},
      {"Tp2SequenceDp2Zero3Selective", With([](Plan& p) {
         p.tp = p.dp = 2, p.zero_stage = 3, p.sequence_parallel = true;
         p.recompute = RecomputeKind::kSelective;
       })},
      {"Selective", With([](Plan& p) { p.recompute = RecomputeKind::kSelective; })},
      {"Pp2ZbH1Selective", With([](Plan& p) {
         p.pp = 2, p.schedule = ScheduleKind::kZbH1, p.recompute = RecomputeKind::kSelective;
       })},
      {"Pp2RecomputeOneLayer",
       With([](Plan& p) { p.pp = 2, p.recompute = RecomputeKind::kFull, p.recompute_layers = 1; })},
      {"LossChunks3", With([](Plan& p) { p.loss_chunks = 3; })},
      {"Dp2Zero3Gpipe2LossChunks2", With([](Plan& p) {
         p.dp = p.pp = 2, p.zero_stage = 3, p.schedule = ScheduleKind::kGpipe, p.loss_chunks = 2;
       })},
      {"Tp2VocabLossChunks4",
       With([](Plan& p) { p.tp = 2, p.vocab_parallel = true, p.loss_chunks = 4; })},
      {"Tp2SequenceLossChunks4",
       With([](Plan& p) { p.tp = 2, p.sequence_parallel = true, p.loss_chunks = 4; })},
      {"Tp2SequenceVocabLossChunks3Pp2ZbH1", With([](Plan& p) {
         p.tp = p.pp = 2, p.sequence_parallel = p.vocab_parallel = true, p.loss_chunks = 3;
         p.schedule = ScheduleKind::kZbH1;
       })},
      {"MlpTiles3", With([](Plan& p) { p.mlp_tiles = 3; })},
      {"MlpTiles3Recompute",
       With([](Plan& p) { p.mlp_tiles = 3, p.recompute = RecomputeKind::kFull; })},
      {"Tp2SequenceMlpTiles2Selective", With([](Plan& p) {
         p.tp = 2, p.sequence_parallel = true, p.mlp_tiles = 2;
         p.recompute = RecomputeKind::kSelective;
       })},
      {"Tp2TpTiles3MlpTiles2", With([](Plan& p) { p.tp = 2, p.tp_tiles = 3, p.mlp_tiles = 2; })},
      {"Tp2Pp2DualPipeVSequenceVocabLossChunks2", With([](Plan& p) {
         p.tp = p.pp = 2, p.schedule = ScheduleKind::kDualPipeV;
         p.sequence_parallel = p.vocab_parallel = true, p.loss_chunks = 2, p.tp_tiles = 2;
         p.recompute = RecomputeKind::kSelective, p.recompute_layers = 1;
       })},
      {"Tp2SequenceTpTiles3",
       With([](Plan& p) { p.tp = 2, p.sequence_parallel = true, p.tp_tiles = 3; })},
  };
}

}  // namespace foretrain
