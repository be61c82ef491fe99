#include "sim/spec/hugging_face.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/json.h"
#include "base/text.h"
#include "sim/spec/refuse.h"

namespace foretrain {
namespace {

constexpr std::array<std::string_view, 6> kFamilies = {"gpt2",  "llama",   "mistral",
                                                       "qwen2", "mixtral", "qwen2_moe"};

// Fields of transformers' configuration classes (versions 4.44 and 5.23) that change neither the
// shape nor the work of a training step: tokens, generation, other heads, initial values,
// inference, data types. Dropout is among them: none is applied here.
constexpr std::array<std::string_view, 72> kWithoutEffect = {"_attn_implementation_autoset",
                                                             "architectures",
                                                             "attention_dropout",
                                                             "attn_pdrop",
                                                             "bad_words_ids",
                                                             "begin_suppress_tokens",
                                                             "bos_token_id",
                                                             "chunk_size_feed_forward",
                                                             "cross_attention_hidden_size",
                                                             "decoder_start_token_id",
                                                             "diversity_penalty",
                                                             "do_sample",
                                                             "dtype",
                                                             "early_stopping",
                                                             "embd_pdrop",
                                                             "encoder_no_repeat_ngram_size",
                                                             "eos_token_id",
                                                             "exponential_decay_length_penalty",
                                                             "finetuning_task",
                                                             "forced_bos_token_id",
                                                             "forced_eos_token_id",
                                                             "id2label",
                                                             "initializer_range",
                                                             "is_decoder",
                                                             "label2id",
                                                             "length_penalty",
                                                             "max_length",
                                                             "max_window_layers",
                                                             "min_length",
                                                             "n_ctx",
                                                             "no_repeat_ngram_size",
                                                             "num_beam_groups",
                                                             "num_beams",
                                                             "num_return_sequences",
                                                             "output_attentions",
                                                             "output_hidden_states",
                                                             "output_past",
                                                             "output_router_logits",
                                                             "output_scores",
                                                             "pad_token_id",
                                                             "prefix",
                                                             "pretraining_tp",
                                                             "problem_type",
                                                             "remove_invalid_values",
                                                             "reorder_and_upcast_attn",
                                                             "repetition_penalty",
                                                             "resid_pdrop",
                                                             "return_dict",
                                                             "return_dict_in_generate",
                                                             "sep_token_id",
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
                                                             "tokenizer_class",
                                                             "top_k",
                                                             "top_p",
                                                             "torch_dtype",
                                                             "torchscript",
                                                             "transformers_version",
                                                             "typical_p",
                                                             "unk_token_id",
                                                             "use_bfloat16",
                                                             "use_cache",
                                                             "use_return_dict",
                                                             "vocab_file"};

bool HasNoEffect(std::string_view name) {
  return std::find(kWithoutEffect.begin(), kWithoutEffect.end(), name) != kWithoutEffect.end();
}

// Reads one config.json: which fields were used, and the first thing that was wrong.
class Config {
 public:
  Config(const JsonValue& value, std::string_view file) : fields_(value, file) {}

  bool Has(std::string_view name) { return fields_.Has(Use(name)); }
  // Written as null, rather than missing.
  bool IsNull(std::string_view name) {
    const auto names = fields_.names();
    return !Has(name) && std::find(names.begin(), names.end(), name) != names.end();
  }
  const JsonValue* Any(std::string_view name) { return fields_.Any(Use(name)); }
  std::int64_t Count(std::string_view name) {
    return fields_.Integer(Use(name), 1, kMaxModelCount);
  }
  std::int64_t CountOr(std::string_view name, std::int64_t otherwise) {
    return fields_.IntegerOr(Use(name), otherwise, 1, kMaxModelCount);
  }
  double NumberOr(std::string_view name, double otherwise) {
    return fields_.NumberOr(Use(name), otherwise, 0, 1e18);
  }
  bool BoolOr(std::string_view name, bool otherwise) {
    return fields_.BoolOr(Use(name), otherwise);
  }
  std::string StringOr(std::string_view name, std::string_view otherwise) {
    return fields_.StringOr(Use(name), otherwise);
  }
  std::vector<std::string> StringsOr(std::string_view name) { return fields_.StringsOr(Use(name)); }
  std::optional<JsonFields> ObjectOr(std::string_view name) { return fields_.ObjectOr(Use(name)); }

