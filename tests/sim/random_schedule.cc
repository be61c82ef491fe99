#include "tests/sim/random_schedule.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <vector>

#include "sim/config/schedule/check_schedule.h"
#include "sim/config/schedule/placement.h"

namespace foretrain {

namespace {

ScheduleDraft AnySchedule(std::mt19937& random, int max_ranks, int max_micro_batches) {
  const auto below = [&](int count) {
    return static_cast<int>(random() % static_cast<unsigned>(count));
  };
  constexpr std::array kShapes = {StageShape::kLine, StageShape::kRounds, StageShape::kV,
                                  StageShape::kBothWays};
  const StageShape shape = kShapes[static_cast<std::size_t>(below(4))];
  int p = 1 + below(max_ranks), m = 1 + below(max_micro_batches);
  const int chunks = shape == StageShape::kLine ? 1 : 2;
  if (shape == StageShape::kBothWays) {
    p += p % 2;
    m += m % 2;
  }
  const Placement placement(shape, p, chunks);
  const int stages = placement.stages();
  ScheduleDraft draft;
  draft.ranks.resize(static_cast<std::size_t>(p));
  std::set<std::tuple<Pass, int, int>> done;
  const auto is_done = [&](Pass pass, int stage, int k) { return done.contains({pass, stage, k}); };
  const auto has_gradient = [&](int stage, int k) {
    return stage == stages || is_done(Pass::kBackward, stage, k) ||
           is_done(Pass::kBackwardInput, stage, k);
  };
  for (bool moved = true; moved;) {
    moved = false;
    const int first = below(p);
    for (int i = 0; i < p; ++i) {
      const int rank = (first + i) % p;
      std::vector<ScheduleAction> ready;
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const int stage = placement.StageOf(rank, chunk);
        const int direction = placement.DirectionOf(chunk);
        const int from = placement.FirstMicroBatch(direction, m);
        int next_sum = from;  // weight gradients are added in ascending order
        while (is_done(Pass::kBackward, stage, next_sum) ||
               is_done(Pass::kBackwardWeight, stage, next_sum)) {
          ++next_sum;
        }
        for (int k = from; k < from + placement.MicroBatches(direction, m); ++k) {
          const bool forward = is_done(Pass::kForward, stage, k);
          const bool input = is_done(Pass::kBackwardInput, stage, k);
          const bool whole = is_done(Pass::kBackward, stage, k);
          if (!forward && (stage == 0 || is_done(Pass::kForward, stage - 1, k))) {
            ready.push_back({Pass::kForward, stage, k});
          }
          if (forward && !input && !whole && has_gradient(stage + 1, k)) {
            ready.push_back({Pass::kBackwardInput, stage, k});
            if (k == next_sum) ready.push_back({Pass::kBackward, stage, k});
          }
          if (input && k == next_sum) ready.push_back({Pass::kBackwardWeight, stage, k});
        }
      }
      if (ready.empty()) continue;
      const ScheduleAction& chosen =
          ready[static_cast<std::size_t>(below(static_cast<int>(ready.size())))];
      draft.ranks[static_cast<std::size_t>(rank)].push_back(chosen);
      done.insert({chosen.pass, chosen.stage, chosen.micro_batch});
      moved = true;
      break;
    }
  }
  return draft;
}

}  // namespace

// Only holders of the same stages can end them in different orders.
ScheduleDraft RandomSchedule(std::mt19937& random, int max_ranks, int max_micro_batches) {
  ScheduleDraft draft = AnySchedule(random, max_ranks, max_micro_batches);
  while (!CheckSchedule(draft).Works()) draft = AnySchedule(random, max_ranks, max_micro_batches);
  return draft;
}

}  // namespace foretrain
