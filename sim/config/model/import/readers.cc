#include "sim/config/model/import/readers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "base/text.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

// gelu_pytorch_tanh, gelu_new and gelu_fast are three names of one formula.
struct Activation {
  std::string_view name;
  bool gated;
  MlpKind mlp;
};
constexpr std::array kActivations = {
    Activation{"gelu_new", false, MlpKind::kGelu},
    Activation{"gelu_pytorch_tanh", false, MlpKind::kGelu},
    Activation{"gelu_fast", false, MlpKind::kGelu},
    Activation{"gelu", false, MlpKind::kGeluErf},
    Activation{"relu", false, MlpKind::kRelu},
    Activation{"relu2", false, MlpKind::kSquaredRelu},
    Activation{"silu", true, MlpKind::kSwiglu},
    Activation{"swish", true, MlpKind::kSwiglu},
    Activation{"gelu_pytorch_tanh", true, MlpKind::kGeglu},
    Activation{"gelu_new", true, MlpKind::kGeglu},
};

// rope_type names of the library. "su" is an older name of longrope.
struct Scaling {
  std::string_view name;
  RopeScaling scaling;
};
constexpr std::array kScalings = {
    Scaling{"default", RopeScaling::kNone},      Scaling{"linear", RopeScaling::kLinear},
    Scaling{"dynamic", RopeScaling::kDynamic},   Scaling{"yarn", RopeScaling::kYarn},
    Scaling{"longrope", RopeScaling::kLongRope}, Scaling{"su", RopeScaling::kLongRope},
    Scaling{"llama3", RopeScaling::kLlama3},
};

// Parameters of the rope scalings that kernels compute. Fields and their defaults are the library's
// (modeling_rope_utils.py).
void ReadStretch(JsonFields& rope, ModelSpec& model) {
  constexpr double kMax = 1e18;
  const auto number = [&](std::string_view name, double otherwise) {
    return rope.NumberOr(name, otherwise, 0, kMax);
  };
  model.rope_factor = number("factor", 1);
  model.rope_original =
      rope.IntegerOr("original_max_position_embeddings", model.max_sequence, 1, kMaxModelCount);
  if (model.rope_scaling == RopeScaling::kLlama3) {
    model.rope_low = number("low_freq_factor", 1);
    model.rope_high = number("high_freq_factor", 4);
  }
  if (model.rope_scaling != RopeScaling::kYarn) return;
  constexpr double kSlow = 1, kFast = 32;
  model.rope_low = number("beta_slow", kSlow);
  model.rope_high = number("beta_fast", kFast);
  model.rope_whole_pairs = rope.BoolOr("truncate", true);
  const double scale = number("mscale", 0), of_scores = number("mscale_all_dim", 0);
  const double factor = model.rope_factor;
  const double magnitude = scale > 0 && of_scores > 0
                               ? YarnMagnitude(factor, scale) / YarnMagnitude(factor, of_scores)
                               : YarnMagnitude(factor, 1);
  model.rope_magnitude = number("attention_factor", magnitude);
}

// Old files say "type", newer ones "rope_type".
void ReadScaling(Config& config, std::string_view field, JsonFields& rope, ModelSpec& model) {
  const std::string old_name = rope.StringOr("type", "default");
  const std::string kind = rope.StringOr("rope_type", old_name);
  for (const Scaling& scaling : kScalings) {
    if (scaling.name != kind) continue;
    model.rope_scaling = scaling.scaling;
    if (scaling.scaling != RopeScaling::kNone) ReadStretch(rope, model);
    return;
  }
  config.Unsupported(field,
                     fmt::format("\"{}\" is not supported; set it to null: shape, memory and "
                                 "time are the same, the values that the positions take "
                                 "are not",
                                 Printable(kind)));
}

// Sets rotary_dim to `share` of a head.
void TurnPart(Config& config, std::string_view field, double share, ModelSpec& model) {
  if (share >= 1) return;
  model.rotary_dim = static_cast<std::int64_t>(static_cast<double>(model.head_dim) * share + 1e-9);
  if (config.ok() && (model.rotary_dim < 2 || model.rotary_dim % 2 != 0)) {
    config.Unsupported(field, fmt::format("{} of {} turns {} elements of a head; must turn pairs",
                                          share, model.head_dim, model.rotary_dim));
    model.rotary_dim = 0;
  }
}

// Layers with a window may have another rotary base (Gemma 3).
void ReadRopeOfLayers(Config& config, JsonFields& rope, ModelSpec& model) {
  JsonFields whole = rope.Object("full_attention"), local = rope.Object("sliding_attention");
  if (const std::string kind = local.StringOr("rope_type", "default"); kind != "default") {
    config.Unsupported("rope_parameters.sliding_attention",
                       fmt::format("rope_type \"{}\": must be \"default\"", Printable(kind)));
  }
  ReadScaling(config, "rope_parameters", whole, model);
  model.rope_theta = whole.NumberOr("rope_theta", model.rope_theta, 0, 1e18);
  const double theta = local.NumberOr("rope_theta", model.rope_theta, 0, 1e18);
  const bool alone = model.rope_scaling != RopeScaling::kNone;
  if (theta != model.rope_theta || alone) model.local_rope_theta = theta;
}

