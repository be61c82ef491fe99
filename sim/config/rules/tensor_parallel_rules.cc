#include "sim/config/rules/plan_rules.h"

#include <fmt/format.h>

#include <numeric>

namespace foretrain {

std::string VocabParallelNeedsTp(const Plan& plan) {
  if (!plan.vocab_parallel || plan.tp > 1) return {};
  return "vocab_parallel 1 with tp 1: one rank has nothing to split; use tp 2 or vocab_parallel 0";
}

// The first rank must not hold all ids: its share would look like a vocabulary that is not split.
std::string VocabMultipleLeavesIds(const Plan& plan, const ModelSpec& model) {
  if (!plan.vocab_parallel || plan.vocab_multiple < model.vocab) return {};
  return fmt::format(
      "vocab_multiple {} with vocab_parallel 1 and a vocabulary of {}: one rank would hold all of "
      "it; use vocab_multiple 1",
      plan.vocab_multiple, model.vocab);
}

std::string SequenceParallelNeedsTp(const Plan& plan) {
  if (!plan.sequence_parallel || plan.tp > 1) return {};
  return "sequence_parallel 1 with tp 1: one rank has nothing to split; use tp 2 or "
         "sequence_parallel 0";
}

namespace {

// Rows of one micro-batch on one rank.
std::int64_t RowsOf(const Plan& plan) { return plan.micro_batch * plan.LocalSequence(); }

}  // namespace

// Each rank holds an equal share of the rows outside attention and MLP.
std::string SequenceParallelNeedsEvenRows(const Plan& plan) {
  const std::int64_t rows = RowsOf(plan);
  if (!plan.sequence_parallel || rows % plan.tp == 0) return {};
  return fmt::format(
      "sequence_parallel 1 with tp {}: must divide the {} tokens of a micro-batch; use tp {} or "
      "sequence_parallel 0",
      plan.tp, rows, std::gcd(rows, static_cast<std::int64_t>(plan.tp)));
}

std::string TpTilesNeedTp(const Plan& plan) {
  if (plan.tp_tiles == 1 || plan.tp > 1) return {};
  return fmt::format("tp_tiles {} with tp 1: there is no sum to cut; use tp 2 or tp_tiles 1",
                     plan.tp_tiles);
}

// An MLP tile is a range of consecutive rows; a piece of a reduce-scatter is a part of each rank's
// rows.
std::string ScatteredTilesAreOfOneKind(const Plan& plan) {
  if (!plan.sequence_parallel || plan.tp_tiles == 1 || plan.mlp_tiles == 1) return {};
  return fmt::format(
      "tp_tiles {} with mlp_tiles {} and sequence_parallel 1: the MLP's sums are cut one way or "
      "the "
      "other; use tp_tiles 1 or mlp_tiles 1",
      plan.tp_tiles, plan.mlp_tiles);
}

// The single gradient is the sum of both branches. Pieces of a reduce-scatter would hold its rows
// in another order.
std::string ScatteredTilesNeedTwoNorms(const Plan& plan, const ModelSpec& model) {
  if (model.order != LayerOrder::kParallelOneNorm) return {};
  if (!plan.sequence_parallel || plan.tp_tiles == 1) return {};
  return fmt::format(
      "tp_tiles {} with sequence_parallel 1 and order parallel-one-norm: both branches' gradients "
      "are one sum; use tp_tiles 1",
      plan.tp_tiles);
}

}  // namespace foretrain
