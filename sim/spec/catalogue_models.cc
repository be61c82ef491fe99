// The catalogue of models.
#include "base/text.h"
#include "sim/spec/catalogue.h"
#include "sim/spec/catalogue_rows.h"
#include "sim/spec/refuse.h"

namespace foretrain {
namespace {

Result<void> ReadCounts(const CsvReader& row, ModelSpec& model) {
  struct Column {
    std::string_view name;
    std::int64_t& value;
  };
  for (const Column& column :
       {Column{"layers", model.layers}, Column{"hidden", model.hidden},
        Column{"heads", model.heads}, Column{"kv_heads", model.kv_heads},
        Column{"head_dim", model.head_dim}, Column{"ffn_hidden", model.ffn_hidden},
        Column{"vocab", model.vocab}, Column{"max_seq", model.max_sequence}}) {
    FT_ASSIGN(column.value, row.Count(column.name, 1, kMaxModelCount));
  }
  if (!row.Text("attention_window").empty()) {
    FT_ASSIGN(model.attention_window, row.Count("attention_window", 0, kMaxModelCount));
  }
  return {};
}

// Collects what a row asks for that ModelSpec has not.
class Missing {
 public:
  void Add(std::string text) { parts_.push_back(std::move(text)); }
  std::string Text() const { return Join(parts_, "; "); }

 private:
  std::vector<std::string> parts_;
};

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
  if (bias != layer_norm) {
    missing.Add(layer_norm ? "LayerNorm without a bias" : "RMSNorm with a bias");
  }
  if (row.Text("norm_position") != "pre" && !row.Text("norm_position").empty()) {
    missing.Add(fmt::format("{}-norm", Printable(row.Text("norm_position"))));
  }
  if (!row.Text("norm_epsilon").empty()) {
    FT_ASSIGN(model.norm_epsilon, row.Number("norm_epsilon", 1e-5));
  }
  return {};
}

Result<void> ReadMlp(const CsvReader& row, ModelSpec& model, Missing& missing) {
  FT_ASSIGN(const bool gated, row.Flag("gated_mlp", false));
  std::string_view activation = row.Text("activation");
  if (activation.empty()) activation = gated ? "swiglu" : "gelu";
  const auto mlp = ParseMlp(activation);
  if (!mlp || (*mlp == MlpKind::kSwiglu) != gated) {
    missing.Add(fmt::format("{}activation {}", gated ? "gated " : "", Printable(activation)));
    return {};
  }
  model.mlp = *mlp;
  return {};
}

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
  const std::string_view attention = row.Text("attention_type");
  if (attention != "MHA" && attention != "GQA" && attention != "MQA" && !attention.empty()) {
    missing.Add(fmt::format("attention {}", Printable(attention)));
  }
  return {};
}

// The table has the number of shared experts, each as wide as the others. How their scores become
// weights is no column: the figures of shape and time are the same.
Result<void> ReadExperts(const CsvReader& row, ModelSpec& model) {
  if (row.Text("moe_experts").empty()) return {};
  FT_ASSIGN(model.experts, row.Count("moe_experts", 1, kMaxModelCount));
  FT_ASSIGN(model.experts_per_token, row.Count("moe_topk", 1, kMaxModelCount));
  FT_ASSIGN(model.expert_ffn_hidden, row.Count("moe_ffn_hidden", 1, kMaxModelCount));
  if (!row.Text("moe_shared_experts").empty()) {
    FT_ASSIGN(const std::int64_t shared, row.Count("moe_shared_experts", 0, 1024));
    model.shared_ffn_hidden = shared * model.expert_ffn_hidden;
  }
  if (!row.Text("first_dense_layers").empty()) {
    FT_ASSIGN(model.first_dense_layers, row.Count("first_dense_layers", 0, kMaxModelCount));
  }
  return {};
}

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
  if (!row.Text("other_features").empty()) missing.Add(Printable(row.Text("other_features"), 200));
  FT_ASSIGN(entry.spec.projection_bias, row.Flag("biases", false));
  FT_ASSIGN(entry.spec.attention_bias, row.Flag("qkv_bias", entry.spec.projection_bias));
  FT_ASSIGN(entry.spec.tied_embeddings, row.Flag("tied_embeddings", false));
  FT_ASSIGN(const double published_b, row.Number("params_published_b", 0));
  FT_ASSIGN(const double active_b, row.Number("active_params_published_b", 0));
  entry.published_parameters = published_b * 1e9;
  entry.active_parameters = active_b * 1e9;
  entry.name = std::move(name);
  entry.unsupported = missing.Text();
  if (entry.unsupported.empty()) {
    if (const auto valid = ValidateModel(entry.spec); !valid) {
      return Refuse("{}: {}", row.Place("name"), valid.error().message);
    }
  }
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
