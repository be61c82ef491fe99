#include "ui/view/lane_pictures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "ui/view_model/long_runs.h"

namespace foretrain::ui {
namespace {

constexpr float kLeastError = 0.02F;  // an op within 2 % of its forecast is on the mark
constexpr float kFullError = 0.35F;   // drawn at full strength from here on

TrackWindow WindowOf(const SideModel& side, const Viewport& viewport, int columns) {
  return {side.Own(viewport.start_ns), side.Own(viewport.end_ns), columns};
}

const Row& RowOf(const CompareModel& model, const LaneBox& lane, const StripBox& strip) {
  return model.lanes[lane.lane].rows[Index(strip.side)][strip.row];
}

std::size_t CountTracks(const CompareModel& model, const Layout& layout) {
  std::size_t tracks = 0;
  for (const LaneBox& lane : layout.lane_boxes) {
    for (const StripBox& strip : lane.strips) tracks += RowOf(model, lane, strip).tracks.size();
  }
  return tracks;
}

// Launch gaps of a few percent would fray the edge of a busy strip.
constexpr float kFullColumn = 0.95F;

using HueColours = std::array<Colour, kHueCount>;

HueColours ColoursOf(const Theme& theme, Side side, const OpFilter* filter) {
  HueColours colours = theme.hues;
  if (side == Side::kPredicted) {
    for (std::size_t hue = 0; hue < kHueCount; ++hue) {
      colours[hue] = theme.Tinted(static_cast<Hue>(hue));
    }
  }
  for (std::size_t hue = 0; filter != nullptr && hue < kHueCount; ++hue) {
    if (filter->MayTake(static_cast<Hue>(hue))) continue;
    colours[hue] = Mixed(theme.ground, colours[hue], kDimmed);
  }
  return colours;
}

// Stacks the shares of one column from the bottom of [y0, y1) up.
void PaintColumn(const HueShares& shares, const HueColours& colours, int x, int y0, int y1,
                 Image& image) {
  const auto height = static_cast<float>(y1 - y0);
  const float total = std::accumulate(shares.begin(), shares.end(), 0.0F);
  const float stretch = total > kFullColumn ? 1.0F / total : 1.0F;
  float sum = 0.0F;
  int bottom = y1;
  std::size_t largest = 0;
  for (std::size_t hue = 0; hue < kHueCount; ++hue) {
    if (shares[hue] <= 0.0F) continue;
    if (shares[hue] > shares[largest]) largest = hue;
    sum = std::min(1.0F, sum + stretch * shares[hue]);
    const int top = y1 - static_cast<int>(std::lround(sum * height));
    image.Fill(x, top, bottom, colours[hue]);
    bottom = std::min(bottom, top);
  }
  // Something ran here: it is seen.
  if (sum > 0.0F && bottom == y1) image.Fill(x, y1 - 1, y1, colours[largest]);
}

class Painter {
 public:
  Painter(const CompareModel& model, const Layout& layout, const Viewport& viewport,
          const Theme& theme, const OpFilter* filter, LanePictures& pictures)
      : model_(model),
        layout_(layout),
        viewport_(viewport),
        colours_{ColoursOf(theme, Side::kPredicted, filter),
                 ColoursOf(theme, Side::kMeasured, filter)},
        theme_(theme),
        pictures_(pictures),
        least_columns_(LeastColumns(layout.Columns(), CountTracks(model, layout), kMostSpans)) {}

