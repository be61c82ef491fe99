#include "sim/config/rules/plan_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace foretrain {

std::string CapacityNeedsExperts(const Plan& plan, const ModelSpec& model) {
  if (plan.capacity_factor == 0 || model.experts > 0) return {};
  return fmt::format(
      "capacity_factor {} with a model of {} experts: there is nothing to limit; use "
      "capacity_factor 0",
      plan.capacity_factor, model.experts);
}

std::string WholeExpertsNeedExperts(const Plan& plan, const ModelSpec& model) {
  if (!plan.ExpertsSpanTp() || model.experts > 0) return {};
  return fmt::format(
      "expert_tp 1 with a model of {} experts: there are none to keep whole; use expert_tp 0",
      model.experts);
}

// Suggests the nearest common divisor below.
std::string EpDividesRanksAndExperts(const Plan& plan, const ModelSpec& model) {
  const std::int64_t ranks = plan.ExpertRanks();
  if (plan.ep == 1 || (model.experts > 0 && ranks % plan.ep == 0 && model.experts % plan.ep == 0)) {
    return {};
  }
  std::int64_t fits = std::max<std::int64_t>(1, std::gcd(ranks, model.experts));
  while (fits > plan.ep || ranks % fits != 0 || (model.experts > 0 && model.experts % fits != 0)) {
    --fits;
  }
  if (model.experts == 0) fits = 1;
  return fmt::format("ep {} with {} {} and {} experts: must divide both; nearest ep: {}", plan.ep,
                     plan.ExpertsSpanTp() ? "dp * cp * tp" : "dp * cp", ranks, model.experts, fits);
}

// Tiles would route their rows separately from the rest of the micro-batch.
std::string MlpTilesNeedAnMlp(const Plan& plan, const ModelSpec& model) {
  if (plan.mlp_tiles == 1 || model.experts == 0) return {};
  return fmt::format(
      "mlp_tiles {} with a model of {} experts: rows are dealt to experts all at once; use "
      "mlp_tiles 1",
      plan.mlp_tiles, model.experts);
}

std::string HeadroomNeedsDroplessEp(const Plan& plan) {
  if (plan.expert_headroom == 0 || (plan.ep > 1 && plan.capacity_factor == 0)) return {};
  return fmt::format(
      "expert_headroom {} with ep {} and capacity_factor {}: only dropless experts that others "
      "send rows to have a number of rows that is not known; use expert_headroom 0",
      plan.expert_headroom, plan.ep, plan.capacity_factor);
}

std::string HeadroomHoldsAnEvenShare(const Plan& plan) {
  if (plan.expert_headroom == 0 || plan.expert_headroom >= 1) return {};
  return fmt::format(
      "expert_headroom {}: even choices would not fit; use expert_headroom 1.5, or 0 for all that "
      "may come",
      plan.expert_headroom);
}

// Otherwise several ranks would route the same token.
std::string WholeExpertsNeedSplitRows(const Plan& plan) {
  if (!plan.ExpertsSpanTp() || plan.sequence_parallel) return {};
  return fmt::format(
      "expert_tp 1 with tp {} and sequence_parallel 0: all tensor-parallel ranks would send the "
      "same tokens; use sequence_parallel 1 or expert_tp 0",
      plan.tp);
}

// The blocks know two layouts of an expert: cut like the rest of the layer, or whole on one rank.
std::string ExpertsAreCutOrWhole(const Plan& plan) {
  if (plan.expert_tp <= 1 || plan.expert_tp == plan.tp) return {};
  return fmt::format(
      "expert_tp {} with tp {}: experts are split as all else or not at all; use expert_tp 0 or 1",
      plan.expert_tp, plan.tp);
}

// Pieces overlap an exchange with products; without ep there is no exchange.
std::string MoePiecesNeedEp(const Plan& plan) {
  if (plan.moe_pieces == 1 || plan.ep > 1) return {};
  return fmt::format(
      "moe_pieces {} with ep 1: there is no exchange for GEMMs to overlap with; use "
      "moe_pieces "
      "1 or ep 2",
      plan.moe_pieces);
}

// Op ids within a block have 12 bits, which limits the pieces.
std::string MoePiecesFitTheTokens(const Plan& plan) {
  constexpr std::int64_t kMaxMoePieces = 128;
  const std::int64_t max = std::min(plan.ExpertTokens(), kMaxMoePieces);
  if (plan.moe_pieces <= max || plan.moe_pieces == 1) return {};
  return fmt::format(
      "moe_pieces {} with {} tokens of a micro-batch on a rank: at most {} and a token each; use "
      "moe_pieces {}",
      plan.moe_pieces, plan.ExpertTokens(), kMaxMoePieces, max);
}

// Groups of tokens balance their choices together, so a group may not span two micro-batches, ranks
// or chunks: a rank of a split sequence has two chunks that are not neighbours.
std::string BalanceGroupsAreWhole(const Plan& plan, const ModelSpec& model) {
  const std::int64_t tokens = plan.ExpertTokens();
  const std::int64_t together =
      plan.cp > 1 ? std::gcd(tokens, plan.sequence / (2 * plan.cp)) : tokens;
  if (model.balance_tokens == 0 || together % model.balance_tokens == 0) return {};
  return fmt::format(
      "balance_tokens {} with {} tokens of a micro-batch {}: must divide them; nearest: {}",
      model.balance_tokens, together, plan.cp > 1 ? "side by side on a rank" : "on a rank",
      std::gcd(together, model.balance_tokens));
}

// Otherwise a rank of one replica would find its experts' shards in another replica.
std::string EpNeedsOneReplica(const Plan& plan) {
  if (!plan.DealsExperts() || plan.replicas == 1) return {};
  return fmt::format(
      "ep {} and expert_tp {} with replicas {}: experts are sharded over all that hold them; use "
      "replicas 1, or ep 1 and expert_tp 0",
      plan.ep, plan.expert_tp, plan.replicas);
}

// Biases move by counted loads, not by a gradient, so an offloaded update has nothing to apply.
std::string BalancedBiasesStayHere(const Plan& plan, const ModelSpec& model) {
  if (model.router_bias_rate == 0 || plan.offload_parameters == OffloadTarget::kNone) return {};
  return fmt::format(
      "offload_parameters {} with router_bias_rate {}: the biases that it moves lie on the device; "
      "use offload_parameters none or router_bias_rate 0",
      Name(plan.offload_parameters), model.router_bias_rate);
}

}  // namespace foretrain
