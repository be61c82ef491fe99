// Finds spans by name, and filters spans by class.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ui/view_model/runs/compare_model.h"

namespace foretrain::ui {

// Spans of the chosen step of the shown run (the measured one if present) that match `text`. Their
// name, block, pass, class or kind must contain every word, ignoring case. Launches are found while
// the host has a row. Sorted by time, at most kMaxFound; for a long run only loaded spans. "mlp 12"
// finds mlp.up of layer 12. O(n).
inline constexpr std::size_t kMaxFound = 10'000;
std::vector<SpanRef> FindSpans(const CompareModel& model, std::string_view text);

// Ops that a timeline shows in full; others are dimmed.
struct OpFilter {
  std::string name{};                 // displayed name: "backward attention"
  std::optional<OpClass> op_class{};  // nullopt: any
  std::optional<Pass> pass{};         // nullopt: any
  std::string op{};                   // name in Timeline::op_names; empty: any

  bool Takes(const Timeline& timeline, const Span& span) const;
  // Whether a span of this hue may pass, whatever its name. Used for pictures of many spans at
  // once.
  bool MayTake(Hue hue) const;
  bool operator==(const OpFilter&) const = default;

  bool TakesKind(const Span& span) const;  // everything but the name
};

}  // namespace foretrain::ui
