#include "sim/config/model/import/config.h"

#include <algorithm>

#include "base/embedded.h"
#include "base/text.h"
#include "sim/config/rules/refuse.h"
#include "sim/embedded_data.h"

namespace foretrain {
namespace {

// Fields of transformers' configuration classes (versions 4.44 and 5.23) that change neither the
// shape nor the work of a training step. They concern tokens, generation, other heads, initial
// values, inference and data types. Dropout is among them, because imports apply none.
constexpr std::string_view kFile = "sim/config/model/import/fields_without_effect.csv";

bool HasNoEffect(std::string_view name) {
  static const EmbeddedFile* const file = FindEmbedded(sim_data::Files(), kFile);
  FT_CHECK(file != nullptr);
  static const std::vector<std::string_view> fields = Split(Trim(file->text), '\n');
  return std::find(fields.begin() + 1, fields.end(), name) != fields.end();  // after the header
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
