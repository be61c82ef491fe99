#include "sim/program/lower/rank/emit.h"

#include <unordered_map>

#include "base/result.h"
#include "sim/program/lower/rank/lowerings.h"
#include "sim/program/lower/rank/rank_builder.h"

namespace foretrain {

// State comes first, because its buffers are numbered before those of the step and the tensor table
// must have it when the first instruction binds it.
void EmitRank(const LowerContext& context, const Skeleton& skeleton, BlockRegistry& blocks,
              RankProgram& rank) {
  RankBuilder builder(context, blocks, rank);
  for (const Lowering& lowering : Lowerings()) {
    if (lowering.make_state != nullptr) lowering.make_state(builder);
  }
  std::unordered_map<OpId, int> numbers;  // instruction by id, to resolve `after`
  for (const SkeletonStep& step : skeleton) {
    const auto number = static_cast<int>(rank.step.size());
    builder.SetAhead(step.ahead);
    builder.Add(step.key, step.rule->describe(context, step.key));
    FT_CHECK(static_cast<int>(rank.step.size()) == number + 1);
    numbers[PackId(step.key)] = number;
    if (step.after) rank.step.back().after = numbers.at(PackId(*step.after));
  }
}

}  // namespace foretrain