// Version 5 of the library keeps all rotary fields in this object, possibly one per layer type.
void ReadRopeParameters(Config& config, JsonFields& rope, ModelSpec& model) {
  const auto names = rope.names();
  if (std::find(names.begin(), names.end(), "full_attention") != names.end()) {
    return ReadRopeOfLayers(config, rope, model);
  }
  ReadScaling(config, "rope_parameters", rope, model);
  for (const std::string& name : names) {
    const JsonValue* const part = rope.Any(name);
    if (part != nullptr && part->kind() == JsonValue::Kind::kObject) {
      config.Unsupported("rope_parameters",
                         "different positions in different layers are not supported");
    }
  }
  const double theta = rope.NumberOr("rope_theta", model.rope_theta, 0, 1e18);
  if (config.Has("rope_theta") && theta != model.rope_theta) {
    config.Refuse("rope_theta",
                  fmt::format("{} contradicts rope_parameters.rope_theta {}; remove one",
                              model.rope_theta, theta));
  }
  model.rope_theta = theta;
  TurnPart(config, "rope_parameters", rope.NumberOr("partial_rotary_factor", 1, 0, 1), model);
}

// n if exactly every n-th item is 0; 0 if none is; -1 for another order.
std::int64_t EveryZero(std::span<const JsonValue> items) {
  const auto is_zero = [](const JsonValue& item) {
    return item.kind() == JsonValue::Kind::kInteger && item.AsInteger() == 0;
  };
  const auto first = std::find_if(items.begin(), items.end(), is_zero);
  if (first == items.end()) return 0;
  const std::int64_t every = first - items.begin() + 1;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (is_zero(items[i]) != ((static_cast<std::int64_t>(i) + 1) % every == 0)) return -1;
  }
  return every;
}

}  // namespace

// Formula of YaRN (Peng et al. 2023): 0.1 ln(factor) + 1, with `scale` as in the library.
double YarnMagnitude(double factor, double scale) {
  return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
}

// The name alone is ambiguous: silu means SwiGLU in a gated MLP. So the family decides which names
// apply.
void ReadActivation(Config& config, std::string_view field, std::string_view otherwise,
                    ModelSpec& model) {
  const std::string name = config.StringOr(field, otherwise);
  if (!config.ok()) return;
  const bool gated = model.IsGated();
  std::vector<std::string> known;
  for (const Activation& activation : kActivations) {
    if (activation.gated != gated) continue;
    if (activation.name == name) {
      model.mlp = activation.mlp;
      return;
    }
    known.emplace_back(activation.name);
  }
  config.Unsupported(field, fmt::format("\"{}\" is not supported in this family; must be one of {}",
                                        Printable(name), Join(known, ", ")));
}

// Parts that would change shape or time are refused by name, never ignored.
void RefuseOtherParts(Config& config) {
  config.MustBe("is_encoder_decoder", false, "only decoders are supported");
  config.MustBe("add_cross_attention", false, "only decoders are supported");
  if (const JsonValue* pruned = config.Any("pruned_heads");
      pruned != nullptr && !pruned->items().empty()) {
    config.Unsupported("pruned_heads",
                       "must be empty: layers with different heads are not supported");
  }
}

std::int64_t HeadDimOf(Config& config, std::string_view hidden, std::string_view heads,
                       const ModelSpec& model) {
  if (!config.ok()) return 1;
  if (model.hidden % model.heads != 0) {
    config.Refuse(hidden, fmt::format("{} is no multiple of {} {}; give one that is, or head_dim",
                                      model.hidden, heads, model.heads));
  }
  return std::max<std::int64_t>(1, model.hidden / model.heads);
}

// Files before version 5 of the library use separate fields, newer ones rope_parameters.
void ReadRope(Config& config, ModelSpec& model) {
  model.rope_theta = config.NumberOr("rope_theta|rotary_emb_base", model.rope_theta);
  if (auto scaling = config.ObjectOr("rope_scaling")) {
    ReadScaling(config, "rope_scaling", *scaling, model);
  }
  if (auto rope = config.ObjectOr("rope_parameters")) ReadRopeParameters(config, *rope, model);
  constexpr std::string_view kShare = "partial_rotary_factor|rotary_pct|rope_pct";
  if (config.Has(kShare))
    TurnPart(config, "partial_rotary_factor", config.NumberOr(kShare, 1), model);
}

