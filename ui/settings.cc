#include "ui/settings.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/json/json.h"
#include "base/text.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxBytes = 1 << 20;
constexpr std::int64_t kMaxPixels = 16384;
constexpr std::size_t kMaxPathBytes = 4096;

}  // namespace

// Moves a known path to the front, so that the list has no path twice.
void Settings::Remember(const std::string& path) {
  std::erase(recent, path);
  recent.insert(recent.begin(), path);
  if (recent.size() > kMaxRecent) recent.resize(kMaxRecent);
}

std::string ToJson(const Settings& settings) {
  JsonWriter json(2);
  json.BeginObject().Field("schema", 1).Field("theme", settings.light ? "light" : "dark");
  json.Field("scale", settings.scale).Field("width", settings.width);
  json.Field("height", settings.height).Field("view", settings.view);
  return json.Field("recent_stores", settings.recent).EndObject().Take();
}

// Unknown fields are skipped, so that an older foretrain can read the file of a newer one.
Result<Settings> SettingsFromJson(std::string_view text, std::string_view source) {
  FT_ASSIGN(const JsonValue value, ParseJson(text, source));
  JsonFields fields(value, source);
  Settings settings;
  static constexpr std::array<std::string_view, 2> kThemes{"dark", "light"};
  settings.light = fields.ChoiceOr("theme", 0, kThemes) == 1;
  settings.scale = fields.NumberOr("scale", settings.scale, 0.0, 8.0);
  settings.width = static_cast<int>(fields.IntegerOr("width", settings.width, 1, kMaxPixels));
  settings.height = static_cast<int>(fields.IntegerOr("height", settings.height, 1, kMaxPixels));
  settings.view = fields.StringOr("view", settings.view);
  settings.recent = fields.StringsOr("recent_stores", kMaxPathBytes);
  if (settings.recent.size() > kMaxRecent) settings.recent.resize(kMaxRecent);
  FT_TRY(fields.Finish(/*ignore_unknown=*/true));
  return settings;
}

// Never fails: settings are a convenience. A file that cannot be read is reported by damage() and
// survives the next Save.
Settings SettingsFile::Load() {
  damage_.clear();
  if (path_.empty()) return {};
  // A missing file is the first start, not damage.
  const auto info = files_.Stat(path_);
  if (info.has_value() && info->kind == FileKind::kMissing) return {};
  const auto text = ReadFile(files_, path_, kMaxBytes);
  auto settings = text.has_value() ? SettingsFromJson(*text, path_)
                                   : Result<Settings>(tl::unexpected<Error>(text.error()));
  if (settings.has_value()) return *std::move(settings);
  damage_ = "The settings cannot be read and are as new: " + settings.error().message + ". " +
            "The file is kept as " + Printable(path_, 512) + ".bad.";
  return {};
}

// The damaged file is renamed before the new one is written, so that no content is lost.
Result<void> SettingsFile::Save(const Settings& settings) {
  if (path_.empty()) return {};
  FT_TRY(files_.CreateDirectories(std::filesystem::path(path_).parent_path().string()));
  if (!damage_.empty()) {
    FT_TRY(files_.Rename(path_, path_ + ".bad"));
    damage_.clear();
  }
  return WriteFileAtomically(files_, path_, ToJson(settings));
}

}  // namespace foretrain
