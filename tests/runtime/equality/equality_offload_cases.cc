// The cases of the equality tests with offloaded tensors.
#include "tests/runtime/equality/equality_cases.h"
#include "tests/runtime/training.h"

namespace foretrain {

std::vector<Case> OffloadCases() {
  return {
      {"Optimizer", With([](Plan& p) { p.offload_optimizer = OffloadTarget::kHost; })},
      {"OptimizerHalf",
       With([](Plan& p) { p.offload_optimizer = OffloadTarget::kHost, p.offload_fraction = 0.5; })},
      {"Dp2Zero1OptimizerNvme", With([](Plan& p) {
         p.dp = 2, p.zero_stage = 1, p.offload_optimizer = OffloadTarget::kNvme;
       })},
      {"Dp2Zero3Optimizer", With([](Plan& p) {
         p.dp = 2, p.zero_stage = 3, p.offload_optimizer = OffloadTarget::kHost;
       })},
      {"Dp2Pp2Zero3OptimizerStreamNvme", With([](Plan& p) {
         p.dp = 2, p.pp = 2, p.zero_stage = 3;
         p.offload_optimizer = OffloadTarget::kNvme, p.stream_optimizer = true;
       })},
      {"Tp2Pp2OptimizerStream", With([](Plan& p) {
         p.tp = 2, p.pp = 2, p.offload_optimizer = OffloadTarget::kHost, p.stream_optimizer = true;
       })},
      {"Parameters",
       With([](Plan& p) { p.offload_parameters = p.offload_optimizer = OffloadTarget::kHost; })},
      {"Dp2Pp2Zero3ParametersNvmeRecompute", With([](Plan& p) {
         p.dp = 2, p.pp = 2, p.zero_stage = 3, p.recompute = RecomputeKind::kFull;
         p.offload_parameters = p.offload_optimizer = OffloadTarget::kNvme;
       })},
      {"Dp2Zero3ParametersStream", With([](Plan& p) {
         p.dp = 2, p.zero_stage = 3, p.stream_optimizer = true;
         p.offload_parameters = p.offload_optimizer = OffloadTarget::kHost;
       })},
      {"Gradients",
       With([](Plan& p) { p.offload_gradients = p.offload_optimizer = OffloadTarget::kHost; })},
      {"Dp2EachMicroBatchGradients", With([](Plan& p) {
         p.dp = 2, p.reduction_time = ReductionTime::kMicroBatch;
         p.offload_gradients = p.offload_optimizer = OffloadTarget::kHost;
       })},
      {"Dp2Pp2Zero1EachMicroBatchGradientsNvme", With([](Plan& p) {
         p.dp = p.pp = 2, p.zero_stage = 1, p.reduction_time = ReductionTime::kMicroBatch;
         p.offload_gradients = OffloadTarget::kHost;
         p.offload_optimizer = OffloadTarget::kNvme;
       })},
      {"Dp4Zero2Replicas2Gradients", With([](Plan& p) {
         p.dp = 4, p.zero_stage = 2, p.replicas = 2;
         p.offload_gradients = p.offload_optimizer = OffloadTarget::kHost;
       })},
      {"Dp2Zero3GradientsParametersStream", With([](Plan& p) {
         p.dp = 2, p.zero_stage = 3, p.stream_optimizer = true;
         p.offload_gradients = p.offload_parameters = p.offload_optimizer = OffloadTarget::kHost;
       })},
      {"Tp2Pp2SequenceZbH1Gradients", With([](Plan& p) {
         p.tp = p.pp = 2, p.sequence_parallel = true, p.schedule = ScheduleKind::kZbH1;
         p.offload_gradients = p.offload_optimizer = OffloadTarget::kHost;
       })},
      {"Cp2Pp2DualPipeVGradientsActivations", With([](Plan& p) {
         p.cp = p.pp = 2, p.schedule = ScheduleKind::kDualPipeV, p.zero_stage = 2;
         p.offload_gradients = p.offload_optimizer = p.offload_activations = OffloadTarget::kHost;
       })},
      {"Activations", With([](Plan& p) { p.offload_activations = OffloadTarget::kHost; })},
      {"ActivationsNvmeRecompute", With([](Plan& p) {
         p.offload_activations = OffloadTarget::kNvme, p.recompute = RecomputeKind::kFull;
       })},
      {"Dp2Pp2Zero3ZbH1Activations", With([](Plan& p) {
         p.dp = 2, p.pp = 2, p.zero_stage = 3, p.schedule = ScheduleKind::kZbH1;
         p.offload_activations = OffloadTarget::kHost;
       })},
      {"Dp2Zero3Prefetch2LossChunks2ParametersNvme", With([](Plan& p) {
         p.dp = 2, p.zero_stage = 3, p.prefetch_depth = 2, p.loss_chunks = 2;
         p.offload_parameters = p.offload_optimizer = OffloadTarget::kNvme;
       })},
      {"Dp4Zero2Replicas2OptimizerNvme", With([](Plan& p) {
         p.dp = 4, p.zero_stage = 2, p.replicas = 2;
         p.offload_optimizer = OffloadTarget::kNvme;
       })},
      {"Tp2SequenceVocabSelectiveActivationsOptimizer", With([](Plan& p) {
         p.tp = 2, p.sequence_parallel = p.vocab_parallel = true;
         p.recompute = RecomputeKind::kSelective, p.recompute_layers = 1;
         p.offload_activations = p.offload_optimizer = OffloadTarget::kHost;
       })},
  };
}

}  // namespace foretrain
