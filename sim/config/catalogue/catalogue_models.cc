// Reads the catalogue of models from CSV.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "sim/config/catalogue/catalogue.h"
#include "sim/config/catalogue/catalogue_rows.h"
#include "sim/config/model/model_json.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

struct CountColumn {
  std::string_view name;
  std::int64_t ModelSpec::*value;
};
// Columns without which a model has no shape.
constexpr std::array kMust = {
    CountColumn{"layers", &ModelSpec::layers},
    CountColumn{"hidden", &ModelSpec::hidden},
    CountColumn{"heads", &ModelSpec::heads},
    CountColumn{"kv_heads", &ModelSpec::kv_heads},
    CountColumn{"head_dim", &ModelSpec::head_dim},
    CountColumn{"ffn_hidden", &ModelSpec::ffn_hidden},
    CountColumn{"vocab", &ModelSpec::vocab},
    CountColumn{"max_seq", &ModelSpec::max_sequence},
};
// Further counts, beside OptionalModelMembers, with the default of ModelSpec if the cell is empty.
constexpr std::array kMay = {
    CountColumn{"attention_window", &ModelSpec::attention_window},
    CountColumn{"global_attention_every", &ModelSpec::global_attention_every},
    CountColumn{"expert_groups", &ModelSpec::expert_groups},
    CountColumn{"groups_per_token", &ModelSpec::groups_per_token},
};

// Required cells must be positive; an empty optional cell keeps the default of ModelSpec.
Result<void> ReadCounts(const CsvReader& row, ModelSpec& model) {
  for (const CountColumn& column : kMust) {
    FT_ASSIGN(model.*column.value, row.Count(column.name, 1, kMaxModelCount));
  }
  for (const CountColumn& column : kMay) {
    if (row.Text(column.name).empty()) continue;
    FT_ASSIGN(model.*column.value, row.Count(column.name, 0, kMaxModelCount));
  }
  for (const JsonMember<ModelSpec>& member : OptionalModelMembers()) {
    if (row.Text(member.name).empty()) continue;
    if (const auto* count = std::get_if<std::int64_t ModelSpec::*>(&member.at)) {
      FT_ASSIGN(model.**count, row.Count(member.name, 0, kMaxModelCount));
    } else if (const auto* real = std::get_if<double ModelSpec::*>(&member.at)) {
      FT_ASSIGN(model.**real, row.Number(member.name, 0));
    }
  }
  return {};
}

// Phrases that the column other_features may contain, separated by semicolons.
// T5: scores are not divided by the root of head_dim, and a tied head's logits by that of hidden.
void AddEncoder(ModelSpec& model, std::int64_t layers) {
  model.encoder_layers = layers;
  model.attention_scale = 1;
  if (model.tied_embeddings) {
    model.logit_scale = 1 / std::sqrt(static_cast<double>(model.hidden));
  }
}

struct Feature {
  std::string_view text;
  void (*set)(ModelSpec& model);
};
constexpr std::array kFeatures = {
    Feature{"QK-norm", [](ModelSpec& m) { m.qk_norm = true; }},
    Feature{"QK-norm over all heads", [](ModelSpec& m) { m.qk_norm = m.qk_norm_whole = true; }},
    Feature{"norms of what is added alone",
            [](ModelSpec& m) { m.post_norms = true, m.pre_norms = false; }},
    Feature{"no positions in global layers", [](ModelSpec& m) { m.rotate_global = false; }},
    Feature{"norm after the embedding", [](ModelSpec& m) { m.embedding_norm = true; }},
    Feature{"norms of what is added", [](ModelSpec& m) { m.post_norms = true; }},
    Feature{"attention and MLP in parallel", [](ModelSpec& m) { m.order = LayerOrder::kParallel; }},
    Feature{"attention and MLP in parallel behind one norm",
            [](ModelSpec& m) { m.order = LayerOrder::kParallelOneNorm; }},
    Feature{"attention sinks", [](ModelSpec& m) { m.attention_sinks = true; }},
    Feature{"bias of logits", [](ModelSpec& m) { m.head_bias = true; }},
    Feature{"bias of the attention output", [](ModelSpec& m) { m.output_bias = true; }},
    Feature{"no bias of the attention output", [](ModelSpec& m) { m.output_bias = false; }},
    Feature{"gate of shared experts", [](ModelSpec& m) { m.shared_gate = true; }},
    Feature{"biases of router and experts",
            [](ModelSpec& m) { m.router_bias = m.expert_bias = true; }},
    Feature{"experts in every second layer", [](ModelSpec& m) { m.expert_every = 2; }},
    Feature{"weighed inputs of experts", [](ModelSpec& m) { m.weigh_expert_inputs = true; }},
    Feature{"L2 norms of q and k", [](ModelSpec& m) { m.qk_l2_norm = true; }},
    Feature{"chunks of 8192 tokens", [](ModelSpec& m) { m.attention_chunk = 8192; }},
    Feature{"query temperature",
            [](ModelSpec& m) { m.query_temperature = 0.1, m.query_temperature_floor = 8192; }},
    Feature{"two token types", [](ModelSpec& m) { m.token_types = 2; }},
    Feature{"transform before the logits", [](ModelSpec& m) { m.head_transform = true; }},
    Feature{"12 encoder layers", [](ModelSpec& m) { AddEncoder(m, 12); }},
    Feature{"24 encoder layers", [](ModelSpec& m) { AddEncoder(m, 24); }},
    Feature{"32 buckets of distances", [](ModelSpec& m) { m.relative_buckets = 32; }},
};

