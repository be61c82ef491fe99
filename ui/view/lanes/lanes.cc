// Draws the lanes: their picture, labels and the marks under the mouse.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "ui/view/lanes/gutter.h"
#include "ui/view/panels/panels.h"
#include "ui/view_model/timeline/hover.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

constexpr float kLabelPad = 4.0F;
constexpr float kMinSlot = 7.0F;  // narrower slots have no edge
constexpr float kMinOp = 30.0F;
constexpr float kMaxWait = 2.0F;            // pixels; longer waits split a slot
constexpr std::uint32_t kMaxPieces = 1000;  // spans of a slot that is looked at for waits
constexpr std::size_t kMaxEdges = 2000;     // maximum edges of slots in all lanes together

// Whether the time outside the chosen steps is dimmed.
bool IsDimmedOutside(const Frame& frame) {
  return frame.model.options.alignment == Alignment::kStepStart;
}

// Draws labels and edges of one track. Only the first track of a compute row has slots; others
// label their wide spans.
class LanePainter {
 public:
  LanePainter(const Frame& frame, const TrackRects& track)
      : frame_(frame),
        canvas_(frame.canvas),
        rects_(track),
        predicted_(track.side == Side::kPredicted),
        side_(frame.model.Of(track.side)),
        row_(frame.model.lanes[track.lane].rows[Index(track.side)][track.row]),
        track_(row_.tracks[track.track]) {}

  // Draws edges and labels of slots; wide slots also show their instructions and ops.
  void DrawSlots(float min_width) {
    if (rects_.track != 0 || row_.slots.empty()) return LabelRects();
    const double start = side_.Own(frame_.state.viewport.start_ns);
    const double end = side_.Own(frame_.state.viewport.end_ns);
    auto slot = std::partition_point(row_.slots.begin(), row_.slots.end(), [&](const Slot& s) {
      return static_cast<double>(s.end_ns) <= start;
    });
    for (; slot != row_.slots.end() && static_cast<double>(slot->start_ns) < end; ++slot) {
      const Box box = BoxOfTimes(slot->start_ns, slot->end_ns);
      if (box.Width() >= min_width) DrawSlot(*slot, box);
    }
  }

 private:
  Box BoxOf(double x0, double x1) const {
    const float left = frame_.layout.plot_x0;
    const float from = std::round(left + static_cast<float>(x0));
    const float to = std::max(from + 1.0F, std::round(left + static_cast<float>(x1)));
    return {from, rects_.box.y0, to, rects_.box.y1};
  }

  // Clipped to the plot.
  Box BoxOfTimes(std::int64_t start_ns, std::int64_t end_ns) const {
    const float x0 = frame_.X(side_.Displayed(start_ns));
    const float x1 = frame_.X(side_.Displayed(end_ns));
    return {std::max(frame_.layout.plot_x0, std::round(x0)), rects_.box.y0,
            std::min(frame_.layout.plot_x1, std::round(x1)), rects_.box.y1};
  }

  // Width of the whole range, visible or not.
  float WidthOf(std::int64_t start_ns, std::int64_t end_ns) const {
    return frame_.X(side_.Displayed(end_ns)) - frame_.X(side_.Displayed(start_ns));
  }

  // Decides by the mean width of an instruction, so that the level of detail does not change from
  // slot to slot while zooming.
  void DrawSlot(const Slot& slot, const Box& box) {
    const Colour hue = canvas_.theme.Of(HueOf(track_.SpanAt(slot.first)));
    if (predicted_) {
      canvas_.Outline(box, Faded(hue, 0.75F));
    } else {
      canvas_.Fill({box.x0, box.y0, box.x0 + 1.0F, box.y1}, canvas_.theme.lane);
    }
    const float instruction =
        WidthOf(slot.start_ns, slot.end_ns) / static_cast<float>(slot.instructions);
    const std::string name = InstructionLabel(*side_.run, slot.op);
    const float min = canvas_.WidthOf(canvas_.fonts.small, name) + 2 * canvas_.Px(kLabelPad);
    if (slot.instructions > 1 && instruction >= min) return DrawInstructions(slot);
    Label(WidestPiece(slot, box), SlotLabel(slot.op, /*wide=*/true),
          SlotLabel(slot.op, /*wide=*/false));
  }

  // The longest part of a slot without a visible wait: there the label lies on the slot's colour.
  // The whole slot if it has too many spans to look at each, whose waits are then short.
  Box WidestPiece(const Slot& slot, const Box& box) const {
    if (slot.last - slot.first > kMaxPieces) return box;
    Box widest, piece;
    for (std::uint32_t i = slot.first; i <= slot.last; ++i) {
      const Span& span = track_.SpanAt(i);
      const Box of = BoxOfTimes(span.start_ns, span.end_ns);
      const bool joins = i > slot.first && of.x0 <= piece.x1 + kMaxWait;
      piece = joins ? Box{piece.x0, box.y0, std::max(piece.x1, of.x1), box.y1} : of;
      if (piece.Width() > widest.Width()) widest = piece;
    }
    return widest;
  }

