// Rules of plans for encoder-decoders (T5).
#include <fmt/format.h>

#include <algorithm>

#include "sim/config/rules/plan_rules.h"

namespace foretrain {

// Each stack reads a part of a sample.
std::string StacksReadTokens(const Plan& plan, const ModelSpec& model) {
  if (!model.HasEncoder()) {
    if (plan.encoder_sequence == 0) return {};
    return fmt::format("encoder_sequence {}: the model has no encoder; use 0",
                       plan.encoder_sequence);
  }
  if (plan.EncoderSequence() >= 1 && plan.DecoderSequence() >= 1) return {};
  return fmt::format(
      "encoder_sequence {} with sequence {}: sequence counts the tokens of both stacks, and each "
      "needs one; use at most {}, or a sequence of at least 2",
      plan.encoder_sequence, plan.sequence, plan.sequence - 1);
}

// The two stacks' rows are one tensor, which these options would cut across its parts.
std::string StacksAreWhole(const Plan& plan, const ModelSpec& model) {
  if (!model.HasEncoder()) return {};
  const auto refused = [](const std::string& what, const char* instead) {
    return fmt::format("{} with an encoder-decoder: it is not modelled; use {}", what, instead);
  };
  if (plan.cp > 1) return refused(fmt::format("cp {}", plan.cp), "cp 1");
  if (plan.sequence_parallel) return refused("sequence_parallel", "tp without it");
  if (plan.documents) return refused("documents", "documents off");
  if (plan.dropout > 0) return refused(fmt::format("dropout {}", plan.dropout), "dropout 0");
  if (plan.attention_dropout > 0) {
    return refused(fmt::format("attention_dropout {}", plan.attention_dropout),
                   "attention_dropout 0");
  }
  if (plan.QuantizesProducts()) {
    return refused(fmt::format("precision {}", Name(plan.precision)), "precision bf16");
  }
  if (plan.offload_activations != OffloadTarget::kNone) {
    return refused("offload_activations", "recompute");
  }
  const std::int64_t rows =
      plan.micro_batch * std::min(plan.EncoderSequence(), plan.DecoderSequence());
  if (plan.mlp_tiles > rows) {
    return fmt::format("mlp_tiles {} with {} tokens of a stack in a micro-batch: use at most {}",
                       plan.mlp_tiles, rows, rows);
  }
  if (plan.HasAdapters()) return refused("adapters", "method full");
  return {};
}

}  // namespace foretrain
