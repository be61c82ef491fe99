// Readers of families with an encoder (own_parts.h).
#include <array>
#include <cmath>

#include "base/text.h"
#include "sim/config/model/import/own_parts.h"
#include "sim/config/model/import/readers.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

// The forms of T5's MLP.
struct FeedForward {
  std::string_view name;
  MlpKind mlp;
};
constexpr std::array kFeedForwards = {
    FeedForward{"relu", MlpKind::kRelu},
    FeedForward{"gated-gelu", MlpKind::kGeglu},
    FeedForward{"gated-silu", MlpKind::kSwiglu},
    FeedForward{"gelu", MlpKind::kGeluErf},
};

}  // namespace

// The masked-LM model: a norm of the embeddings, layers with norms behind their residuals, and a
// transform before the logits (bert/modeling_bert.py). Those norms are norm1 of the next layer
// here, and the last one the final norm.
void MoreOfBert(Config& config, ModelSpec& model) {
  model.token_types = config.CountOr("type_vocab_size", 2);
  model.causal = config.BoolOr("is_decoder", false);
  if (config.StringOr("position_embedding_type", "absolute") != "absolute") {
    config.Unsupported("position_embedding_type",
                       "must be \"absolute\": positions relative to the keys are not modelled");
  }
  config.Note(
      "the model has the masked-LM head; the pooler and the head of next sentences are left out");
}

// Positions begin after that of padding (roberta/modeling_roberta.py).
void MoreOfRoberta(Config& config, ModelSpec& model) {
  MoreOfBert(config, model);
  model.token_types = config.CountOr("type_vocab_size", 1);
  model.unused_positions = config.IntegerOr("pad_token_id", 1) + 1;
  model.mlp = MlpKind::kGeluErf;
  model.max_sequence -= model.unused_positions;
}

// Both stacks share the token table, and each has a table of relative positions
// (t5/modeling_t5.py). Scores are not divided by the root of head_dim; the logits of version 1.0,
// whose head is tied, are divided by that of hidden.
void MoreOfT5(Config& config, ModelSpec& model) {
  model.encoder_layers = config.Count("num_layers");
  model.relative_buckets = config.CountOr("relative_attention_num_buckets", 32);
  model.relative_max_distance = config.CountOr("relative_attention_max_distance", 128);
  model.attention_scale = 1;
  if (config.BoolOr("scale_decoder_outputs", model.tied_embeddings)) {
    model.logit_scale = 1 / std::sqrt(static_cast<double>(model.hidden));
  }
  config.IgnoreIn({"is_gated_act", "dense_act_fn"});
  const std::string otherwise = model.IsGated() ? "gated-gelu" : "relu";
  const std::string kind = config.StringOr("feed_forward_proj", otherwise);
  std::vector<std::string> known;
  for (const FeedForward& form : kFeedForwards) {
    known.emplace_back(form.name);
    if (form.name == kind) {
      model.mlp = form.mlp;
      return;
    }
  }
  config.Unsupported("feed_forward_proj", fmt::format("\"{}\" is not supported; must be one of {}",
                                                      Printable(kind), Join(known, ", ")));
}

// Its logits are never scaled (mt5/modeling_mt5.py).
void MoreOfMt5(Config& config, ModelSpec& model) {
  MoreOfT5(config, model);
  model.logit_scale = 1;
}

}  // namespace foretrain
