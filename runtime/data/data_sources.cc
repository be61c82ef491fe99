#include "runtime/data/data_sources.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <iterator>
#include <optional>
#include <utility>

#include "base/text.h"

namespace foretrain {
namespace {

constexpr std::size_t kMaxSources = 256;
constexpr double kMaxWeight = 1e12;  // weights may be numbers of tokens

struct PathAndWeight {
  std::string path;
  std::optional<double> weight;
};

tl::unexpected<Error> Refuse(const std::string& part, const std::string& why) {
  return Fail(ErrorCode::kInvalidArgument, Printable(part, 512) + why);
}

Result<bool> IsFile(FileSystem& files, const std::string& path) {
  FT_ASSIGN(const FileInfo info, files.Stat(path));
  return info.kind == FileKind::kRegular;
}

// A colon may also belong to the name of a file: one that exists is taken as a name.
Result<PathAndWeight> SplitWeight(FileSystem& files, const std::string& part) {
  const std::size_t colon = part.rfind(':');
  if (colon == std::string::npos) return PathAndWeight{part, std::nullopt};
  FT_ASSIGN(const FileInfo info, files.Stat(part));
  if (info.kind != FileKind::kMissing) return PathAndWeight{part, std::nullopt};
  FT_ASSIGN(const double weight, ParseNumber("weight of " + Printable(part, 512),
                                             part.substr(colon + 1), 0, kMaxWeight));
  if (weight == 0) return Refuse(part, ": a weight is above 0; leave the path out instead");
  return PathAndWeight{part.substr(0, colon), weight};
}

// The files of `folder` that match, in the order of their names. An .idx file is read with its
// .bin.
Result<std::vector<std::string>> FilesIn(FileSystem& files, const std::string& folder,
                                         const std::string& prefix, const std::string& pattern) {
  std::vector<std::string> found;
  FT_ASSIGN(const std::vector<std::string> names, files.List(folder));
  for (const std::string& name : names) {
    if (name.ends_with(".idx")) continue;
    // FNM_PERIOD hides hidden files.
    if (fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) != 0) continue;
    FT_ASSIGN(const bool is_file, IsFile(files, prefix + name));
    if (is_file) found.push_back(prefix + name);
  }
  return found;
}

}  // namespace

Result<std::vector<std::string>> FilesOf(FileSystem& files, const std::string& path) {
  FT_ASSIGN(const FileInfo info, files.Stat(path));
  if (info.kind == FileKind::kDirectory) {
    const std::string prefix = path.ends_with('/') ? path : path + "/";
    FT_ASSIGN(auto found, FilesIn(files, path, prefix, "*"));
    if (found.empty()) return Refuse(path, ": the folder holds no file");
    return found;
  }
  if (info.kind != FileKind::kMissing) return std::vector<std::string>{path};
  FT_ASSIGN(const bool is_pair, IsFile(files, path + ".bin"));
  if (is_pair) return std::vector<std::string>{path + ".bin"};
  const std::size_t slash = path.rfind('/');
  const std::string prefix = slash == std::string::npos ? "" : path.substr(0, slash + 1);
  const std::string last = path.substr(prefix.size());
  if (last.find_first_of("*?[") == std::string::npos) {
    return Refuse(path, ": no such file or folder");
  }
  FT_ASSIGN(auto found, FilesIn(files, ParentFolder(path), prefix, last));
  if (found.empty()) return Refuse(path, ": no file has a name of this pattern");
  return found;
}

Result<std::vector<DataSource>> ParseDataSources(FileSystem& files, const std::string& text) {
  FT_ASSIGN(const bool is_name, IsFile(files, text));
  std::vector<PathAndWeight> paths;
  if (is_name) paths.push_back({text, std::nullopt});
  for (const std::string_view part : Split(text, ',')) {
    if (is_name) break;
    if (Trim(part).empty()) return Refuse(text, ": a path is missing before or after a comma");
    FT_ASSIGN(PathAndWeight path, SplitWeight(files, std::string(Trim(part))));
    paths.push_back(std::move(path));
  }
  const bool weighted = paths.front().weight.has_value();
  if (weighted && paths.size() > kMaxSources) {
    return Refuse(text.substr(0, 64), fmt::format("...: {} sources with weights; at most {}",
                                                  paths.size(), kMaxSources));
  }
  std::vector<DataSource> sources;
  for (const PathAndWeight& path : paths) {
    if (path.weight.has_value() != weighted) {
      return Refuse(path.path, weighted ? " has no weight and the paths before have one; write " +
                                              Printable(path.path, 512) + ":WEIGHT"
                                        : " has a weight and the paths before have none");
    }
    FT_ASSIGN(auto found, FilesOf(files, path.path));
    if (weighted || sources.empty()) sources.push_back({{}, path.weight.value_or(1)});
    std::vector<std::string>& all = sources.back().files;
    all.insert(all.end(), std::make_move_iterator(found.begin()),
               std::make_move_iterator(found.end()));
  }
  return sources;
}

}  // namespace foretrain
