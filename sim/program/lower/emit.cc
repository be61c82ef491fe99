#include "sim/program/lower/emit.h"

#include <unordered_map>

#include "base/result.h"
#include "sim/program/lower/lowerings.h"
#include "sim/program/lower/rank_builder.h"

namespace foretrain {

void EmitRank(const LowerContext& context, const Skeleton& skeleton, BlockRegistry& blocks,
              RankProgram& rank) {
  RankBuilder builder(context, blocks, rank);
  for (const Lowering& lowering : Lowerings()) {
    if (lowering.make_state != nullptr) lowering.make_state(builder);
  }
  std::unordered_map<OpId, int> numbers;  // of instructions by id, for `after`
  for (const SkeletonStep& step : skeleton) {
    const auto number = static_cast<int>(rank.step.size());
    builder.SetAhead(step.ahead);
    step.rule->emit(builder, step.key);
    FT_CHECK(static_cast<int>(rank.step.size()) == number + 1);
    numbers[PackId(step.key)] = number;
    if (step.after) rank.step.back().after = numbers.at(PackId(*step.after));
  }
}

}  // namespace foretrain