  // Starts at the first visible instruction, then goes back to that instruction's first op.
  void DrawInstructions(const Slot& slot) {
    const auto id_at = [this](std::size_t i) { return InstructionOf(track_.SpanAt(i).op); };
    const double stop = side_.Own(frame_.state.viewport.end_ns);
    std::size_t first = std::max<std::size_t>(
        slot.first, track_.FirstEndingAfter(side_.Own(frame_.state.viewport.start_ns)));
    while (first > slot.first && id_at(first - 1) == id_at(first)) --first;
    while (first <= slot.last && static_cast<double>(track_.SpanAt(first).start_ns) < stop) {
      std::size_t end = first;
      while (end <= slot.last && id_at(end) == id_at(first)) ++end;
      DrawInstruction(first, end);
      first = end;
    }
  }

  // An instruction is labelled as a whole until its ops are wide enough on average for labels of
  // their own.
  void DrawInstruction(std::size_t first, std::size_t end) {
    const Box box = BoxOfTimes(track_.SpanAt(first).start_ns, track_.SpanAt(end - 1).end_ns);
    if (box.IsEmpty()) return;
    if (predicted_) {
      canvas_.Outline(box, Faded(canvas_.theme.Of(HueOf(track_.SpanAt(first))), 0.75F));
    } else {
      canvas_.Fill({box.x0, box.y0, box.x0 + 1.0F, box.y1}, canvas_.theme.lane);
    }
    const float whole = WidthOf(track_.SpanAt(first).start_ns, track_.SpanAt(end - 1).end_ns);
    const float op = whole / static_cast<float>(end - first);
    if (op >= canvas_.Px(kMinOp)) return DrawOpLabels(first, end);
    const std::string text = InstructionLabel(*side_.run, track_.SpanAt(first).op);
    Label(box, SlotLabel(track_.SpanAt(first).op, false) + " " + text, text);
  }

  // Starts at the first visible op and ends at the edge of the view: the cost depends on visible
  // ops only.
  void DrawOpLabels(std::size_t first, std::size_t end) {
    const double start = side_.Own(frame_.state.viewport.start_ns);
    const double stop = side_.Own(frame_.state.viewport.end_ns);
    for (std::size_t i = std::max(first, track_.FirstEndingAfter(start)); i < end; ++i) {
      const Span& span = track_.SpanAt(i);
      if (static_cast<double>(span.start_ns) >= stop) break;
      LabelOp(BoxOfTimes(span.start_ns, span.end_ns), span);
    }
  }

  void LabelRects() {
    for (const SpanRect& rect : rects_.rects) {
      LabelOp(BoxOf(rect.x0, rect.x1), side_.run->timeline.spans[rect.span]);
    }
  }

  // Labels one op if its box is wide enough.
  void LabelOp(const Box& box, const Span& span) {
    if (box.Width() < canvas_.Px(kMinOp)) return;
    Label(box, OpTitle(*side_.run, span.op), {});
  }

  // Draws the first of the two texts that fits; nothing if neither does. Time outside the steps is
  // dimmed, and no label would be readable there.
  void Label(const Box& whole, const std::string& wide, const std::string& narrow) {
    ImFont* const font = canvas_.fonts.small;
    Box box = whole;
    if (IsDimmedOutside(frame_)) {
      box.x0 = std::max(box.x0, frame_.X(frame_.model.extent.start_ns));
      box.x1 = std::min(box.x1, frame_.X(frame_.model.extent.end_ns));
    }
    if (box.Height() < canvas_.HeightOf(font) - canvas_.Px(1)) return;
    const float room = box.Width() - 2 * canvas_.Px(kLabelPad) + canvas_.Px(3);
    const Colour colour = predicted_ ? canvas_.theme.predicted : canvas_.theme.on_span;
    for (const std::string& text : {wide, narrow}) {
      if (text.empty() || canvas_.WidthOf(font, text) > room) continue;
      return canvas_.TextIn(font, box, Align::kCentre, colour, text);
    }
  }

  const Frame& frame_;
  Canvas& canvas_;
  const TrackRects& rects_;
  bool predicted_;
  const SideModel& side_;
  const Row& row_;
  const Track& track_;
};

// Box of a span in its lane; empty if it is not on the screen.
Box BoxOfSpan(const Frame& frame, const LanePictures& pictures, std::size_t lane,
              const SpanRef& ref) {
  const Span& span = frame.model.SpanOf(ref);
  const SideModel& side = frame.model.Of(ref.side);
  for (const TrackRects& at : pictures.tracks) {
    if (at.lane != lane || at.side != ref.side) continue;
    const Track& track = frame.model.lanes[lane].rows[Index(ref.side)][at.row].tracks[at.track];
    const auto found =
        track.Find((static_cast<double>(span.start_ns) + static_cast<double>(span.end_ns)) / 2);
    if (found != ref.span) continue;
    const float x0 = frame.X(side.Displayed(span.start_ns));
    const float x1 = frame.X(side.Displayed(span.end_ns));
    return {std::round(x0), at.box.y0, std::max(std::round(x0) + 2.0F, std::round(x1)), at.box.y1};
  }
  return {};
}

