#include "ui/view_link.h"

#include <filesystem>
#include <system_error>

#include "base/json/json.h"

namespace foretrain {
namespace {

constexpr std::int64_t kFormat = 1;
constexpr double kMaxSeconds = 1e9;

std::filesystem::path FolderOf(const std::string& file) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  return folder.empty() ? std::filesystem::path(".") : folder;
}

// Without symbolic links and "..", as far as the path exists.
std::filesystem::path Whole(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path whole = std::filesystem::weakly_canonical(path, error);
  return error ? path : whole;
}

}  // namespace

Result<ViewLink> ViewLinkFromJson(std::string_view text, std::string_view file) {
  FT_ASSIGN(const JsonValue value, ParseJson(text, file));
  JsonFields fields(value, file);
  ViewLink link;
  fields.Integer("foretrain_link", kFormat, kFormat);
  constexpr std::int64_t kMaxRun = std::int64_t{1} << 53;
  link.store.path = fields.StringOr("store", "");
  link.store.run = fields.IntegerOr("run", 0, 0, kMaxRun);
  link.store.against = fields.IntegerOr("against", 0, 0, kMaxRun);
  link.view = fields.StringOr("view", link.view, 64);
  if (fields.Has("step")) {
    link.step = static_cast<std::int32_t>(fields.Integer("step", 0, INT32_MAX));
  }
  link.wall_clock = fields.BoolOr("wall_clock", false);
  link.queues = fields.BoolOr("queues", false);
  link.light = fields.BoolOr("light", false);
  const auto seconds = [&](const char* name, std::optional<double>& member) {
    if (fields.Has(name)) member = fields.Number(name, -kMaxSeconds, kMaxSeconds);
  };
  seconds("window_start_s", link.window_start_s);
  seconds("window_end_s", link.window_end_s);
  seconds("moment_s", link.moment_s);
  FT_TRY(fields.Finish());
  return link;
}

// Defaults are left out.
std::string ToJson(const ViewLink& link) {
  JsonWriter json(2);
  json.BeginObject().Field("foretrain_link", kFormat);
  if (!link.store.path.empty()) json.Field("store", link.store.path);
  if (link.store.run != 0) json.Field("run", link.store.run);
  if (link.store.against != 0) json.Field("against", link.store.against);
  json.Field("view", link.view);
  if (link.step.has_value()) json.Field("step", *link.step);
  for (const auto& [name, is_set] :
       {std::pair{"wall_clock", link.wall_clock}, std::pair{"queues", link.queues},
        std::pair{"light", link.light}}) {
    if (is_set) json.Field(name, true);
  }
  for (const auto& [name, member] :
       {std::pair{"window_start_s", &link.window_start_s},
        std::pair{"window_end_s", &link.window_end_s}, std::pair{"moment_s", &link.moment_s}}) {
    if (member->has_value()) json.Field(name, **member);
  }
  return json.EndObject().Take() + "\n";
}

std::string StoreOfLink(const ViewLink& link, const std::string& file) {
  if (link.store.path.empty() || link.store.path.front() == '/') return link.store.path;
  const std::filesystem::path folder = FolderOf(file);
  return folder == "." ? link.store.path : (folder / link.store.path).string();
}

std::string StoreForLink(const std::string& store, const std::string& file) {
  if (store.empty()) return store;
  const std::filesystem::path path = Whole(store);
  return path.parent_path() == Whole(FolderOf(file)) ? path.filename().string() : path.string();
}

}  // namespace foretrain
