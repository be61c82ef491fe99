#include "traces/run.h"

#include <array>
#include <cstddef>

#include "base/result.h"

namespace foretrain {
namespace {

constexpr std::array<std::string_view, kRunKindCount> kKindNames = {"predicted", "measured",
                                                                    "resimulated", "imported"};
constexpr std::array<std::string_view, kRunStatusCount> kStatusNames = {"running", "finished",
                                                                        "interrupted", "failed"};

template <class E, std::size_t N>
std::optional<E> FindIn(const std::array<std::string_view, N>& names, std::string_view name) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view Name(RunKind kind) {
  FT_CHECK(static_cast<int>(kind) < kRunKindCount);
  return kKindNames[static_cast<std::size_t>(kind)];
}

std::string_view Name(RunStatus status) {
  FT_CHECK(static_cast<int>(status) < kRunStatusCount);
  return kStatusNames[static_cast<std::size_t>(status)];
}

std::optional<RunKind> ParseRunKind(std::string_view name) {
  return FindIn<RunKind>(kKindNames, name);
}

}  // namespace foretrain
