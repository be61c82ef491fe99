#include "sim/validate/families.h"

#include <algorithm>
#include <optional>

#include "base/embedded.h"
#include "base/json/json.h"
#include "base/text.h"
#include "sim/embedded_data.h"

namespace foretrain {
namespace {

constexpr std::string_view kFile = "sim/validate/families.json";
constexpr std::int64_t kMaxHeads = 1 << 20;
constexpr std::int64_t kMaxLayersApart = 1000;
constexpr std::int64_t kMaxAdapters = 1024;
constexpr double kMaxHeadroom = 1e3;
constexpr std::int64_t kMaxRows = 1'000'000;

// Reads one family. `fields` remembers the first error; RunFamiliesFromJson checks it with Finish.
RunFamily ReadFamily(JsonFields& fields) {
  RunFamily family;
  family.name = fields.String("family", 64);
  family.preset = fields.String("preset", 64);
  family.zero_3_preset = fields.StringOr("zero_3_preset", "", 64);
  family.heads = fields.IntegerOr("heads", 0, 1, kMaxHeads);
  for (JsonFields& rows : fields.ObjectsOr("rows")) {
    family.rows.push_back({rows.Integer("first", 0, kMaxRows), rows.Integer("last", 0, kMaxRows),
                           rows.String("preset", 64)});
    (void)rows.Finish();
  }
  family.end_blocks_count = fields.BoolOr("end_blocks_count", false);
  family.selective_every =
      static_cast<int>(fields.IntegerOr("selective_every", 0, 1, kMaxLayersApart));
  family.recompute = fields.StringOr("recompute", "", 16);
  family.adapters_per_node =
      static_cast<int>(fields.IntegerOr("adapters_per_node", 0, 1, kMaxAdapters));
  family.expert_headroom = fields.NumberOr("expert_headroom", 0, 1, kMaxHeadroom);
  family.stages_by_parameters = fields.BoolOr("stages_by_parameters", false);
  if (std::optional<JsonFields> heads = fields.ObjectOr("heads_of_hidden")) {
    for (const std::string& hidden : heads->names()) {
      const auto width = ParseInt("heads_of_hidden", hidden, 1, std::int64_t{1} << 31);
      if (!width.has_value()) {
        heads->Refuse(hidden, "is no hidden size; name an integer such as 14336");
        break;
      }
      family.heads_of_hidden[*width] = heads->Integer(hidden, 1, kMaxHeads);
    }
    (void)heads->Finish();
  }
  return family;
}

}  // namespace

// Preset of a row. Ids end in "-<number>"; a row in one of the listed ranges has the range's
// preset.
const std::string& RunFamily::PresetOf(std::string_view id, bool sharded) const {
  if (sharded && !zero_3_preset.empty()) return zero_3_preset;
  const auto number = ParseInt("id", id.substr(id.rfind('-') + 1), 0, kMaxRows);
  for (const Rows& some : rows) {
    if (number.has_value() && *number >= some.first && *number <= some.last) return some.preset;
  }
  return preset;
}

// Unlisted families get a preset by their kind of MLP.
RunFamily RunFamilies::Find(std::string_view name, bool gated) const {
  const auto found = std::find_if(families.begin(), families.end(),
                                  [name](const RunFamily& family) { return family.name == name; });
  if (found != families.end()) return *found;
  RunFamily family;
  family.name = name;
  family.preset = gated ? gated_preset : plain_preset;
  return family;
}

// Each family is finished before the next is read, so an error names the family it is in.
Result<RunFamilies> RunFamiliesFromJson(std::string_view text, std::string_view file) {
  FT_ASSIGN(const JsonValue value, ParseJson(text, file));
  JsonFields fields(value, file);
  RunFamilies out;
  for (JsonFields& family : fields.Objects("families")) {
    out.families.push_back(ReadFamily(family));
    FT_TRY(family.Finish());
  }
  JsonFields otherwise = fields.Object("otherwise");
  out.gated_preset = otherwise.String("gated", 64);
  out.plain_preset = otherwise.String("plain", 64);
  FT_TRY(otherwise.Finish());
  FT_TRY(fields.Finish());
  return out;
}

Result<RunFamilies> BuiltInRunFamilies() {
  const EmbeddedFile* file = FindEmbedded(sim_data::Files(), kFile);
  FT_CHECK(file != nullptr);
  return RunFamiliesFromJson(file->text, kFile);
}

}  // namespace foretrain
