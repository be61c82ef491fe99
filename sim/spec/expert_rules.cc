#include "sim/spec/expert_rules.h"

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

// The divisors of both that lie nearest below.
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

// Rows of a tile would go to experts apart from those of the others.
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

// Each token must be dealt by one rank alone.
std::string WholeExpertsNeedSplitRows(const Plan& plan) {
  if (!plan.ExpertsSpanTp() || plan.sequence_parallel) return {};
  return fmt::format(
      "expert_tp 1 with tp {} and sequence_parallel 0: all tensor-parallel ranks would send the "
      "same tokens; use sequence_parallel 1 or expert_tp 0",
      plan.tp);
}

std::string ExpertsAreCutOrWhole(const Plan& plan) {
  if (plan.expert_tp <= 1 || plan.expert_tp == plan.tp) return {};
  return fmt::format(
      "expert_tp {} with tp {}: experts are split as all else or not at all; use expert_tp 0 or 1",
      plan.expert_tp, plan.tp);
}

// Pieces overlap an exchange with products.
std::string MoePiecesNeedEp(const Plan& plan) {
  if (plan.moe_pieces == 1 || plan.ep > 1) return {};
  return fmt::format(
      "moe_pieces {} with ep 1: no rows are exchanged that products could run beside; use "
      "moe_pieces "
      "1 or ep 2",
      plan.moe_pieces);
}

// Ops of a block are numbered in 12 bits.
std::string MoePiecesFitTheTokens(const Plan& plan) {
  constexpr std::int64_t kMostMoePieces = 128;
  const std::int64_t most = std::min(plan.ExpertTokens(), kMostMoePieces);
  if (plan.moe_pieces <= most || plan.moe_pieces == 1) return {};
  return fmt::format(
      "moe_pieces {} with {} tokens of a micro-batch on a rank: at most {} and a token each; use "
      "moe_pieces {}",
      plan.moe_pieces, plan.ExpertTokens(), kMostMoePieces, most);
}

std::string BalanceGroupsAreWhole(const Plan& plan, const ModelSpec& model) {
  const std::int64_t tokens = plan.ExpertTokens();
  if (model.balance_tokens == 0 || tokens % model.balance_tokens == 0) return {};
  return fmt::format(
      "balance_tokens {} with {} tokens of a micro-batch on a rank: must divide them; nearest: {}",
      model.balance_tokens, tokens, std::gcd(tokens, model.balance_tokens));
}

// A rank of one replica would have to find its experts' shards in another.
std::string EpNeedsOneReplica(const Plan& plan) {
  if (!plan.DealsExperts() || plan.replicas == 1) return {};
  return fmt::format(
      "ep {} and expert_tp {} with replicas {}: experts are sharded over all that hold them; use "
      "replicas 1, or ep 1 and expert_tp 0",
      plan.ep, plan.expert_tp, plan.replicas);
}

// They move by what a step has counted, not by a gradient that an update away from the device has.
std::string BalancedBiasesStayHere(const Plan& plan, const ModelSpec& model) {
  if (model.router_bias_rate == 0 || plan.offload_parameters == OffloadTarget::kNone) return {};
  return fmt::format(
      "offload_parameters {} with router_bias_rate {}: the biases that it moves lie on the device; "
      "use offload_parameters none or router_bias_rate 0",
      Name(plan.offload_parameters), model.router_bias_rate);
}

}  // namespace foretrain
