#include "app/cli/hub_cache.h"

#include <cstdlib>
#include <vector>

#include "base/text.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxRefBytes = 4096;

bool IsRegular(FileSystem& files, const std::string& path) {
  const auto info = files.Stat(path);
  return info && info->kind == FileKind::kRegular;
}

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<std::string> NotFound(std::string_view name, const std::string& folder,
                             const std::string& why) {
  return Fail(ErrorCode::kInvalidArgument, "model " + Printable(name) +
                                               ": is no file, and in the Hugging Face cache " +
                                               Printable(folder, 512) + " " + why +
                                               "; give the path of its config.json or download it");
}

}  // namespace

// The order of the Hugging Face libraries: HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, HOME. "" if none
// is set.
std::string HubCacheFolder() {
  if (const std::string cache = Environment("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = Environment("HF_HOME"); !home.empty()) return home + "/hub";
  if (const std::string cache = Environment("XDG_CACHE_HOME"); !cache.empty()) {
    return cache + "/huggingface/hub";
  }
  const std::string home = Environment("HOME");
  return home.empty() ? "" : home + "/.cache/huggingface/hub";
}

// True for "owner/name". Paths, names with "--" (the cache's own separator) and .json files are
// not.
bool LooksLikeHubName(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == 0 || slash == std::string_view::npos || slash + 1 == text.size()) return false;
  if (text.find('/', slash + 1) != std::string_view::npos) return false;
  return text.find("--") == std::string_view::npos && text.front() != '.' && text.front() != '~' &&
         text.find('\\') == std::string_view::npos && text.find('\0') == std::string_view::npos &&
         !text.ends_with(".json");
}

// Prefers the snapshot that refs/main names. Without it, a single snapshot is unambiguous, and
// several are an error: a guess could plan another model. The ref is text of a file, so a '/' in it
// is not followed.
Result<std::string> FindInHubCache(FileSystem& files, const std::string& folder,
                                   std::string_view name) {
  if (folder.empty()) return NotFound(name, folder, "(HF_HOME and HOME are not set) is nothing");
  const std::size_t slash = name.find('/');
  const std::string model = folder + "/models--" + std::string(name.substr(0, slash)) + "--" +
                            std::string(name.substr(slash + 1));
  if (const auto info = files.Stat(model); !info || info->kind != FileKind::kDirectory) {
    return NotFound(name, folder, "is no model of that name");
  }
  const auto config = [&](std::string_view snapshot) {
    return model + "/snapshots/" + std::string(snapshot) + "/config.json";
  };
  if (const auto main = ReadFile(files, model + "/refs/main", kMaxRefBytes)) {
    const std::string_view commit = Trim(*main);
    const bool plain = !commit.empty() && commit.find('/') == std::string_view::npos;
    if (plain && IsRegular(files, config(commit))) return config(commit);
  }
  std::vector<std::string> found;
  if (const auto snapshots = files.List(model + "/snapshots")) {
    for (const std::string& snapshot : *snapshots) {
      if (IsRegular(files, config(snapshot))) found.push_back(config(snapshot));
    }
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) return NotFound(name, folder, "it has no snapshot with a config.json");
  return NotFound(name, folder, "it has several snapshots and none is main: " + Join(found, ", "));
}

}  // namespace foretrain