  // Notes the first thing that ModelSpec cannot express.
  void Unsupported(std::string_view field, std::string_view why) {
    if (unsupported_) return;
    unsupported_ =
        Error{ErrorCode::kUnsupported, fmt::format("{}: {}: {}", fields_.Where(), field, why)};
  }
  void Refuse(std::string_view field, std::string_view why) { fields_.Refuse(field, why); }
  void MustBe(std::string_view field, bool expected, std::string_view why) {
    if (BoolOr(field, expected) != expected) {
      Unsupported(field, fmt::format("must be {}: {}", expected, why));
    }
  }
  void Note(std::string text) { notes_.push_back(std::move(text)); }
  bool ok() const { return fields_.ok(); }

  Result<ImportedModel> Finish(const ModelSpec& model) {
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

 private:
  std::string_view Use(std::string_view name) {
    used_.emplace_back(name);
    return name;
  }

  JsonFields fields_;
  std::vector<std::string> used_;
  std::vector<std::string> notes_;
  std::optional<Error> unsupported_;
};

// The last part of "meta-llama/Llama-2-7b-hf", else the family.
std::string ModelName(Config& config, std::string_view family) {
  std::string path = config.StringOr("_name_or_path", "");
  while (!path.empty() && path.back() == '/') path.pop_back();
  const std::string name = Printable(path.substr(path.rfind('/') + 1), 150);
  return name.empty() || name == "." ? std::string(family) : name;
}

void CheckActivation(Config& config, std::string_view field, std::string_view otherwise,
                     std::initializer_list<std::string_view> accepted) {
  const std::string name = config.StringOr(field, otherwise);
  if (!config.ok() || std::find(accepted.begin(), accepted.end(), name) != accepted.end()) return;
  config.Unsupported(field, fmt::format("\"{}\" is not supported in this family; must be \"{}\"",
                                        Printable(name), *accepted.begin()));
}

// Parts that any configuration may ask for and no family here has.
void CheckCommon(Config& config) {
  config.MustBe("is_encoder_decoder", false, "only decoders are supported");
  config.MustBe("add_cross_attention", false, "only decoders are supported");
  if (const JsonValue* pruned = config.Any("pruned_heads");
      pruned != nullptr && !pruned->items().empty()) {
    config.Unsupported("pruned_heads",
                       "must be empty: layers with different heads are not supported");
  }
}

std::int64_t HeadDim(Config& config, std::string_view hidden_name, std::string_view heads_name,
                     const ModelSpec& model) {
  if (!config.ok()) return 1;
  if (model.hidden % model.heads != 0) {
    config.Refuse(hidden_name,
                  fmt::format("{} is no multiple of {} {}; give one that is, or head_dim",
                              model.hidden, heads_name, model.heads));
  }
  return std::max<std::int64_t>(1, model.hidden / model.heads);
}

void ReadGpt2(Config& config, ModelSpec& model) {
  model.layers = config.Count("n_layer");
  model.hidden = config.Count("n_embd");
  model.heads = model.kv_heads = config.Count("n_head");
  model.head_dim = HeadDim(config, "n_embd", "n_head", model);
  model.ffn_hidden = config.CountOr("n_inner", 4 * model.hidden);
  model.vocab = config.Count("vocab_size");
  model.max_sequence = config.Count("n_positions");
  model.norm_epsilon = config.NumberOr("layer_norm_epsilon", 1e-5);
  model.tied_embeddings = config.BoolOr("tie_word_embeddings", true);
  // gelu_pytorch_tanh is the same formula by another name.
  CheckActivation(config, "activation_function", "gelu_new", {"gelu_new", "gelu_pytorch_tanh"});
  config.MustBe("scale_attn_weights", true, "scores are always scaled by 1/sqrt(head_dim)");
  config.MustBe("scale_attn_by_inverse_layer_idx", false, "scores are scaled alike in all layers");
}

void CheckUnscaled(Config& config, std::string_view field, JsonFields& rope) {
  const std::string old_name = rope.StringOr("type", "default");
  const std::string kind = rope.StringOr("rope_type", old_name);
  if (kind != "default") {
    config.Unsupported(
        field,
        fmt::format("\"{}\" is not supported: rotary positions are never scaled here. Set it "
                    "to null: shape, memory and time are the same, the values that the "
                    "positions take are not",
                    Printable(kind)));
  }
  for (const std::string& name : rope.names()) {
    const JsonValue* const part = rope.Any(name);
    if (part != nullptr && part->kind() == JsonValue::Kind::kObject) {
      config.Unsupported(field, "different positions in different layers are not supported");
    }
  }
  if (rope.NumberOr("partial_rotary_factor", 1, 0, 1) < 1) {
    config.Unsupported(field, "partial_rotary_factor must be 1: all of a head is turned");
  }
}

// rope_theta stands at the top up to version 4 of the library, in rope_parameters from 5 on.
void ReadRope(Config& config, ModelSpec& model) {
  model.positions = PositionKind::kRope;
  model.rope_theta = config.NumberOr("rope_theta", 10000);
  if (auto scaling = config.ObjectOr("rope_scaling"))
    CheckUnscaled(config, "rope_scaling", *scaling);
  if (auto rope = config.ObjectOr("rope_parameters")) {
    CheckUnscaled(config, "rope_parameters", *rope);
    const double theta = rope->NumberOr("rope_theta", model.rope_theta, 0, 1e18);
    if (config.Has("rope_theta") && theta != model.rope_theta) {
      config.Refuse("rope_theta",
                    fmt::format("{} contradicts rope_parameters.rope_theta {}; remove one",
                                model.rope_theta, theta));
    }
    model.rope_theta = theta;
  }
  if (config.NumberOr("partial_rotary_factor", 1) < 1) {
    config.Unsupported("partial_rotary_factor", "must be 1: all of a head is turned");
  }
}

// What Llama, Mistral and Qwen2 share.
void ReadLlamaLike(Config& config, ModelSpec& model) {
  model.norm = NormKind::kRmsNorm;
  model.mlp = MlpKind::kSwiglu;
  model.attention_bias = model.projection_bias = false;
  model.layers = config.Count("num_hidden_layers");
  model.hidden = config.Count("hidden_size");
  model.heads = config.Count("num_attention_heads");
  model.kv_heads = config.CountOr("num_key_value_heads", model.heads);
  model.head_dim = config.Has("head_dim")
                       ? config.Count("head_dim")
                       : HeadDim(config, "hidden_size", "num_attention_heads", model);
  model.ffn_hidden = config.Count("intermediate_size");
  model.vocab = config.Count("vocab_size");
  model.max_sequence = config.Count("max_position_embeddings");
  model.norm_epsilon = config.NumberOr("rms_norm_eps", 1e-6);
  model.tied_embeddings = config.BoolOr("tie_word_embeddings", false);
  ReadRope(config, model);
  CheckActivation(config, "hidden_act", "silu", {"silu", "swish"});
}

void ReadLlama(Config& config, ModelSpec& model) {
  const bool attention = config.BoolOr("attention_bias", false),
             mlp = config.BoolOr("mlp_bias", false);
  if (attention != mlp) {
    config.Unsupported(
        attention ? "attention_bias" : "mlp_bias",
        fmt::format(
            "true, while {} is false: the attention output and the MLP have biases together "
            "or not at all. Set both alike",
            attention ? "mlp_bias" : "attention_bias"));
  }
  model.attention_bias = model.projection_bias = attention;
}

void LimitToWindow(Config& config, ModelSpec& model, std::int64_t window) {
  if (window >= model.max_sequence) return;
  model.attention_window = window;
  config.Note(fmt::format(
      "sliding_window {}: sequences up to {} tokens, within which it has no effect; longer ones "
      "are refused",
      window, window));
}

// kv_heads has another default in each family, so that one without it is a guess.
void RequireKvHeads(Config& config) {
  if (config.ok() && !config.Has("num_key_value_heads")) {
    config.Refuse("num_key_value_heads",
                  "is missing; give the number of key and value heads, which is "
                  "num_attention_heads where all have their own");
  }
}

void ReadMistral(Config& config, ModelSpec& model) {
  constexpr std::int64_t kLibraryDefault = 4096;
  RequireKvHeads(config);
  // Null is no window; a file without the field has the library's.
  const bool none = config.IsNull("sliding_window");
  if (!none) LimitToWindow(config, model, config.CountOr("sliding_window", kLibraryDefault));
}

void ReadQwen2(Config& config, ModelSpec& model) {
  RequireKvHeads(config);
  model.attention_bias = true;
  bool windowed = config.BoolOr("use_sliding_window", false);
  for (const std::string& kind : config.StringsOr("layer_types")) {
    if (kind == "sliding_attention") windowed = true;
    if (kind != "sliding_attention" && kind != "full_attention") {
      config.Unsupported(
          "layer_types",
          fmt::format("\"{}\" is not supported; must be \"full_attention\"", Printable(kind)));
    }
  }
  const std::int64_t window = config.CountOr("sliding_window", kMaxModelCount);
  if (windowed) LimitToWindow(config, model, window);
}

// The library's weight multiplies a sum that is experts_per_token times the loss here.
double BalanceWeight(Config& config, const ModelSpec& model) {
  return config.NumberOr("router_aux_loss_coef", 0.001) *
         static_cast<double>(model.experts_per_token);
}

void ReadMixtral(Config& config, ModelSpec& model) {
  RequireKvHeads(config);
  if (config.Has("sliding_window")) {
    LimitToWindow(config, model, config.Count("sliding_window"));
  }
  model.experts = config.Count("num_local_experts");
  model.experts_per_token = config.Count("num_experts_per_tok");
  model.expert_ffn_hidden = model.ffn_hidden;
  model.balance_weight = BalanceWeight(config, model);
  if (config.NumberOr("router_jitter_noise", 0) > 0) {
    config.Unsupported("router_jitter_noise", "must be 0: scores are not disturbed here");
  }
}

void ReadQwen2Moe(Config& config, ModelSpec& model) {
  ReadQwen2(config, model);
  model.experts = config.Count("num_experts");
  model.experts_per_token = config.Count("num_experts_per_tok");
  model.expert_ffn_hidden = config.Count("moe_intermediate_size");
  model.router =
      config.BoolOr("norm_topk_prob", false) ? RouterKind::kTopKSoftmax : RouterKind::kSoftmaxTopK;
  model.balance_weight = BalanceWeight(config, model);
  model.shared_ffn_hidden = config.Count("shared_expert_intermediate_size");
  config.Note(
      "the gate of the shared expert is left out: one vector of hidden_size a layer, and the "
      "output "
      "of the shared expert is not scaled by its sigmoid");
  if (config.CountOr("decoder_sparse_step", 1) != 1) {
    config.Unsupported("decoder_sparse_step",
                       "must be 1: layers with and without experts that "
                       "take turns are not supported");
  }
  if (const JsonValue* dense = config.Any("mlp_only_layers");
      dense != nullptr && !dense->items().empty()) {
    config.Unsupported("mlp_only_layers", "must be empty: all layers have experts");
  }
}

Result<std::string_view> Family(Config& config, std::string_view file) {
  const std::string name = config.StringOr("model_type", "");
  const auto known = std::find(kFamilies.begin(), kFamilies.end(), name);
  if (known != kFamilies.end()) return *known;
  const std::string all = fmt::format("{}", fmt::join(kFamilies, ", "));
  if (name.empty()) {
    return Refuse("{}: model_type: is missing; it is one of {}", Printable(file, 512), all);
  }
  return Fail(ErrorCode::kUnsupported,
              fmt::format("{}: model_type: \"{}\" is not supported; those that are: {}{}",
                          Printable(file, 512), Printable(name), all, DidYouMean(name, kFamilies)));
}

}  // namespace

bool LooksLikeHuggingFace(std::string_view text) {
  const auto value = ParseJson(text, "");
  return value && value->kind() == JsonValue::Kind::kObject && value->Find("model_type") != nullptr;
}

Result<ImportedModel> ModelFromHuggingFace(std::string_view text, std::string_view file) {
  FT_ASSIGN(const JsonValue value, ParseJson(text, file));
  Config config(value, file);
  if (!config.ok()) return config.Finish(ModelSpec{});
  FT_ASSIGN(const std::string_view family, Family(config, file));
  ModelSpec model;
  model.name = ModelName(config, family);
  CheckCommon(config);
  if (family == "gpt2") {
    ReadGpt2(config, model);
    return config.Finish(model);
  }
  ReadLlamaLike(config, model);
  if (family == "llama") ReadLlama(config, model);
  if (family == "mistral") ReadMistral(config, model);
  if (family == "qwen2") ReadQwen2(config, model);
  if (family == "mixtral") ReadMixtral(config, model);
  if (family == "qwen2_moe") ReadQwen2Moe(config, model);
  return config.Finish(model);
}

}  // namespace foretrain
