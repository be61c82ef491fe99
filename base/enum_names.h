// Names of enumerators that count from 0, held in arrays in the order of their values.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace foretrain {

// Checked, because an enum value may come from a cast.
template <class Kind, std::size_t kCount>
std::string_view NameIn(const std::array<std::string_view, kCount>& names, Kind kind) {
  const auto index = static_cast<std::size_t>(kind);
  FT_CHECK(index < kCount);
  return names[index];
}

// The enumerator called `name`; nullopt if there is none. A linear search: the lists are short.
template <class Kind, std::size_t kCount>
std::optional<Kind> ParseIn(const std::array<std::string_view, kCount>& names,
                            std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Kind>(found - names.begin());
}

}  // namespace foretrain