// Accepts only patterns that global_attention_every expresses: the first full layer gives n, and
// every n-th layer must match.
bool ReadLayerTypes(Config& config, ModelSpec& model, std::int64_t window) {
  const std::vector<std::string> types = config.StringsOr("layer_types");
  for (const std::string& kind : types) {
    if (kind == "sliding_attention" || kind == "full_attention") continue;
    config.Unsupported("layer_types",
                       fmt::format("\"{}\" is not supported; must be \"full_attention\" or "
                                   "\"sliding_attention\"",
                                   Printable(kind)));
    return true;
  }
  const auto full = std::find(types.begin(), types.end(), "full_attention");
  const auto count = std::count(types.begin(), types.end(), "full_attention");
  if (types.empty() || count == std::ssize(types)) return !types.empty();
  model.attention_window = window;
  if (count == 0) return true;
  model.global_attention_every = full - types.begin() + 1;
  bool regular = static_cast<std::int64_t>(types.size()) == model.layers;
  for (std::size_t i = 0; i < types.size(); ++i) {
    const bool global = (static_cast<std::int64_t>(i) + 1) % model.global_attention_every == 0;
    regular = regular && global == (types[i] == "full_attention");
  }
  if (!regular) {
    config.Unsupported("layer_types",
                       "must name every layer, with full attention in none, all, or every n-th: "
                       "other orders are not supported");
  }
  return true;
}

// A window as long as any sequence has no effect; without it, plans and kernels are simpler.
void DropWideWindow(ModelSpec& model) {
  if (model.attention_window < model.max_sequence) return;
  model.attention_window = 0;
  if (model.rotate_global) model.global_attention_every = 0;
}

void ReadWindow(Config& config, ModelSpec& model, std::int64_t otherwise) {
  // Null means no window. A file without the field has the library's default.
  if (config.IsNull("sliding_window") || (otherwise == 0 && !config.Has("sliding_window"))) return;
  const std::int64_t window = config.CountOr("sliding_window", otherwise);
  if (!ReadLayerTypes(config, model, window)) model.attention_window = window;
  DropWideWindow(model);
}

// Without layer_types, layers from max_window_layers on have the window.
void ReadQwenWindow(Config& config, ModelSpec& model) {
  constexpr std::int64_t kLibraryDefault = 28;
  // Version 5 writes 0 for no window.
  const std::int64_t given = config.IntegerOr("sliding_window", kMaxModelCount);
  const std::int64_t window = given > 0 ? given : kMaxModelCount;
  const bool windowed = config.BoolOr("use_sliding_window", false);
  const std::int64_t whole = config.IntegerOr("max_window_layers", kLibraryDefault);
  if (!ReadLayerTypes(config, model, window) && windowed && whole < model.layers) {
    model.attention_window = window;
    if (whole > 0 && window < model.max_sequence) {
      config.Unsupported("max_window_layers",
                         fmt::format("{}: the first layers without a window and the others with "
                                     "one is not supported; must be 0 or at least {}",
                                     whole, model.layers));
    }
  }
  DropWideWindow(model);
}

void ReadRopelessLayers(Config& config, ModelSpec& model) {
  std::int64_t every = config.CountOr("no_rope_layer_interval", 4);
  if (const JsonValue* rotates = config.Any("no_rope_layers");
      rotates != nullptr && rotates->kind() == JsonValue::Kind::kArray &&
      !rotates->items().empty()) {
    every = EveryZero(rotates->items());
    if (every < 0) {
      config.Unsupported("no_rope_layers",
                         "must be 0 in every n-th layer and 1 in the others: other orders are not "
                         "supported");
    }
  }
  if (every <= 0 || every > model.layers) return;
  model.global_attention_every = every;
  model.rotate_global = false;
}

void RequireKvHeads(Config& config) {
  if (config.ok() && !config.Has("num_key_value_heads")) {
    config.Refuse("num_key_value_heads",
                  "is missing; give the number of key and value heads, which is "
                  "num_attention_heads where all have their own");
  }
}

// The library's balance loss is experts_per_token times ours, so its weight is multiplied by that.
void ReadExperts(Config& config, const ExpertFields& fields, ModelSpec& model) {
  model.experts = config.Count(fields.experts);
  model.experts_per_token = config.Count("num_experts_per_tok");
  model.expert_ffn_hidden = config.Count(fields.width);
  model.balance_weight =
      config.NumberOr("router_aux_loss_coef", 0.001) * static_cast<double>(model.experts_per_token);
}

void ReadExpertLayers(Config& config, ModelSpec& model) {
  model.expert_every = config.CountOr("decoder_sparse_step", 1);
  const JsonValue* const dense = config.Any("mlp_only_layers");
  if (dense == nullptr || dense->kind() != JsonValue::Kind::kArray) return;
  std::int64_t leading = 0;
  for (const JsonValue& layer : dense->items()) {
    if (layer.kind() == JsonValue::Kind::kInteger && layer.AsInteger() == leading) {
      ++leading;
      continue;
    }
    config.Unsupported("mlp_only_layers",
                       "must name the first layers: dense layers between others are those that "
                       "decoder_sparse_step leaves out");
    return;
  }
  model.first_dense_layers = leading;
}

void RequireExpertsEverywhere(Config& config) {
  if (config.CountOr("moe_layer_freq", 1) == 1) return;
  config.Unsupported("moe_layer_freq",
                     "must be 1: all layers after the first dense ones have experts");
}

}  // namespace foretrain
