#include "ui/view/lanes/overview.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ui/view_model/runs/long_runs.h"

namespace foretrain::ui {
namespace {

constexpr float kPad = 3.0F;       // above and below the lines
constexpr float kComputes = 0.2F;  // share of a column from which it has the colour of its compute

// Shares of one kind of rows of a lane. No span is drawn by itself.
std::vector<HueShares> SharesOf(const SideModel& side, const std::vector<Row>& rows, bool compute,
                                const TrackWindow& window) {
  std::vector<HueShares> shares(static_cast<std::size_t>(window.columns));
  const auto add = [&shares](const std::vector<HueShares>& from) {
    for (std::size_t c = 0; c < std::min(from.size(), shares.size()); ++c) {
      for (std::size_t hue = 0; hue < kHueCount; ++hue) shares[c][hue] += from[c][hue];
    }
  };
  for (const Row& row : rows) {
    if (row.compute != compute) continue;
    add(FoldSums(*side.run, row, window));
    for (const Track& track : row.tracks) add(track.Fold(window, window.columns + 1.0).columns);
  }
  return shares;
}

float SumOf(const HueShares& shares) {
  return std::min(1.0F, std::accumulate(shares.begin(), shares.end(), 0.0F));
}

Box LinesOf(const Frame& frame) {
  const Box& box = frame.layout.overview;
  const float pad = frame.canvas.Px(kPad);
  return {frame.layout.plot_x0, box.y0 + pad, frame.layout.plot_x1, box.y1 - pad};
}

}  // namespace

Image MakeOverview(const CompareModel& model, const Layout& layout, const Theme& theme) {
  Image image;
  const int height =
      static_cast<int>(layout.overview.Height() - 2 * std::round(kPad * layout.scale));
  const Side of = model.Shown();
  if (layout.list == nullptr || layout.list->rows.empty() || height <= 0 || layout.Columns() == 0 ||
      !model.Of(of).IsPresent() || !(model.extent.end_ns > model.extent.start_ns)) {
    return image;
  }
  image.Resize(layout.Columns(), height, theme.lane);
  const std::size_t shown = layout.list->rows.size();
  const std::size_t lines = std::min(shown, static_cast<std::size_t>(height));
  for (std::size_t line = 0; line < lines; ++line) {
    const Lane& lane = model.lanes[layout.list->rows[line * shown / lines].lane];
    const auto edge = [&](std::size_t at) {
      return static_cast<int>(at * static_cast<std::size_t>(height) / lines);
    };
    const SideModel& side = model.Of(of);
    const TrackWindow window{side.Own(model.extent.start_ns), side.Own(model.extent.end_ns),
                             layout.Columns()};
    const std::vector<HueShares> compute = SharesOf(side, lane.rows[Index(of)], true, window);
    const std::vector<HueShares> moves = SharesOf(side, lane.rows[Index(of)], false, window);
    for (std::size_t c = 0; c < compute.size(); ++c) {
      const HueShares& shares = SumOf(compute[c]) >= kComputes ? compute[c] : moves[c];
      const float busy = SumOf(shares);
      if (busy < 0.02F) continue;
      const auto hue =
          static_cast<Hue>(std::max_element(shares.begin(), shares.end()) - shares.begin());
      image.Fill(static_cast<int>(c), edge(line), edge(line + 1),
                 Mixed(theme.lane, theme.Of(hue), 0.2F + 0.8F * busy));
    }
  }
  return image;
}

void DrawOverview(const Frame& frame, const Picture& picture) {
  Canvas& canvas = frame.canvas;
  if (frame.layout.overview.IsEmpty()) return;
  canvas.Fill(frame.layout.overview, canvas.theme.ground);
  const Box lines = LinesOf(frame);
  canvas.Show(picture, lines);
  const Extent& extent = frame.model.extent;
  const double whole = extent.end_ns - extent.start_ns;
  if (!(whole > 0.0)) return;
  const auto x_of = [&](double time_ns) {
    const double share = std::clamp((time_ns - extent.start_ns) / whole, 0.0, 1.0);
    return std::round(lines.x0 + static_cast<float>(share) * lines.Width());
  };
  const float from = x_of(frame.state.viewport.start_ns);
  const float to = std::max(from + 2.0F, x_of(frame.state.viewport.end_ns));
  const Colour veil = Faded(canvas.theme.ground, 0.66F);
  canvas.Fill({lines.x0, lines.y0, from, lines.y1}, veil);
  canvas.Fill({to, lines.y0, lines.x1, lines.y1}, veil);
  canvas.Outline({from, lines.y0 - 1.0F, to, lines.y1 + 1.0F}, canvas.theme.muted);
}

}  // namespace foretrain::ui
