#include "sim/config/rules/plan_rules.h"

#include <fmt/format.h>

namespace foretrain {

// Standard attention stores a whole matrix of scores, which needs all keys on the rank.
std::string ScoresNeedWholeSequences(const Plan& plan) {
  if (plan.attention == AttentionAlgorithm::kFlash || plan.cp == 1) return {};
  return fmt::format(
      "attention standard with cp {}: queries meet the keys of other ranks part by part; use "
      "attention flash or cp 1",
      plan.cp);
}

// After the exchange a rank holds outputs of all heads, but softmax sums only of the heads it
// computed.
std::string SinksNeedAllScores(const Plan& plan, const ModelSpec& model) {
  const bool by_heads = plan.cp > 1 && plan.cp_kind == ContextParallelKind::kAllToAll;
  if (!model.attention_sinks || !by_heads) return {};
  return fmt::format(
      "cp_kind all-to-all with cp {} and attention_sinks: sinks stand behind the exchange, where "
      "the sums of scores are those of other tokens; use cp_kind ring",
      plan.cp);
}

// A norm over all heads needs all of them, of which a rank has a part.
std::string WholeHeadNormsNeedAllHeads(const Plan& plan, const ModelSpec& model) {
  if (!model.qk_norm_whole || plan.tp == 1) return {};
  return fmt::format(
      "tp {} with qk_norm_whole: each rank has some of the heads whose squares a norm sums; use tp "
      "1",
      plan.tp);
}

// Standard attention supports heads of one width and no terms added to the scores.
std::string WrittenScoresArePlain(const Plan& plan, const ModelSpec& model) {
  if (plan.attention == AttentionAlgorithm::kFlash) return {};
  const char* what = nullptr;
  if (model.IsLatent()) what = "latent attention";
  if (model.positions == PositionKind::kAlibi) what = "positions alibi";
  if (model.attention_softcap != 0) what = "attention_softcap";
  if (model.attention_sinks) what = "attention_sinks";
  if (what == nullptr) return {};
  return fmt::format(
      "attention standard with {}: only attention flash computes it; use attention flash", what);
}

}  // namespace foretrain