// Collects features of a row that ModelSpec lacks.
class Missing {
 public:
  void Add(std::string text) { parts_.push_back(std::move(text)); }
  std::string Text() const { return Join(parts_, "; "); }

 private:
  std::vector<std::string> parts_;
};

// Phrases without a ModelSpec field make the row unsupported, and the user sees them.
void ReadFeatures(const CsvReader& row, ModelSpec& model, Missing& missing) {
  for (const std::string_view part : Split(row.Text("other_features"), ';')) {
    const std::string_view text = Trim(part);
    if (text.empty()) continue;
    const auto known = std::find_if(kFeatures.begin(), kFeatures.end(),
                                    [&](const Feature& f) { return f.text == text; });
    if (known == kFeatures.end()) {
      missing.Add(Printable(text, 200));
    } else {
      known->set(model);
    }
  }
}

// Reads a cell that names a member of `names`; leaves `value` alone if it is empty.
template <class Kind, std::size_t kCount>
Result<void> ReadKind(const CsvReader& row, std::string_view column,
                      const std::array<std::string_view, kCount>& names, Kind& value) {
  const std::string_view text = row.Text(column);
  if (text.empty()) return {};
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) {
    return Refuse("{}: \"{}\" must be one of {}", row.Place(column), Printable(text),
                  fmt::join(names, ", "));
  }
  value = static_cast<Kind>(found - names.begin());
  return {};
}

// RMSNorm has no bias; norm_bias stays true there, because it only applies to LayerNorm.
Result<void> ReadNorm(const CsvReader& row, ModelSpec& model, Missing& missing) {
  const std::string_view name = row.Text("norm");
  const auto norm = ParseNorm(name);
  if (!norm) {
    missing.Add(fmt::format("norm {}", Printable(name)));
    return {};
  }
  model.norm = *norm;
  const bool layer_norm = model.norm == NormKind::kLayerNorm;
  FT_ASSIGN(const bool bias, row.Flag("norm_bias", layer_norm));
  if (bias && !layer_norm) missing.Add("RMSNorm with a bias");
  model.norm_bias = bias || !layer_norm;
  model.residual_after_norm = row.Text("norm_position") == "post";
  if (row.Text("norm_position") != "pre" && !model.residual_after_norm &&
      !row.Text("norm_position").empty()) {
    missing.Add(fmt::format("{}-norm", Printable(row.Text("norm_position"))));
  }
  if (!row.Text("norm_epsilon").empty()) {
    FT_ASSIGN(model.norm_epsilon, row.Number("norm_epsilon", 1e-5));
  }
  return {};
}

// The activation must agree with gated_mlp: a row that contradicts itself is unsupported, not
// guessed.
Result<void> ReadMlp(const CsvReader& row, ModelSpec& model, Missing& missing) {
  FT_ASSIGN(const bool gated, row.Flag("gated_mlp", false));
  std::string_view activation = row.Text("activation");
  if (activation.empty()) activation = gated ? "swiglu" : "gelu";
  const auto mlp = ParseMlp(activation);
  if (mlp) model.mlp = *mlp;
  if (!mlp || model.IsGated() != gated) {
    missing.Add(fmt::format("{}activation {}", gated ? "gated " : "", Printable(activation)));
  }
  return {};
}

