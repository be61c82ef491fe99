// Resolves the model that a user named or gave as a file to a ModelSpec.
#include "base/text.h"
#include "sim/config/catalogue/catalogue.h"
#include "sim/config/model/import/hugging_face.h"
#include "sim/config/model/model_json.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

// Adds a note such as "fields that ... were ignored: a, b", unless `names` is empty.
void AddNote(std::string_view start, const std::vector<std::string>& names,
             std::vector<std::string>& notes) {
  constexpr std::size_t kMax = 100;
  if (names.empty()) return;
  const std::size_t shown = std::min(names.size(), kMax);
  std::string note = fmt::format("{}: {}", start, Join(std::span(names).first(shown), ", "));
  if (shown < names.size()) note += fmt::format(" and {} more", names.size() - shown);
  notes.push_back(std::move(note));
}

Result<ResolvedModel> FromConfig(std::string_view text, std::string_view origin) {
  FT_ASSIGN(const ImportedModel imported, ModelFromHuggingFace(text, origin));
  ResolvedModel resolved{imported.model, imported.notes};
  AddNote("fields that do not change the shape were ignored", imported.ignored, resolved.notes);
  AddNote("fields that are not known were ignored", imported.unknown, resolved.notes);
  return resolved;
}

}  // namespace

// JSON starts with a brace, which no catalogue name does; a byte order mark may come first.
Result<ResolvedModel> ResolveModel(std::string_view text, std::string_view origin,
                                   const Catalogue& catalogue) {
  std::string_view start = text;
  if (start.starts_with("\xef\xbb\xbf")) start.remove_prefix(3);
  if (Trim(start).starts_with('{')) {
    if (LooksLikeHuggingFace(text)) return FromConfig(text, origin);
    FT_ASSIGN(const ModelSpec model, ModelFromJson(text, origin));
    return ResolvedModel{model, {}};
  }
  const auto entry = FindModel(catalogue, text);
  if (!entry) return Refuse("{}: {}", Printable(origin, 512), entry.error().message);
  if (!entry->unsupported.empty()) {
    return Fail(ErrorCode::kUnsupported,
                fmt::format("{}: {} cannot be planned: it has {}, which is not supported yet",
                            Printable(origin, 512), entry->name, entry->unsupported));
  }
  return ResolvedModel{entry->spec, {}};
}

}  // namespace foretrain
