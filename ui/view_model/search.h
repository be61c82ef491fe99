// Spans by name, and spans by class. Leaves out drawing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ui/view_model/compare_model.h"

namespace foretrain::ui {

// Spans of the chosen step of the shown run (the measured one where there is one) whose name, block,
// pass, class or kind contains every word of `text`, in any case; by time; of a long run, those in
// memory. At most kMostFound.
// "mlp 12" finds mlp.up of layer 12. O(n).
inline constexpr std::size_t kMostFound = 10'000;
std::vector<SpanRef> FindSpans(const CompareModel& model, std::string_view text);

// Ops that a timeline shows in full while others step back.
struct OpFilter {
  std::string name{};                 // as shown: "backward attention"
  std::optional<OpClass> op_class{};  // empty: any
  std::optional<Pass> pass{};         // empty: any
  std::string op{};                   // name in Timeline::op_names; empty: any

  bool Takes(const Timeline& timeline, const Span& span) const;
  // Whether a span of this hue may pass, whatever its name: for pictures of many spans at once.
  bool MayTake(Hue hue) const;
  bool operator==(const OpFilter&) const = default;

  bool TakesKind(const Span& span) const;  // all but the name
};

}  // namespace foretrain::ui
