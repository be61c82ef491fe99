#include "tests/runtime/equality/matrix_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sim/config/model/model_json.h"
#include "sim/config/plan/plan_json.h"
#include "sim/memory/peak_memory.h"
#include "tests/runtime/executor/step_bytes.h"
#include "tests/runtime/strategies/quantized_base.h"
#include "tests/runtime/strategies/routing_choices.h"
#include "tests/runtime/training.h"

namespace foretrain {
namespace {

constexpr double kLossTolerance = 1e-5;
constexpr double kGradientTolerance = 1e-4;

void CheckMemory(const MatrixCase& one, const Program& program) {
  for (const RankProgram& rank : program.ranks) {
    for (int s = 0; s < kSpaceCount; ++s) {
      const auto space = static_cast<Space>(s);
      const PeakMemory linked = LinkedPeak(rank, space);
      const PeakMemory predicted = PlannedPeak(one.model, one.plan, rank.Coordinates(), space);
      EXPECT_EQ(predicted.bytes, linked.bytes) << "rank " << rank.rank << ' ' << Name(space);
      EXPECT_EQ(predicted.total, linked.total) << "rank " << rank.rank << ' ' << Name(space);
    }
  }
}

double Norm(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

// Checks |a - b| <= 1e-4 |b| for each tensor. A key's bias has a gradient of rounding errors only
// (softmax cancels it), so it is compared with a thousandth of the largest norm. Gradients of
// `actual` are `loss_scale` times too large.
void CheckGradients(const TensorMap& actual, double loss_scale, const TensorMap& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  double largest = 0;
  for (const auto& [name, tensor] : expected) largest = std::max(largest, Norm(tensor.values));
  for (const auto& [name, tensor] : expected) {
    const auto found = actual.find(name);
    ASSERT_NE(found, actual.end()) << name;
    ASSERT_EQ(found->second.values.size(), tensor.values.size()) << name;
    std::vector<float> difference = found->second.values;
    for (std::size_t i = 0; i < difference.size(); ++i) {
      difference[i] = static_cast<float>(difference[i] / loss_scale - tensor.values[i]);
    }
    const double scale = std::max(Norm(tensor.values), 1e-3 * largest);
    EXPECT_LE(Norm(difference), kGradientTolerance * scale) << name;
  }
}

// Reference runs shared by many cases, with their routers' choices.
struct ReferenceRun {
  Trained trained;
  RoutedTokens chosen;
};

const ReferenceRun& ReferenceOf(const MatrixCase& one, TrainingOptions options) {
  static std::map<std::string, ReferenceRun> runs;
  const Plan plan = one.Reference();
  const bool quantizes = one.plan.QuantizesBase();
  const std::string key = ToJson(one.model) + ToJson(plan) + std::to_string(options.steps) +
                          (quantizes ? " beside 4 bits on " + std::to_string(one.plan.tp) : "");
  const auto found = runs.find(key);
  if (found != runs.end()) return found->second;
  if (quantizes) options.weights = QuantizedBase(one.model, one.plan, options);
  Choices choices;
  choices.Follow(plan);
  options.routing = &choices;
  Trained trained = TrainTiny(one.model, plan, options);
  return runs.emplace(key, ReferenceRun{std::move(trained), choices.recorded()}).first->second;
}

// Runs the case with the experts chosen in the reference.
Trained TrainCase(const MatrixCase& one, TrainingOptions options) {
  Choices choices(ReferenceOf(one, options).chosen);
  choices.Follow(one.plan);
  if (one.model.experts > 0) options.routing = &choices;
  return TrainTiny(one.model, one.plan, options);
}

void CheckLosses(const Trained& actual, const Trained& expected) {
  ASSERT_EQ(actual.losses.size(), expected.losses.size());
  for (std::size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(actual.losses[step], expected.losses[step], kLossTolerance * expected.losses[step])
        << "step " << step;
  }
}

// True if a step uses unquantized gathers and parameters that include all earlier gradients. Other
// plans are compared with their own definitions elsewhere.
bool IsExact(const Plan& plan) {
  return plan.gather_format == GatherFormat::kFp32 && !plan.delayed_update &&
         plan.schedule != ScheduleKind::kPipeDream && plan.schedule != ScheduleKind::kPipeDream2bw;
}

}  // namespace

void CheckCase(const MatrixCase& one, int steps) {
  SCOPED_TRACE(one.model.name + ": " + one.name);
  const auto program = Compile(one.model, one.plan);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  CheckMemory(one, *program);
  TrainingOptions all;
  all.steps = steps;
  all.learning_rate = 1e-3F;
  TrainingOptions first = all;
  first.steps = 1;
  const Trained trained = TrainCase(one, all);
  EXPECT_LT(trained.losses.back(), trained.losses.front() - 0.02) << "it does not learn";
  if (IsExact(one.plan)) {
    const Trained& expected = ReferenceOf(one, all).trained;
    CheckLosses(trained, expected);
    const double scale = one.plan.loss_scale > 0 ? one.plan.loss_scale : 1.0;
    const int doublings = one.plan.HasDynamicScale() ? (steps - 1) / one.plan.loss_scale_window : 0;
    CheckGradients(trained.gradients, std::ldexp(scale, doublings), expected.gradients);
    CheckGradients(TrainCase(one, first).gradients, scale,
                   ReferenceOf(one, first).trained.gradients);
  }
  EXPECT_EQ(BytesOf(trained.timeline), PredictedBytes(*program, trained.routing));
  TrainingOptions plain = all;
  plain.poison = false;
  EXPECT_TRUE(SameBits(trained, TrainCase(one, plain)));
}

}  // namespace foretrain
