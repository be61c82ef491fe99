// The range of time on the screen, and how it moves.
#pragma once

namespace foretrain::ui {

// [start_ns, end_ns) of displayed time over a plot of some width in pixels. Doubles, because a view
// may start between nanoseconds; times up to 2^53 ns (104 days) are exact.
struct Viewport {
  double start_ns = 0.0;
  double end_ns = 1.0;  // > start_ns

  double LengthNs() const { return end_ns - start_ns; }
  double ToX(double time_ns, double width) const {
    return (time_ns - start_ns) / (end_ns - start_ns) * width;
  }
  double ToTime(double x, double width) const { return start_ns + x / width * (end_ns - start_ns); }
  bool operator==(const Viewport&) const = default;
};

// Limits of a view's length: at least kShortestViewNs, at most kMaxLengths times the extent.
inline constexpr double kShortestViewNs = 20.0;
inline constexpr double kMaxLengths = 20.0;

// Range of the data; zoom and pan keep part of it on the screen.
struct Extent {
  double start_ns = 0.0;
  double end_ns = 0.0;  // >= start_ns; equal if there is no data
};

// `view` zoomed by `notches` of the wheel, in (> 0) or out (< 0), with the time `at_ns` in place:
// factor 1.25 per notch. A notch that would exceed a limit is ignored, so that as many notches back
// restore the view up to rounding.
Viewport Zoomed(const Viewport& view, double at_ns, double notches, const Extent& extent);

// `view` moved by `by_ns` to later times, limited so that part of the extent stays on the screen.
Viewport Panned(const Viewport& view, double by_ns, const Extent& extent);

// All of `extent` with a margin of 1.5 % at both ends. An empty extent gives one microsecond.
Viewport Fitted(const Extent& extent);

// [start_ns, end_ns) in the middle fifth of the screen, within the limits.
Viewport Around(double start_ns, double end_ns, const Extent& extent);

}  // namespace foretrain::ui
