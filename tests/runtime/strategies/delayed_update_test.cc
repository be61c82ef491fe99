// The delayed update: its overlap with the next step, and its definition.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "runtime/data/token_data.h"
#include "sim/program/ir/program.h"
#include "tests/runtime/equality/training_by_hand.h"
#include "tests/runtime/executor/forced_durations.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

// The host's updates take about as long as a step's compute. Waiting for them, a step takes the
// sum; delayed, the longer of the two.
TEST(DelayedUpdate, OverlapsTheNextStep) {
  Plan plan = TinyPlan();
  plan.global_batch = 2;
  plan.clip_norm = 1.0;  // so that no update begins before the last gradient
  plan.offload_optimizer = OffloadTarget::kHost;
  const Forced probe = RunForced(plan, kMs, 0, {}, 1);
  std::int64_t updates = 0;
  for (const Span& span : probe.timeline.spans) updates += span.queue == Queue::kCpu ? 1 : 0;
  ASSERT_GT(updates, 4);
  const std::int64_t cpu = probe.compute_ns / updates;
  const Forced waits = RunForced(plan, kMs, cpu, {}, 4);
  EXPECT_GE(waits.step_ns, probe.compute_ns + (updates - 1) * cpu);
  plan.delayed_update = true;
  const Forced overlapped = RunForced(plan, kMs, cpu, {}, 4);
  EXPECT_EQ(overlapped.step_ns, std::max(overlapped.compute_ns, updates * cpu));
}

// The delayed update reads the gradients that this step's backward replaces, in the order of
// replacement: 12 updates of 20 ms, starting with the head. The step's forward takes 44 ms and its
// head's backward 5, so at 49 ms the head's two updates have ended. Layer 5 - k's gradients are
// replaced at 49 + 18 k, but from k = 1 on its updates end later, at 40 (k + 1). A copy out of
// layer 5 - k waits until then, the embedding's until the last update ends at 240 ms.
TEST(DelayedUpdate, TakesGradientsInTheOrderInWhichTheyAreReplaced) {
  Plan plan = TinyPlan();
  plan.global_batch = 1;
  plan.offload_optimizer = plan.offload_gradients = OffloadTarget::kHost;
  plan.delayed_update = true;
  const Forced forced = RunForced(plan, kMs, 20 * kMs, {}, 3, TinyGpt(false));
  std::map<int, std::int64_t> left;  // by bucket: end of its copy out in the last step
  for (const Span& span : forced.timeline.spans) {
    const InstructionKey key = UnpackId(span.op);
    if (key.kind != InstructionKind::kCopyOut || span.step != 2) continue;
    left[key.part] = span.end_ns - forced.timeline.steps.back().start_ns;
  }
  EXPECT_EQ(left, (std::map<int, std::int64_t>{{0, 49 * kMs},
                                               {1, 80 * kMs},
                                               {2, 120 * kMs},
                                               {3, 160 * kMs},
                                               {4, 200 * kMs},
                                               {5, 240 * kMs}}));
  EXPECT_EQ(forced.step_ns, 240 * kMs);
}

Trained TrainDelayedByHand(const ModelSpec& model, Plan plan, const TrainingOptions& options) {
  plan.offload_optimizer = OffloadTarget::kNone;
  plan.delayed_update = false;
  const auto program = Compile(model, plan);
  std::map<std::string, Moments> moments;
  Trained all;
  TensorMap before;
  for (int step = 0; step < options.steps; ++step) {
    auto data = TokenData::FromText(TrainingText(), "text", model.vocab, plan);
    const Trained now = OneStep(
        model, plan, step == 0 ? InitialWeights(model, options.seed) : SourceOf(all.parameters),
        step, **data);
    all.losses.push_back(now.losses.front());
    if (step == 0) all.parameters = now.parameters;  // the learning rate is 0
    for (const ParameterPlace& place : program->ranks[0].parameters) {
      if (step == 0) continue;
      UpdateByHand(plan.optimizer, place, before.at(place.name), step, options.learning_rate,
                   all.parameters.at(place.name), moments[place.name]);
    }
    before = now.gradients;
  }
  return all;
}

// Sequential definition: the parameters of step t + 1 are those of step t, updated with the
// gradient of step t - 1 (counted from 1; step 0 has none). Each gradient comes from one step of a
// run with learning rate 0 at the parameters in question.
TEST(DelayedUpdate, EqualsItsSequentialDefinition) {
  Plan plan = TinyPlan();
  plan.dp = 2;
  plan.zero_stage = 1;
  plan.offload_optimizer = OffloadTarget::kHost;
  plan.delayed_update = true;
  constexpr int kSteps = 5;
  const ModelSpec model = TinyGpt(false);
  TrainingOptions options;
  options.steps = kSteps;
  for (const OptimizerKind optimizer : {OptimizerKind::kMomentum, OptimizerKind::kLion}) {
    Plan other = plan;
    other.optimizer = optimizer;
    const Trained trained = TrainTiny(model, other, options);
    const Trained by_hand = TrainDelayedByHand(model, other, options);
    EXPECT_EQ(trained.losses, by_hand.losses) << Describe(other);
    for (const auto& [name, tensor] : trained.parameters) {
      EXPECT_EQ(tensor.values, by_hand.parameters.at(name).values) << name;
    }
  }
  const Trained delayed = TrainTiny(model, plan, options);
  const Trained reference = TrainDelayedByHand(model, plan, options);
  ASSERT_EQ(delayed.losses.size(), reference.losses.size());
  EXPECT_EQ(delayed.losses, reference.losses);
  plan.delayed_update = false;
  const Trained at_once = TrainTiny(model, plan, options);
  EXPECT_EQ(delayed.losses[0], at_once.losses[0]);
  EXPECT_NE(delayed.losses[2], at_once.losses[2]);
  for (const auto& [name, tensor] : delayed.parameters) {
    EXPECT_EQ(tensor.values, reference.parameters.at(name).values) << name;
  }
}

}  // namespace
}  // namespace foretrain
