// The stretch of time on the screen, and how it is moved. Leaves out pixels of anything but the
// time axis (ui/view_model/layout.h).
#pragma once

namespace foretrain::ui {

// [start_ns, end_ns) of displayed time over a plot of some width in pixels. Doubles, since a view
// lies between nanoseconds; times up to 2^53 ns (104 days) keep their nanosecond.
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

// A view is never shorter than this, nor longer than kMostLengths times what there is to see.
inline constexpr double kShortestViewNs = 20.0;
inline constexpr double kMostLengths = 20.0;

// What there is to see: zoom and pan keep some of it on the screen.
struct Extent {
  double start_ns = 0.0;
  double end_ns = 0.0;  // >= start_ns; equal where there is nothing
};

// `view` with the time at `at_ns` kept where it is and `notches` turns of the wheel nearer (> 0) or
// farther (< 0): 1.25 times a notch. A notch that would pass a limit is not taken at all, so that
// as many notches back restore the view but for rounding.
Viewport Zoomed(const Viewport& view, double at_ns, double notches, const Extent& extent);

// `view` moved by `by_ns` to later times, held so that part of the extent stays on the screen.
Viewport Panned(const Viewport& view, double by_ns, const Extent& extent);

// All of `extent` with a margin of 1.5 % at both ends. An empty extent gives one microsecond.
Viewport Fitted(const Extent& extent);

// [start_ns, end_ns) in the middle fifth of the screen, held to the limits.
Viewport Around(double start_ns, double end_ns, const Extent& extent);

}  // namespace foretrain::ui