  void PaintStrip(const LaneBox& lane, const StripBox& strip) {
    const Row& row = RowOf(model_, lane, strip);
    const std::vector<Track>& tracks = row.tracks;
    const TrackWindow window = WindowOf(model_.Of(strip.side), viewport_, layout_.Columns());
    PaintColumns(FoldSums(*model_.Of(strip.side).run, row, window), colours_[Index(strip.side)],
                 strip.box);
    for (std::size_t t = 0; t < tracks.size(); ++t) {
      const Box box = TrackBox(strip.box, t, tracks.size());
      if (box.y1 <= layout_.lanes.y0 || box.y0 >= layout_.lanes.y1) continue;
      TrackPicture picture = tracks[t].Fold(window, least_columns_);
      pictures_.visited += picture.visited;
      pictures_.spans += picture.rects.size();
      PaintColumns(picture.columns, colours_[Index(strip.side)], box);
      pictures_.tracks.push_back(
          {lane.lane, strip.side, strip.row, t, box, std::move(picture.rects)});
    }
  }

  // The errors of all rows of the lane together, the compute row's where it has any in a column.
  void PaintErrors(const LaneBox& lane) {
    if (lane.error.IsEmpty()) return;
    const int y0 = ImageY(lane.error.y0), y1 = ImageY(lane.error.y1);
    const TrackWindow window = WindowOf(model_.Of(Side::kMeasured), viewport_, layout_.Columns());
    std::vector<ErrorColumn> shown(static_cast<std::size_t>(layout_.Columns()));
    for (const Row& row : model_.lanes[lane.lane].rows[Index(Side::kMeasured)]) {
      for (const Track& track : row.tracks) AddErrors(track.FoldErrors(window), shown);
    }
    for (std::size_t c = 0; c < shown.size(); ++c) {
      const Colour colour = ErrorColour(shown[c]);
      if (colour != 0) pictures_.image.Fill(static_cast<int>(c), y0, y1, colour);
    }
  }

 private:
  int ImageY(float y) const { return static_cast<int>(std::lround(y - layout_.lanes.y0)); }

  void PaintColumns(const std::vector<HueShares>& columns, const HueColours& colours,
                    const Box& box) {
    const int y0 = ImageY(box.y0), y1 = ImageY(box.y1);
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const bool empty = std::all_of(columns[c].begin(), columns[c].end(),
                                     [](float share) { return share <= 0.0F; });
      if (empty) continue;
      ++pictures_.folded_columns;
      PaintColumn(columns[c], colours, static_cast<int>(c), y0, y1, pictures_.image);
    }
  }

  static void AddErrors(const std::vector<ErrorColumn>& from, std::vector<ErrorColumn>& to) {
    for (std::size_t c = 0; c < from.size(); ++c) {
      if (to[c].paired_ns + to[c].unpaired_ns > 0.0F) continue;
      to[c] = from[c];
    }
  }

  Colour ErrorColour(const ErrorColumn& error) const {
    if (error.unpaired_ns > error.paired_ns) return theme_.faint;
    if (error.paired_ns <= 0.0F) return 0;
    const float relative = error.Relative();
    const float size = std::abs(relative);
    if (size < kLeastError) return theme_.line;
    const float strength = 0.28F + 0.72F * std::min(1.0F, size / kFullError);
    return Mixed(theme_.lane, relative > 0.0F ? theme_.more : theme_.less, strength);
  }

  const CompareModel& model_;
  const Layout& layout_;
  const Viewport& viewport_;
  std::array<HueColours, 2> colours_;  // [side]
  const Theme& theme_;
  LanePictures& pictures_;
  double least_columns_;
};

}  // namespace

LanePictures MakeLanePictures(const CompareModel& model, const Layout& layout,
                              const Viewport& viewport, const Theme& theme,
                              const OpFilter* filter) {
  LanePictures pictures;
  if (layout.Columns() == 0 || layout.lanes.IsEmpty()) return pictures;
  pictures.image.Resize(layout.Columns(), static_cast<int>(layout.lanes.Height()));
  Painter painter(model, layout, viewport, theme, filter, pictures);
  for (const LaneBox& lane : layout.lane_boxes) {
    for (const StripBox& strip : lane.strips) painter.PaintStrip(lane, strip);
    painter.PaintErrors(lane);
  }
  return pictures;
}

}  // namespace foretrain::ui
