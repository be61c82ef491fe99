// State of the panel under the lanes, which Compare and Time share: what it lists, and what Compare
// has selected and measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "traces/metrics/range/range_sums.h"
#include "ui/view_model/timeline/interaction.h"

namespace foretrain::ui {

enum class DockTab : std::uint8_t { kSelection, kRange, kSearch, kPlay };
inline constexpr int kDockTabCount = 4;

struct DockState {
  DockTab tab = DockTab::kSelection;
  bool open = false;
  bool hidden = false;         // the user closed it, so it does not open by itself
  float height = 200.0F;       // when open, at scale 1
  SumBy by = SumBy::kOp;       // rows of the range's table
  std::optional<Side> side{};  // whose spans are summed; default: the shown run's
  std::optional<int> rank{};   // of that run; default: all
  std::string search{};

  // Compare's selection and measured range, for other views. They belong to this model's number.
  std::uint64_t model_number = 0;
  std::optional<SpanRef> selected{};
  std::size_t selected_lane = 0;
  std::optional<Measure> measure{};

  // A span that Compare shows next.
  std::optional<SpanRef> go_to{};

  // Opens the panel at `shown`, unless the user has closed it.
  void Suggest(DockTab shown) {
    tab = shown;
    if (!hidden) open = true;
  }
  void Open(DockTab shown) {
    tab = shown;
    open = true;
    hidden = false;
  }
  void Hide() {
    open = false;
    hidden = true;
  }
};

}  // namespace foretrain::ui
