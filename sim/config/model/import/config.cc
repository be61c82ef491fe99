#include "sim/config/model/import/config.h"

#include <algorithm>

#include "base/text.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

// Fields of transformers' configuration classes (versions 4.44 and 5.23) that change neither the
// shape nor the work of a training step. They concern tokens, generation, other heads, initial
// values, inference and data types. Dropout is among them, because imports apply none. One line
// each, as there are many.
// clang-format off
constexpr std::string_view kWithoutEffect[] = {
    "_attn_implementation_autoset",
    "activation_dropout",
    "architectures",
    "attention_dropout",
    "attention_softmax_in_fp32",
    "attn_pdrop",
    "auto_map",
    "aux_loss_alpha",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bias_dropout_fusion",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cross_attention_hidden_size",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dropout",
    "dtype",
    "early_stopping",
    "emb_pdrop",
    "embd_pdrop",
    "embedding_dropout",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "ep_size",
    "experts_per_token",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "hidden_dropout",
    "id2label",
    "init_config",
    "init_device",
    "init_std",
    "initial_context_length",
    "initializer_range",
    "is_decoder",
    "label2id",
    "layerdrop",
    "length_penalty",
    "masked_softmax_fusion",
    "max_length",
    "max_window_layers",
    "min_length",
    "n_ctx",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "offset_alibi",
    "original_max_position_embeddings",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_router_logits",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "quantization_config",
    "remove_invalid_values",
    "reorder_and_upcast_attn",
    "repetition_penalty",
    "resid_pdrop",
    "residual_dropout",
    "return_dict",
    "return_dict_in_generate",
    "rope_interleave",
    "scale_attention_softmax_in_fp32",
    "sep_token_id",
    "seq_aux",
    "skip_bias_add",
    "skip_bias_add_qkv",
    "slow_but_exact",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tokenizer",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
    "use_return_dict",
    "verbose",
    "vocab_file",
};
// clang-format on

bool HasNoEffect(std::string_view name) {
  return std::find(std::begin(kWithoutEffect), std::end(kWithoutEffect), name) !=
         std::end(kWithoutEffect);
}

}  // namespace

// A field may be present and null, which some files use for "none"; Has is false for it.
bool Config::IsNull(std::string_view name) {
  const auto names = fields_.names();
  return !Has(name) && std::find(names.begin(), names.end(), name) != names.end();
}

// Every name that is asked for counts as used, even if the file lacks it.
std::string_view Config::Named(std::string_view names) {
  const std::vector<std::string_view> all = Split(names, '|');
  for (const std::string_view name : all) {
    if (fields_.Has(name)) return Use(name);
  }
  return Use(all.front());
}

// Only the first reason is kept; Finish reports it after errors of single fields.
void Config::Unsupported(std::string_view field, std::string_view why) {
  if (unsupported_) return;
  unsupported_ =
      Error{ErrorCode::kUnsupported, fmt::format("{}: {}: {}", fields_.Where(), field, why)};
}

void Config::MustBe(std::string_view field, bool expected, std::string_view why) {
  if (BoolOr(field, expected) != expected) {
    Unsupported(field, fmt::format("must be {}: {}", expected, why));
  }
}

// Errors come in order: bad fields first, then unsupported features, then the model as a whole.
// Fields that no reader asked for are sorted into known and unknown ones.
Result<ImportedModel> Config::Finish(const ModelSpec& model) {
  FT_TRY(fields_.Finish(/*ignore_unknown=*/true));
  if (unsupported_) return tl::unexpected<Error>(*unsupported_);
  if (const auto valid = ValidateModel(model); !valid) {
    return foretrain::Refuse("{}: the model it describes: {}", fields_.Where(),
                             valid.error().message);
  }
  ImportedModel imported;
  imported.model = model;
  imported.notes = notes_;
  for (const std::string& name : fields_.names()) {
    if (std::find(used_.begin(), used_.end(), name) != used_.end()) continue;
    (HasNoEffect(name) ? imported.ignored : imported.unknown).push_back(Printable(name));
  }
  return imported;
}

}  // namespace foretrain
