// Where the desktop is and where it goes next: the view, the rank and step to show, the visible
// stretch of time, and the panel that opens stores.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ui/view_model/timeline/viewport.h"

namespace foretrain::ui {

// A rank in a step of the measured run, or of the forecast if there is no measured run.
struct RankPlace {
  int rank = 0;
  std::int32_t step = 0;
};

// Invariant: a request for a view or a place is taken once; the last one wins.
class Navigation {
 public:
  // Shows the view `name` from the next frame on. A name without a view is ignored.
  void GoTo(std::string_view name) { view_ = std::string(name); }
  // The same for the compare view, at a rank and step.
  void GoTo(RankPlace place) {
    place_ = place;
    GoTo("compare");
  }
  std::optional<std::string> TakeView() { return std::exchange(view_, std::nullopt); }
  const std::optional<RankPlace>& place() const { return place_; }
  void Arrive() { place_.reset(); }

  // Whether the panel that opens stores covers the view.
  bool shows_stores() const { return shows_stores_; }
  void ShowStores(bool shows) { shows_stores_ = shows; }

  // The visible part of the compare view's timeline; `nullopt` until it was shown.
  const std::optional<Viewport>& viewport() const { return viewport_; }
  void LookAt(const Viewport& viewport) { viewport_ = viewport; }

 private:
  std::optional<std::string> view_;
  std::optional<RankPlace> place_;
  bool shows_stores_ = false;
  std::optional<Viewport> viewport_;
};

}  // namespace foretrain::ui
