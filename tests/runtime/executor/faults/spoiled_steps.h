// Training steps of tiny models in which one op of one rank writes a value that is not finite.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "kernels/cpu/cpu_device.h"
#include "runtime/data/token_data.h"
#include "tests/runtime/equality/plan_matrix.h"
#include "tests/runtime/training.h"

namespace foretrain {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Changes what one op of one rank has written, at one step, as often as told.
struct Spoiler : FaultInjector {
  Fault At(int at_rank, std::int64_t at_step, std::int32_t at_op) override {
    if (at_rank != rank || at_step != step || at_op != op) return {};
    // Asked before and after the op.
    return asked++ / 2 < times ? Fault{.kind = Fault::Kind::kValue, .value = value} : Fault{};
  }
  int rank = 0;
  std::int64_t step = 2;
  std::int32_t op = 0;
  float value = kNan;
  int times = std::numeric_limits<int>::max();
  std::atomic<int> asked{0};
};

using IsOp = std::function<bool(const Op&)>;
inline IsOp Named(std::string name) {
  return [name = std::move(name)](const Op& op) { return op.name == name; };
}

// Number of the rank's last such op.
inline std::int32_t LastOp(const Program& program, int rank, const IsOp& is) {
  const RankProgram& of_rank = program.ranks[static_cast<std::size_t>(rank)];
  const std::vector<OpRef> refs = OpRefs(program, of_rank);
  std::int32_t found = -1;
  for (std::size_t i = 0; i < refs.size(); ++i) {
    if (is(OpAt(program, of_rank, refs[i]))) found = static_cast<std::int32_t>(i);
  }
  EXPECT_GE(found, 0);
  return found;
}

struct Ended {
  Result<RunSummary> summary;
  TensorMap parameters;
  std::int64_t steps = 0;  // losses that were reported
};

// With a spoiler: of the last op that `is` accepts on its rank.
inline Ended RunSteps(const ModelSpec& model, const Plan& plan, std::int64_t steps,
                      Spoiler* spoiler = nullptr, const IsOp& is = nullptr) {
  auto program = std::make_shared<const Program>(*Compile(model, plan));
  if (spoiler != nullptr) spoiler->op = LastOp(*program, spoiler->rank, is);
  auto data = *TokenData::FromText(TrainingText(), "text", model.vocab, plan);
  RealClock clock;
  ExecutorOptions options;
  options.timeout_ns = 60'000'000'000;
  options.faults = spoiler;
  options.poison = true;
  options.ends_if_not_finite = true;
  options.learning_rate = [](std::int64_t) { return 1e-2F; };
  const auto executor = *Executor::Make(program, CpuDeviceApi(), clock, options);
  EXPECT_TRUE(FillParameters(*executor, InitialWeights(model, 5)).has_value());
  RecordingSink sink;
  Ended ended{executor->Run(steps, *data, sink), {}, 0};
  ended.parameters = GatherTensors(*executor, GatheredState::kParameters);
  for (const StepScalars& scalars : sink.scalars) {
    ended.steps = std::max(ended.steps, scalars.step + 1);
  }
  return ended;
}

inline bool AreEqual(const TensorMap& a, const TensorMap& b) {
  bool same = a.size() == b.size() && !a.empty();
  for (const auto& [name, tensor] : a) same = same && tensor.values == b.at(name).values;
  return same;
}

inline Plan ClippedPlan() {
  Plan plan = TinyPlan();
  plan.dp = plan.pp = 2;
  plan.clip_norm = 1;
  return plan;
}

}  // namespace foretrain
