// Draws lines over the lanes: the critical path, which is also described in numbers, and the causes
// of bubbles.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "ui/view/panels/panels.h"

namespace foretrain::ui {
namespace {

constexpr std::size_t kMaxPieces = 1500;
constexpr std::size_t kMaxBubbles = 150;
constexpr float kMinBubble = 46.0F;  // narrower bubbles are not named, in pixels at scale 1

// The first strip of `side` in a lane, which is the compute row's if there is one; null if the lane
// is not visible.
const StripBox* StripOf(const Frame& frame, std::size_t lane, Side side) {
  for (const LaneBox& box : frame.layout.lane_boxes) {
    if (box.lane != lane) continue;
    for (const StripBox& strip : box.strips) {
      if (strip.side == side) return &strip;
    }
  }
  return nullptr;
}

// Consecutive parts of the path on one lane without a visible gap.
struct Piece {
  std::size_t lane = 0;
  float x0 = 0.0F;
  float x1 = 0.0F;
};

// Merges parts that touch on the screen. A detour to another lane that is shorter than a pixel is
// dropped.
std::vector<Piece> PiecesOf(const Frame& frame, const CriticalPath& path) {
  const SideModel& side = frame.model.Of(path.side);
  std::vector<Piece> pieces;
  for (const PathPart& part : path.parts) {
    const float x0 = frame.X(side.Displayed(part.start_ns));
    const float x1 = frame.X(side.Displayed(part.end_ns));
    if (x1 < frame.layout.plot_x0 || x0 > frame.layout.plot_x1) continue;
    const auto lane = LaneOf(frame.model, {path.side, part.span});
    if (!lane.has_value()) continue;
    if (!pieces.empty() && pieces.back().lane == *lane && x0 - pieces.back().x1 <= 1.0F) {
      pieces.back().x1 = std::max(pieces.back().x1, x1);
    } else if (pieces.empty() || x1 - pieces.back().x1 >= 1.0F) {
      pieces.push_back({*lane, x0, x1});  // otherwise shorter than a pixel: invisible
    }
    if (pieces.size() == kMaxPieces) break;
  }
  return pieces;
}

// Name of the largest cause of a wait.
std::string CauseOf(const Wait& wait) {
  struct Cause {
    std::int64_t ns;
    const char* name;
  };
  const std::vector<Cause> causes{
      {wait.classes.compute_ns, "other compute"},
      {wait.classes.exposed_communication_ns, "communication"},
      {wait.classes.exposed_copy_ns, "copy"},
      {wait.idle.dependency_ns, "waits for inputs"},
      {wait.idle.peer_ns, "waits for peers"},
      {wait.idle.host_ns, "waits for the host"},
      {wait.idle.drain_ns, "nothing left"},
  };
  const auto max = std::max_element(causes.begin(), causes.end(),
                                    [](const Cause& a, const Cause& b) { return a.ns < b.ns; });
  return max->ns > 0 ? max->name : "idle";
}

// A bubble is always outlined, and named if the text fits.
void DrawBubble(const Frame& frame, const Box& box, Side side, const Wait& wait) {
  Canvas& canvas = frame.canvas;
  const Colour colour = side == Side::kPredicted ? canvas.theme.faint : canvas.theme.muted;
  canvas.Outline(box, Faded(colour, 0.35F));
  const std::string text = CauseOf(wait);
  ImFont* const font = canvas.fonts.small;
  const bool fits = canvas.WidthOf(font, text) + canvas.Px(8) <= box.Width() &&
                    canvas.HeightOf(font) <= box.Height() + canvas.Px(1);
  if (fits) canvas.TextIn(font, box, Align::kCentre, colour, text);
}

// Names the gaps between slots of the compute row that are wide enough.
void DrawBubblesOf(const Frame& frame, std::size_t lane, const StripBox& strip, std::size_t& left) {
  const SideModel& side = frame.model.Of(strip.side);
  const Row& row = frame.model.lanes[lane].rows[Index(strip.side)][strip.row];
  if (!row.compute || row.tracks.size() != 1) return;
  const Track& track = row.tracks.front();
  const Layout& layout = frame.layout;
  for (std::size_t i = 0; i + 1 < row.slots.size() && left > 0; ++i) {
    const float x0 = frame.X(side.Displayed(row.slots[i].end_ns));
    const float x1 = frame.X(side.Displayed(row.slots[i + 1].start_ns));
    if (x1 - x0 < frame.canvas.Px(kMinBubble)) continue;
    if (x1 < layout.plot_x0 || x0 > layout.plot_x1) continue;
    // A gap between two loaded stretches is no wait: something ran there.
    if (!side.run->IsLoaded(static_cast<double>(row.slots[i].end_ns),
                            static_cast<double>(row.slots[i + 1].start_ns))) {
      continue;
    }
    const auto wait = WaitBefore(frame.model.TimelineOf(strip.side),
                                 track.IndexAt(row.slots[i + 1].first), side.step_start_ns);
    if (!wait.has_value()) continue;
    const Box box{std::max(layout.plot_x0, std::round(x0) + 1.0F), strip.box.y0 + 1.0F,
                  std::min(layout.plot_x1, std::round(x1) - 1.0F), strip.box.y1 - 1.0F};
    DrawBubble(frame, box, strip.side, *wait);
    --left;
  }
}

}  // namespace

// Pieces on hidden lanes interrupt the line, since there is nothing to connect them with.
void DrawPath(const Frame& frame, const CriticalPath& path) {
  Canvas& canvas = frame.canvas;
  canvas.PushClip(frame.PlotOf(frame.layout.lanes));
  const float thick = std::max(2.0F, canvas.Px(2));
  std::optional<Point> before;
  for (const Piece& piece : PiecesOf(frame, path)) {
    const StripBox* const strip = StripOf(frame, piece.lane, path.side);
    if (strip == nullptr) {
      before.reset();
      continue;
    }
    const float y = strip->box.y0 + thick;
    if (before.has_value()) {
      canvas.Line(*before, {piece.x0, y}, Faded(canvas.theme.accent, 0.6F), canvas.scale);
    }
    canvas.Fill({piece.x0, y - thick / 2, std::max(piece.x0 + 1.0F, piece.x1), y + thick / 2},
                canvas.theme.accent);
    before = Point{piece.x1, y};
  }
  canvas.PopClip();
}

// The number of named bubbles is limited over all lanes, because each needs the causes of a wait.
void DrawBubbles(const Frame& frame) {
  frame.canvas.PushClip(frame.PlotOf(frame.layout.lanes));
  frame.canvas.scrolls = true;
  std::size_t left = kMaxBubbles;
  for (const LaneBox& lane : frame.layout.lane_boxes) {
    for (const StripBox& strip : lane.strips) DrawBubblesOf(frame, lane.lane, strip, left);
  }
  frame.canvas.scrolls = false;
  frame.canvas.PopClip();
}

// Percentages refer to the length of the path.
std::string DescribePath(const CriticalPath& path, const SideNames& names) {
  const auto share = [&path](std::int64_t ns) {
    const std::int64_t whole = std::max<std::int64_t>(1, path.LengthNs());
    return FormatPercent(static_cast<double>(ns) / static_cast<double>(whole));
  };
  std::string text =
      fmt::format("{} critical path {}: compute {}, communication {}", names[Index(path.side)],
                  FormatSeconds(SecondsFromNs(path.LengthNs())), share(path.compute_ns),
                  share(path.communication_ns));
  if (path.other_ns > 0) text += ", copies " + share(path.other_ns);
  return text + ", waits " + share(path.wait_ns);
}

}  // namespace foretrain::ui
