// A link to a view: a small file that opens the same view of the same runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ui/store_access.h"

namespace foretrain {

inline constexpr std::string_view kViewLinkEnding = ".ftlink";
inline constexpr std::int64_t kMaxViewLinkBytes = 64 << 10;

// Members as the options of `view` of the same names.
struct ViewLink {
  StoreRequest store{};  // without a path: no store, as for Plan
  std::string view = "compare";
  std::optional<std::int32_t> step{};
  bool wall_clock = false;
  bool queues = false;
  bool light = false;
  std::optional<double> window_start_s{};
  std::optional<double> window_end_s{};
  std::optional<double> moment_s{};

  bool operator==(const ViewLink&) const = default;
};

// Parses a link. Errors name `file`, field and remedy: not JSON, another format, an unknown or
// missing field, a value out of range. Whether the store exists is not checked.
Result<ViewLink> ViewLinkFromJson(std::string_view text, std::string_view file);

// Reads back to an equal link.
std::string ToJson(const ViewLink& link);

// The path of a link's store as seen from the current folder: relative paths start at the folder of
// the link's `file`, so that both can be moved together.
std::string StoreOfLink(const ViewLink& link, const std::string& file);

// `store`, which is relative to the current folder, as a link in `file` should say it: without its
// folder if the two lie in the same one, else the whole path.
std::string StoreForLink(const std::string& store, const std::string& file);

}  // namespace foretrain