// MHA, GQA and MQA differ only in kv_heads, so they need no field.
Result<void> ReadAttention(const CsvReader& row, ModelSpec& model, Missing& missing) {
  const std::string_view positions = row.Text("position_encoding");
  if (const auto kind = ParsePositions(positions)) {
    model.positions = *kind;
  } else {
    missing.Add(fmt::format("positions {}", Printable(positions)));
  }
  if (!row.Text("rope_theta").empty()) {
    FT_ASSIGN(model.rope_theta, row.Number("rope_theta", 10000));
  }
  FT_TRY(ReadKind(row, "rope_scaling", kRopeScalingNames, model.rope_scaling));
  FT_ASSIGN(model.rope_whole_pairs, row.Flag("rope_whole_pairs", true));
  const std::string_view attention = row.Text("attention_type");
  if (attention == "MLA") {
    model.attention = AttentionKind::kLatent;
  } else if (attention == "MHA bidirectional") {
    model.causal = false;
  } else if (attention != "MHA" && attention != "GQA" && attention != "MQA" && !attention.empty()) {
    missing.Add(fmt::format("attention {}", Printable(attention)));
  }
  return {};
}

// The table gives the number of shared experts, each as wide as a routed one.
Result<void> ReadExperts(const CsvReader& row, ModelSpec& model) {
  if (row.Text("moe_experts").empty()) return {};
  FT_ASSIGN(model.experts, row.Count("moe_experts", 1, kMaxModelCount));
  FT_ASSIGN(model.experts_per_token, row.Count("moe_topk", 1, kMaxModelCount));
  FT_ASSIGN(model.expert_ffn_hidden, row.Count("moe_ffn_hidden", 1, kMaxModelCount));
  if (!row.Text("moe_shared_experts").empty()) {
    FT_ASSIGN(const std::int64_t shared, row.Count("moe_shared_experts", 0, 1024));
    model.shared_ffn_hidden = shared * model.expert_ffn_hidden;
  }
  FT_TRY(ReadKind(row, "router", kRouterNames, model.router));
  if (!row.Text("first_dense_layers").empty()) {
    FT_ASSIGN(model.first_dense_layers, row.Count("first_dense_layers", 0, kMaxModelCount));
  }
  return {};
}

// A row is validated only if all its parts are known. Otherwise the spec is incomplete, and
// `unsupported` says why.
Result<ModelEntry> ReadModel(const CsvReader& row, std::string name) {
  ModelEntry entry;
  entry.aliases = Aliases(row);
  entry.title = row.Text("model");
  entry.family = row.Text("family");
  entry.source = row.Text("source");
  entry.spec.name = name;
  FT_TRY(ReadCounts(row, entry.spec));
  Missing missing;
  FT_TRY(ReadExperts(row, entry.spec));
  FT_TRY(ReadAttention(row, entry.spec, missing));
  FT_TRY(ReadNorm(row, entry.spec, missing));
  FT_TRY(ReadMlp(row, entry.spec, missing));
  FT_ASSIGN(const bool biases, row.Flag("biases", false));
  entry.spec.output_bias = entry.spec.mlp_bias = biases;
  FT_ASSIGN(entry.spec.attention_bias, row.Flag("qkv_bias", biases));
  ReadFeatures(row, entry.spec, missing);
  FT_ASSIGN(entry.spec.tied_embeddings, row.Flag("tied_embeddings", false));
  FT_ASSIGN(const double published_b, row.Number("params_published_b", 0));
  FT_ASSIGN(const double active_b, row.Number("active_params_published_b", 0));
  entry.published_parameters = published_b * 1e9;
  entry.active_parameters = active_b * 1e9;
  entry.name = std::move(name);
  entry.unsupported = missing.Text();
  if (!entry.unsupported.empty()) return entry;
  if (const auto valid = ValidateModel(entry.spec); !valid) {
    return Refuse("{}: {}", row.Place("name"), valid.error().message);
  }
  entry.described = true;
  entry.unsupported = WhyNotLowered(entry.spec);
  return entry;
}

}  // namespace

Result<std::vector<ModelEntry>> ParseModels(std::string_view text, std::string_view file) {
  FT_ASSIGN(const CsvTable table, ParseCsv(text, file));
  FT_TRY(RequireColumns(
      table, {"name", "layers", "hidden", "heads", "kv_heads", "head_dim", "ffn_hidden", "vocab",
              "max_seq", "gated_mlp", "norm", "biases", "tied_embeddings", "position_encoding"}));
  std::vector<ModelEntry> models;
  UniqueNames names;
  for (const CsvRow& row : table.rows) {
    const CsvReader reader(table, row);
    FT_ASSIGN(std::string name, names.Add(reader));
    FT_ASSIGN(ModelEntry entry, ReadModel(reader, std::move(name)));
    models.push_back(std::move(entry));
  }
  return models;
}

}  // namespace foretrain