// Outlines a span and its counterpart and connects the two.
void MarkSpan(const Frame& frame, const LanePictures& pictures, std::size_t lane,
              const SpanRef& ref, float strength) {
  Canvas& canvas = frame.canvas;
  const Colour colour = Faded(canvas.theme.accent, strength);
  const Box own = BoxOfSpan(frame, pictures, lane, ref);
  const float thickness = std::max(1.0F, 1.5F * canvas.scale);
  canvas.Outline(own, colour, thickness);
  const auto counterpart = CounterpartOf(frame.model, frame.model.lanes[lane].rank, ref);
  if (!counterpart.has_value() || own.IsEmpty()) return;
  const Box other = BoxOfSpan(frame, pictures, lane, *counterpart);
  if (other.IsEmpty()) return;
  canvas.Outline(other, colour, thickness);
  const Box& above = ref.side == Side::kPredicted ? own : other;
  const Box& below = ref.side == Side::kPredicted ? other : own;
  canvas.Quad({above.x0, above.y1}, {above.x1, above.y1}, {below.x1, below.y0},
              {below.x0, below.y0}, Faded(canvas.theme.accent, 0.16F * strength));
  canvas.Line({above.x0, above.y1}, {below.x0, below.y0}, colour, canvas.scale);
  canvas.Line({above.x1, above.y1}, {below.x1, below.y0}, colour, canvas.scale);
}

// Dims the time outside the chosen steps.
void DrawOutside(const Frame& frame) {
  if (!IsDimmedOutside(frame)) return;
  const Box plot = frame.PlotOf(frame.layout.lanes);
  const Colour veil = Faded(frame.canvas.theme.ground, 0.62F);
  const float start = std::clamp(frame.X(frame.model.extent.start_ns), plot.x0, plot.x1);
  const float end = std::clamp(frame.X(frame.model.extent.end_ns), plot.x0, plot.x1);
  frame.canvas.Fill({plot.x0, plot.y0, start, plot.y1}, veil);
  frame.canvas.Fill({end, plot.y0, plot.x1, plot.y1}, veil);
}

// The bar's height is the visible part of the lanes, its position the scrolled part.
void DrawScrollBar(const Frame& frame) {
  const Layout& layout = frame.layout;
  if (layout.max_scroll <= 0.0F) return;
  const float visible = layout.lanes.Height();
  const float whole = visible + layout.max_scroll;
  const float x0 = layout.plot_x1 + frame.canvas.Px(5);
  const float y0 = layout.lanes.y0 + visible * layout.scroll / whole;
  frame.canvas.Fill({x0, y0, x0 + frame.canvas.Px(5), y0 + visible * visible / whole},
                    frame.canvas.theme.faint, frame.canvas.Px(2));
}

}  // namespace

// The picture lies at the bottom, then labels, marks and the gutter. The minimum width of an edge
// grows with the number of tracks, which bounds the edges drawn.
void DrawLanes(const Frame& frame, const LanePictures& pictures, const Picture& picture) {
  Canvas& canvas = frame.canvas;
  const Box plot = frame.PlotOf(frame.layout.lanes);
  canvas.PushClip(frame.layout.lanes);
  canvas.scrolls = true;
  canvas.Show(picture, plot);
  canvas.PushClip(plot);
  const float edges = static_cast<float>(frame.layout.Columns()) *
                      static_cast<float>(pictures.tracks.size()) / kMaxEdges;
  for (const TrackRects& track : pictures.tracks) {
    LanePainter(frame, track).DrawSlots(std::max(canvas.Px(kMinSlot), edges));
  }
  // Time outside the step is dimmed before marks are drawn, so that marks stay bright.
  DrawOutside(frame);
  const ViewState& state = frame.state;
  if (state.selected.has_value() && state.selected_lane < frame.model.lanes.size()) {
    MarkSpan(frame, pictures, state.selected_lane, *state.selected, 1.0F);
  }
  if (state.hovered.has_value() && state.hovered->span.has_value()) {
    MarkSpan(frame, pictures, state.hovered->lane, *state.hovered->span, 0.8F);
  }
  canvas.PopClip();
  for (const LaneBox& lane : frame.layout.lane_boxes) {
    DrawGutter(frame, lane);
    canvas.Fill({lane.box.x0, lane.box.y1 - 1.0F, lane.box.x1, lane.box.y1}, canvas.theme.line);
  }
  DrawScrollBar(frame);
  canvas.scrolls = false;
  canvas.PopClip();
  canvas.record.spans += pictures.spans;
  canvas.record.folded_columns += pictures.folded_columns;
  canvas.record.visited += pictures.visited;
}

}  // namespace foretrain::ui
