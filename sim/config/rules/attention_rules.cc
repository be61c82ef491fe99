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

// A chunk is computed as a sequence of its own, which must be whole and on one rank. Dropout's
// random numbers go by samples of a batch, which chunks are not.
std::string ChunksAreWhole(const Plan& plan, const ModelSpec& model) {
  const std::int64_t chunk = model.attention_chunk;
  if (chunk == 0 || plan.sequence <= chunk) return {};
  if (plan.cp > 1) {
    return fmt::format(
        "cp {} with sequence {} and attention_chunk {}: a rank would hold parts of chunks; use cp "
        "1, or a sequence of at most {}",
        plan.cp, plan.sequence, chunk, chunk);
  }
  if (plan.attention_dropout > 0) {
    return fmt::format(
        "attention_dropout {} with attention_chunk {} and sequence {}: chunks have no random "
        "numbers "
        "of their own; use 0",
        plan.attention_dropout, chunk, plan.sequence);
  }
  if (plan.sequence % chunk == 0) return {};
  return fmt::format(
      "sequence {} with attention_chunk {}: must be a multiple of it, or less; nearest: {}",
      plan.sequence, chunk, plan.sequence / chunk * chunk);
}

// Products in 8 bits or fewer keep a norm's output as codes, which a residual can't start at.
std::string ResidualsStartAtWideNorms(const Plan& plan, const ModelSpec& model) {
  if (!model.residual_after_norm || !plan.QuantizesProducts()) return {};
  return fmt::format(
      "precision {} with residual_after_norm: residuals read norms in 16 bits or more; use "
      "precision "
      "bf16",
      Name(plan.precision));
}

// Standard attention supports heads of one width and no terms added to the scores.
std::string WrittenScoresArePlain(const Plan& plan, const ModelSpec& model) {
  if (plan.attention == AttentionAlgorithm::kFlash) return {};
  const char* what = nullptr;
  if (model.IsLatent()) what = "latent attention";
  if (model.positions == PositionKind::kAlibi) what = "positions alibi";
  if (model.attention_softcap != 0) what = "attention_softcap";
  if (model.attention_sinks) what = "attention_sinks";
  if (!model.causal) what = "causal false";
  if (model.HasEncoder()) what = "an encoder-decoder";
  if (what == nullptr) return {};
  return fmt::format(
      "attention standard with {}: only attention flash computes it; use attention flash", what);
}

// A document's first token bounds the keys before a query, of the whole sequence. An encoder's
// attention has no such bound, and a chunk is a sequence of its own.
std::string DocumentsNeedCausalSequences(const Plan& plan, const ModelSpec& model) {
  if (!plan.documents) return {};
  if (!model.causal) {
    return "documents with causal false: attention to later tokens does not end at documents; use "
           "documents off";
  }
  const std::int64_t chunk = model.attention_chunk;
  if (chunk == 0 || plan.sequence <= chunk) return {};
  return fmt::format(
      "documents with sequence {} and attention_chunk {}: use documents off, or a sequence of at "
      "most {}",
      plan.sequence, chunk, chunk);
}

}  // namespace foretrain
