#include "app/bench/search_bench.h"

#include <algorithm>
#include <ctime>
#include <vector>

#include "sim/search/evaluate/evaluator.h"
#include "sim/search/space/default_space.h"
#include "sim/search/space/space.h"

namespace foretrain {
namespace {

constexpr std::int64_t kEvery = 7;  // takes every seventh plan

// Takes every seventh plan of each part of the space. Neighbours differ in one field and share
// caches, so a run of them would look too fast.
std::vector<Plan> PlansOf(const SpaceWalk& walk, std::int64_t count) {
  std::vector<Plan> plans;
  const auto parts = static_cast<std::int64_t>(walk.parts());
  const std::int64_t of_part = count / std::max<std::int64_t>(1, parts) + 1;
  for (std::size_t part = 0; part < walk.parts(); ++part) {
    std::int64_t seen = 0, taken = 0;
    Rejections rejected;
    walk.VisitPart(
        part,
        [&](const Plan& plan) {
          if (seen++ % kEvery == 0) plans.push_back(plan), ++taken;
          return true;
        },
        [&] { return taken >= of_part; }, rejected);
  }
  return plans;
}

}  // namespace

// One thread, so that the time is a plan's own. Evaluates all plans once, then again and again for
// about `seconds`.
EvaluationRate MeasureEvaluations(const ForecastContext& context, std::int64_t plans,
                                  double seconds) {
  Plan base;
  base.precision = DefaultPrecision(context.cluster);
  base.sequence = DefaultSequence(context.model);
  base.global_batch = DefaultBatch(context.cluster.Devices(), base.sequence);
  const SearchSpace space =
      DefaultSpace(context.model, context.cluster, context.cluster.Devices(), base);
  const SpaceWalk walk(context.model, space, context.cluster.Devices());
  const std::vector<Plan> drawn = PlansOf(walk, plans);
  Evaluator evaluator(context.model, context.costs, walk.varying());
  // CPU time of the process, so that other work on the machine does not count.
  const auto evaluate_all = [&] {
    const std::clock_t start = std::clock();
    for (const Plan& plan : drawn) evaluator.Evaluate(plan);
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  EvaluationRate rate;
  rate.plans = static_cast<std::int64_t>(drawn.size());
  if (drawn.empty()) return rate;
  rate.first_s = evaluate_all();
  double sum_s = 0;
  std::int64_t rounds = 0;
  // Whole rounds, so that every plan counts equally.
  while (sum_s < seconds) {
    sum_s += evaluate_all();
    ++rounds;
  }
  rate.seconds = sum_s / static_cast<double>(rounds * rate.plans);
  return rate;
}

}  // namespace foretrain
