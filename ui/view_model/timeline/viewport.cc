#include "ui/view_model/timeline/viewport.h"

#include <algorithm>
#include <cmath>

namespace foretrain::ui {
namespace {

constexpr double kNotch = 1.25;
constexpr double kMargin = 0.015;
constexpr double kSpanShare = 0.2;

// Maximum length of a view; at least 1 us for empty or very short data.
double LongestView(const Extent& extent) {
  return std::max(1000.0, kMaxLengths * (extent.end_ns - extent.start_ns));
}

}  // namespace

// The time under the mouse stays in place. A notch beyond the limits is refused as a whole;
// clamping it would make zooming irreversible.
Viewport Zoomed(const Viewport& view, double at_ns, double notches, const Extent& extent) {
  const double factor = std::pow(kNotch, -notches);
  const double length = view.LengthNs() * factor;
  const bool passes_limit =
      (notches > 0 && length < kShortestViewNs) || (notches < 0 && length > LongestView(extent));
  if (passes_limit || !std::isfinite(length)) return view;
  const double before = (at_ns - view.start_ns) * factor;
  return {at_ns - before, at_ns - before + length};
}

Viewport Panned(const Viewport& view, double by_ns, const Extent& extent) {
  const double length = view.LengthNs();
  const double edge = 0.1 * length;
  const double lowest = extent.start_ns - length + edge;
  const double highest = extent.end_ns - edge;
  // A view that already lies outside may come back but not move further out.
  const double start = std::clamp(view.start_ns + by_ns, std::min(lowest, view.start_ns),
                                  std::max(highest, view.start_ns));
  return {start, start + length};
}

// Short data gets a wider margin, so that the view never falls below its minimum length.
Viewport Fitted(const Extent& extent) {
  const double length = extent.end_ns - extent.start_ns;
  if (!(length > 0.0)) return {extent.start_ns - 500.0, extent.start_ns + 500.0};
  const double margin = std::max(kMargin * length, (kShortestViewNs - length) / 2);
  return {extent.start_ns - margin, extent.end_ns + margin};
}

Viewport Around(double start_ns, double end_ns, const Extent& extent) {
  const double length =
      std::clamp((end_ns - start_ns) / kSpanShare, kShortestViewNs, LongestView(extent));
  const double middle = (start_ns + end_ns) / 2;
  return {middle - length / 2, middle + length / 2};
}

}  // namespace foretrain::ui
