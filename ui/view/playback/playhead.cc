#include "ui/view/playback/playhead.h"

#include <algorithm>
#include <cmath>

namespace foretrain::ui {
namespace {

constexpr double kHalfNs = 0.5;  // times of spans are whole nanoseconds

// Outlines the spans of one track that cover or touch the moment.
void MarkTrack(const Frame& frame, const SideModel& side, const Track& track, const Box& box,
               double own_ns) {
  Canvas& canvas = frame.canvas;
  for (std::size_t i = track.FirstEndingAfter(own_ns - kHalfNs); i < track.size(); ++i) {
    const Span& span = track.SpanAt(i);
    const auto start = static_cast<double>(span.start_ns), end = static_cast<double>(span.end_ns);
    if (start > own_ns + kHalfNs) return;
    const bool now = start >= own_ns - kHalfNs || end <= own_ns + kHalfNs;
    Box of{frame.X(side.Displayed(span.start_ns)), box.y0, frame.X(side.Displayed(span.end_ns)),
           box.y1};
    of.x0 = std::max(frame.layout.plot_x0, std::round(of.x0));
    of.x1 = std::min(frame.layout.plot_x1, std::max(of.x0 + 2.0F, std::round(of.x1)));
    if (of.x1 <= of.x0) continue;
    canvas.Outline(of, canvas.theme.text, now ? canvas.Px(3) : 1.0F);
  }
}

}  // namespace

void DrawPlayhead(const Frame& frame, const Playback& play) {
  if (!play.on) return;
  const Side at = SideOf(frame.model, play);
  const SideModel& side = frame.model.Of(at);
  if (!side.IsPresent()) return;
  Canvas& canvas = frame.canvas;
  const double own_ns = side.Own(play.at_ns);
  canvas.PushClip(frame.PlotOf(frame.layout.lanes));
  for (const LaneBox& lane : frame.layout.lane_boxes) {
    const Lane& of = frame.model.lanes[lane.lane];
    if (play.rank.has_value() && of.rank != *play.rank) continue;
    for (const StripBox& strip : lane.strips) {
      if (strip.side != at) continue;
      const Row& row = of.rows[Index(at)][strip.row];
      for (std::size_t t = 0; t < row.tracks.size(); ++t) {
        MarkTrack(frame, side, row.tracks[t], TrackBox(strip.box, t, row.tracks.size()), own_ns);
      }
    }
  }
  canvas.PopClip();
  const float x = std::round(frame.X(play.at_ns));
  if (x < frame.layout.plot_x0 || x > frame.layout.plot_x1) return;
  const float bottom =
      frame.layout.memory.IsEmpty() ? frame.layout.lanes.y1 : frame.layout.memory.y1;
  canvas.DashedLine({x + 0.5F, frame.layout.lanes.y0}, {x + 0.5F, bottom}, canvas.theme.text,
                    canvas.Px(4));
  // A handle on the axis, so that the line is not taken for another.
  const float top = frame.layout.lanes.y0, size = canvas.Px(6);
  canvas.Quad({x - size, top - size}, {x + size, top - size}, {x, top}, {x, top},
              canvas.theme.text);
}

}  // namespace foretrain::ui
