#include "sim/config/model/import/hugging_face.h"

#include <algorithm>

#include "base/json/json.h"
#include "base/text.h"
#include "sim/config/model/import/config.h"
#include "sim/config/model/import/families.h"
#include "sim/config/model/import/readers.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

// Last part of a path such as "meta-llama/Llama-2-7b-hf"; the family if there is none.
std::string ModelName(Config& config, std::string_view family) {
  std::string path = config.StringOr("_name_or_path", "");
  while (!path.empty() && path.back() == '/') path.pop_back();
  const std::string name = Printable(path.substr(path.rfind('/') + 1), 150);
  return name.empty() || name == "." ? std::string(family) : name;
}

// Reads the fields that all families share, under the family's names. `more` comes last, because it
// may override any of them.
ModelSpec Read(Config& config, const Family& family) {
  const FieldNames& names = family.names;
  ModelSpec model = family.base;
  model.name = ModelName(config, family.type);
  if (family.has_decoder_too) {
    config.IgnoreIn({"is_encoder_decoder"});
  } else {
    RefuseOtherParts(config);
  }
  model.layers = config.Count(names.layers);
  model.hidden = config.Count(names.hidden);
  model.heads = model.kv_heads = config.Count(names.heads);
  if (!names.kv_heads.empty()) model.kv_heads = config.CountOr(names.kv_heads, model.heads);
  model.head_dim = config.Has(names.head_dim) ? config.Count(names.head_dim)
                                              : HeadDimOf(config, names.hidden, names.heads, model);
  model.ffn_hidden =
      family.four_hidden ? config.CountOr(names.ffn, 4 * model.hidden) : config.Count(names.ffn);
  model.vocab = config.Count("vocab_size");
  model.max_sequence = family.max_sequence > 0
                           ? config.CountOr(names.max_sequence, family.max_sequence)
                           : config.Count(names.max_sequence);
  model.norm_epsilon = config.NumberOr(names.epsilon, model.norm_epsilon);
  model.tied_embeddings = config.BoolOr("tie_word_embeddings", model.tied_embeddings);
  if (model.positions == PositionKind::kRope) ReadRope(config, model);
  if (!names.activation.empty()) {
    ReadActivation(config, names.activation, family.activation, model);
  }
  if (family.needs_kv_heads) RequireKvHeads(config);
  if (family.more != nullptr) family.more(config, model);
  return model;
}

// A type that is known but unsupported gets its own reason; any other gets the list of supported
// types.
Result<const Family*> FindFamily(Config& config, std::string_view file) {
  const std::string name = config.StringOr("model_type", "");
  std::vector<std::string_view> types;
  for (const Family& family : Families()) {
    if (family.type == name) return &family;
    types.push_back(family.type);
  }
  const std::string all = fmt::format("{}", fmt::join(types, ", "));
  if (name.empty()) {
    return Refuse("{}: model_type: is missing; it is one of {}", Printable(file, 512), all);
  }
  if (const std::string_view why = WhyNotAModel(name); !why.empty()) {
    return Fail(ErrorCode::kUnsupported, fmt::format("{}: model_type: \"{}\" is not supported: {}",
                                                     Printable(file, 512), name, why));
  }
  return Fail(ErrorCode::kUnsupported,
              fmt::format("{}: model_type: \"{}\" is not supported; those that are: {}{}",
                          Printable(file, 512), Printable(name), all, DidYouMean(name, types)));
}

// The language model within the file of a model that joins it with others; null if there is none of
// a known type.
const JsonValue* TextPart(const JsonValue& whole) {
  const JsonValue* const part = whole.Find("text_config");
  if (part == nullptr || part->kind() != JsonValue::Kind::kObject) return nullptr;
  const JsonValue* const type = part->Find("model_type");
  if (type == nullptr || type->kind() != JsonValue::Kind::kString) return nullptr;
  const bool known = std::any_of(Families().begin(), Families().end(), [&](const Family& family) {
    return family.type == type->AsString();
  });
  return known ? part : nullptr;
}

Result<ImportedModel> ImportTextPart(const JsonValue& part, const JsonValue& whole,
                                     std::string_view file) {
  Config config(part, file);
  if (!config.ok()) return config.Finish(ModelSpec{});
  FT_ASSIGN(const Family* const family, FindFamily(config, file));
  ModelSpec model = Read(config, *family);
  Config outer(whole, file);
  if (outer.ok()) model.name = ModelName(outer, model.name);
  config.Note("the language model alone is described, as text_config gives it");
  return config.Finish(model);
}

}  // namespace

// Our own model files have no model_type, so this one field tells the formats apart.
bool LooksLikeHuggingFace(std::string_view text) {
  const auto value = ParseJson(text, "");
  return value && value->kind() == JsonValue::Kind::kObject && value->Find("model_type") != nullptr;
}

Result<ImportedModel> ModelFromHuggingFace(std::string_view text, std::string_view file) {
  FT_ASSIGN(const JsonValue value, ParseJson(text, file));
  Config config(value, file);
  if (!config.ok()) return config.Finish(ModelSpec{});
  if (const JsonValue* const part = TextPart(value)) return ImportTextPart(*part, value, file);
  FT_ASSIGN(const Family* const family, FindFamily(config, file));
  return config.Finish(Read(config, *family));
}

}  // namespace foretrain
