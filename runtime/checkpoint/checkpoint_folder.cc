#include "runtime/checkpoint/checkpoint_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "base/stop_point.h"

namespace foretrain {
namespace {

constexpr std::string_view kPrefix = "step-";

std::string NameOf(std::int64_t step, std::int64_t repeat) {
  const std::string name = fmt::format("{}{:08}", kPrefix, step);
  return repeat == 1 ? name : fmt::format("{}-{}", name, repeat);
}

std::optional<std::int64_t> ParseCount(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The name's step and repeat; `nullopt` if it is no name of a checkpoint.
std::optional<CheckpointPath> ParseName(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::string_view rest = name.substr(kPrefix.size());
  CheckpointPath path;
  if (const auto dash = rest.find('-'); dash != std::string_view::npos) {
    const auto repeat = ParseCount(rest.substr(dash + 1));
    if (!repeat || *repeat < 2) return std::nullopt;
    path.repeat = *repeat;
    rest = rest.substr(0, dash);
  }
  const auto step = ParseCount(rest);
  if (!step || *step < 0 || NameOf(*step, path.repeat) != name) return std::nullopt;
  path.step = *step;
  return path;
}

// Folders of steps, newest first, whole or not.
Result<std::vector<CheckpointPath>> ListSteps(FileSystem& files, const std::string& folder) {
  std::vector<CheckpointPath> found;
  FT_ASSIGN(const FileInfo info, files.Stat(folder));
  if (info.kind == FileKind::kMissing) return found;
  FT_ASSIGN(const std::vector<std::string> names, files.List(folder));
  for (const std::string& name : names) {
    if (auto path = ParseName(name)) {
      path->path = folder + "/" + name;
      found.push_back(*std::move(path));
    }
  }
  std::sort(found.begin(), found.end(), [](const CheckpointPath& a, const CheckpointPath& b) {
    return std::pair(a.step, a.repeat) > std::pair(b.step, b.repeat);
  });
  return found;
}

Result<bool> IsWhole(FileSystem& files, const CheckpointPath& one) {
  FT_ASSIGN(const FileInfo manifest, files.Stat(one.path + "/" + kManifestName));
  return manifest.kind == FileKind::kRegular;
}

}  // namespace

Result<std::vector<CheckpointPath>> ListCheckpoints(FileSystem& files, const std::string& folder) {
  FT_ASSIGN(const std::vector<CheckpointPath> steps, ListSteps(files, folder));
  std::vector<CheckpointPath> found;
  for (const CheckpointPath& one : steps) {
    FT_ASSIGN(const bool whole, IsWhole(files, one));
    if (whole) found.push_back(one);
  }
  return found;
}

std::string CheckpointPathOf(const std::string& folder, std::int64_t step, std::int64_t repeat) {
  return folder + "/" + NameOf(step, repeat);
}

Result<void> RemoveCheckpoint(FileSystem& files, const std::string& path) {
  FT_ASSIGN(std::vector<std::string> names, files.List(path));
  const auto manifest = std::find(names.begin(), names.end(), kManifestName);
  if (manifest != names.end()) {
    FT_TRY(files.Remove(path + "/" + kManifestName));
    FT_TRY(files.SyncDirectory(path));
    names.erase(manifest);
  }
  StopPoint("checkpoint.removing");
  for (const std::string& name : names) FT_TRY(files.Remove(path + "/" + name));
  return files.Remove(path);
}

Result<void> RemoveUnfinished(FileSystem& files, const std::string& folder) {
  FT_ASSIGN(const std::vector<CheckpointPath> steps, ListSteps(files, folder));
  for (const CheckpointPath& one : steps) {
    FT_ASSIGN(const bool whole, IsWhole(files, one));
    if (!whole) FT_TRY(RemoveCheckpoint(files, one.path));
  }
  return {};
}

Result<void> RemoveOldCheckpoints(FileSystem& files, const std::string& folder, int keep) {
  FT_ASSIGN(const std::vector<CheckpointPath> all, ListCheckpoints(files, folder));
  for (auto i = static_cast<std::size_t>(keep); i < all.size(); ++i) {
    StopPoint("checkpoint.remove");
    FT_TRY(RemoveCheckpoint(files, all[i].path));
  }
  return {};
}

}  // namespace foretrain
