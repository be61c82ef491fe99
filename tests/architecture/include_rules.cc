#include "tests/architecture/include_rules.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "base/text.h"

namespace foretrain {
namespace {

using Texts = std::vector<std::string_view>;

// Each folder with the folders that it may include besides base and itself: the picture in the
// style guide.
const std::map<std::string_view, Texts>& Arrows() {
  static const std::map<std::string_view, Texts> arrows{
      {"base", {}},
      {"traces", {}},
      {"kernels", {}},
      {"profiler", {"traces"}},
      {"sim", {"traces"}},
      {"runtime", {"kernels", "profiler", "sim", "traces"}},
      {"ui", {"sim", "traces"}},
      {"app", {"kernels", "profiler", "runtime", "sim", "traces", "ui"}}};
  return arrows;
}

// Third-party headers that only some paths may include.
struct Fence {
  std::string_view what;
  Texts header_prefixes;
  Texts allowed_paths;        // prefixes, or parts when they start with a slash
  bool only_sources = false;  // not in headers
};

const std::vector<Fence>& Fences() {
  static const std::vector<Fence> fences{
      {"CUDA, CUPTI and NCCL headers",
       {"cuda", "cublas", "cupti", "nccl", "nvtx3/", "nvToolsExt", "nvml", "cub/",
        "cooperative_groups", "mma.h", "driver_types.h", "vector_types.h"},
       {"kernels/cuda/", "profiler/cuda/", "runtime/cuda/"}},
      {"SQLite", {"sqlite3"}, {"traces/"}},
      {"Dear ImGui", {"imgui", "backends/imgui", "imstb", "implot"}, {"ui/", "app/"}},
      {"windows, GL and fonts",
       {"GLFW/", "GL/", "EGL/", "ft2build.h", "freetype/", "png.h"},
       {"ui/", "app/"}},
      {"oneDNN", {"oneapi/", "dnnl"}, {"kernels/"}},
      {"UCX headers", {"ucp/", "ucs/", "uct/"}, {"runtime/ucx/"}, true},
      {"PCRE2 and utf8proc", {"pcre2", "utf8proc"}, {"runtime/tokenizer/"}, true},
      {"TOML and YAML", {"toml++/", "yaml-cpp/"}, {"sim/config/launch/syntax/"}, true},
      {"CLI11", {"CLI/"}, {"app/"}, true},
      {"heavy headers", {"nlohmann/", "sqlite3", "regex", "iostream"}, {""}, true}};
  return fences;
}

// sim reads no clock, file or environment.
constexpr std::array<std::string_view, 9> kNotInSim{"chrono",
                                                    "ctime",
                                                    "time.h",
                                                    "fstream",
                                                    "filesystem",
                                                    "base/clock.h",
                                                    "base/io/file_system.h",
                                                    "unistd.h",
                                                    "iostream"};

bool StartsWithAny(std::string_view text, const Texts& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return text.starts_with(prefix); });
}

std::string_view FolderOf(std::string_view path) { return path.substr(0, path.find('/')); }

std::string WhyNotOurs(std::string_view path, std::string_view header) {
  const std::string_view folder = FolderOf(path);
  const std::string_view target = FolderOf(header);
  if (header.find('/') == std::string_view::npos) {
    return "is not a path from the repository's root";
  }
  if (target == folder || target == "base") return "";
  const auto arrow = Arrows().find(folder);
  const bool allowed =
      arrow != Arrows().end() && std::count(arrow->second.begin(), arrow->second.end(), target) > 0;
  return allowed
             ? ""
             : "is no arrow: " + std::string(folder) + " may not include " + std::string(target);
}

}  // namespace

std::vector<IncludeLine> IncludesOf(std::string_view source) {
  std::vector<IncludeLine> includes;
  int number = 0;
  for (const std::string_view line : Split(source, '\n')) {
    ++number;
    std::string_view rest = Trim(line);
    if (!rest.starts_with('#')) continue;
    rest = Trim(rest.substr(1));
    if (!rest.starts_with("include")) continue;
    rest = Trim(rest.substr(7));
    if (rest.empty() || (rest[0] != '"' && rest[0] != '<')) continue;
    const std::size_t end = rest.find(rest[0] == '"' ? '"' : '>', 1);
    if (end == std::string_view::npos) continue;
    includes.push_back({number, std::string(rest.substr(1, end - 1)), rest[0] == '"'});
  }
  return includes;
}

std::string WhyNot(std::string_view path, const IncludeLine& include) {
  const std::string_view header = include.header;
  const bool ours =
      Arrows().contains(FolderOf(header)) && header.find('/') != std::string_view::npos;
  if (include.quoted || ours) {
    const std::string why = WhyNotOurs(path, header);
    if (!why.empty()) return why;
    if (!include.quoted) return "is ours: write it in quotes";
  }
  for (const Fence& fence : Fences()) {
    if (ours || !StartsWithAny(header, fence.header_prefixes)) continue;
    if (!StartsWithAny(path, fence.allowed_paths)) {
      return "does not belong here: " + std::string(fence.what) + " appear in " +
             std::string(fence.allowed_paths.front()) + " and the like alone";
    }
    if (fence.only_sources && path.ends_with(".h")) {
      return "does not belong in a header: " + std::string(fence.what) +
             " slow every file that includes it";
    }
  }
  if (FolderOf(path) == "sim" &&
      std::find(kNotInSim.begin(), kNotInSim.end(), header) != kNotInSim.end()) {
    return "does not belong in sim, which reads no clock, file or environment";
  }
  return "";
}

}  // namespace foretrain
