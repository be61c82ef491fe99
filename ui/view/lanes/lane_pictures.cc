#include "ui/view/lanes/lane_pictures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/parallel.h"
#include "ui/view_model/panels/counter_rows.h"
#include "ui/view_model/runs/long_runs.h"

namespace foretrain::ui {
namespace {

constexpr float kMinError = 0.02F;   // relative errors below this are drawn as exact
constexpr float kFullError = 0.35F;  // relative error that is drawn at full strength
constexpr int kThreads = 4;
constexpr float kMinEdge = 10.0F;  // narrower spans have no edge, in pixels at scale 1

TrackWindow WindowOf(const SideModel& side, const Viewport& viewport, int columns) {
  return {side.Own(viewport.start_ns), side.Own(viewport.end_ns), columns};
}

const Row& RowOf(const CompareModel& model, const LaneBox& lane, const StripBox& strip) {
  return model.lanes[lane.lane].rows[Index(strip.side)][strip.row];
}

// Visible tracks; the limit on single spans is shared among them.
std::size_t CountTracks(const CompareModel& model, const Layout& layout) {
  std::size_t tracks = 0;
  for (const LaneBox& lane : layout.lane_boxes) {
    for (const StripBox& strip : lane.strips) tracks += RowOf(model, lane, strip).tracks.size();
  }
  return tracks;
}

// A column this busy is drawn full: launch gaps of a few percent would fray the edge of a busy
// strip.
constexpr float kFullColumn = 0.95F;

using HueColours = std::array<Colour, kHueCount>;

// Colours of the hues: tinted for the forecast, dimmed if the filter excludes them.
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

// Stacks the shares of one column from the bottom of [y0, y1) upwards. Returns whether there are
// any.
bool PaintColumn(const HueShares& shares, const HueColours& colours, int x, int y0, int y1,
                 Image& image) {
  const float total = std::accumulate(shares.begin(), shares.end(), 0.0F);
  if (total <= 0.0F) return false;
  const auto height = static_cast<float>(y1 - y0);
  const float stretch = total > kFullColumn ? 1.0F / total : 1.0F;
  float sum = 0.0F;
  int bottom = y1;
  std::size_t largest = 0;
  for (std::size_t hue = 0; hue < kHueCount; ++hue) {
    if (shares[hue] <= 0.0F) continue;
    if (shares[hue] > shares[largest]) largest = hue;
    sum = std::min(1.0F, sum + stretch * shares[hue]);
    const int top = y1 - static_cast<int>(sum * height + 0.5F);
    image.Fill(x, top, bottom, colours[hue]);
    bottom = std::min(bottom, top);
  }
  // Even the smallest share shows as one pixel.
  if (bottom == y1) image.Fill(x, y1 - 1, y1, colours[largest]);
  return true;
}

// The result of painting one lane, apart from pixels.
struct LanePart {
  std::vector<TrackRects> tracks;
  std::vector<ErrorColumn> errors;  // empty if the lane has no error line
  std::size_t folded_columns = 0;
  std::size_t visited = 0;
};

// Paints lanes into one image. Each lane writes only its own rows of pixels, so lanes can be
// painted in parallel.
class Painter {
 public:
  Painter(const CompareModel& model, const Layout& layout, const Viewport& viewport,
          const Theme& theme, const OpFilter* filter, Image& image)
      : model_(model),
        layout_(layout),
        viewport_(viewport),
        filter_(filter),
        colours_{ColoursOf(theme, Side::kPredicted, filter),
                 ColoursOf(theme, Side::kMeasured, filter)},
        theme_(theme),
        image_(image),
        edge_(static_cast<int>(std::lround(kMinEdge * layout.scale))),
        min_columns_(MinColumns(layout.Columns(), CountTracks(model, layout), kMaxSpans)) {}

  // Ticks of the time axis, below all spans.
  void PaintGrid() {
    const int height = image_.height;
    for (const Tick& tick : AxisTicks(layout_, viewport_)) {
      const double x = viewport_.ToX(tick.value, layout_.plot_x1 - layout_.plot_x0);
      image_.Fill(static_cast<int>(std::lround(x)), 0, height, theme_.grid);
    }
  }

  // Lanes do not overlap and may be painted in parallel.
  LanePart PaintLane(const LaneBox& lane) {
    LanePart part;
    if (!lane.error.IsEmpty()) part.errors.resize(static_cast<std::size_t>(layout_.Columns()));
    for (const StripBox& strip : lane.strips) PaintStrip(lane, strip, part);
    PaintErrors(lane, part.errors);
    for (const CounterBox& counter : lane.counters) PaintCounter(lane, counter);
    return part;
  }

 private:
  // Columns of class shares come first and single spans over them. Hidden strips are skipped,
  // unless their errors count for the lane's error line.
  void PaintStrip(const LaneBox& lane, const StripBox& strip, LanePart& part) {
    const Row& row = RowOf(model_, lane, strip);
    const std::vector<Track>& tracks = row.tracks;
    const TrackWindow window = WindowOf(model_.Of(strip.side), viewport_, layout_.Columns());
    PaintColumns(FoldSums(*model_.Of(strip.side).run, row, window), colours_[Index(strip.side)],
                 strip.box, part);
    for (std::size_t t = 0; t < tracks.size(); ++t) {
      const Box box = TrackBox(strip.box, t, tracks.size());
      const bool hidden = box.y1 <= layout_.lanes.y0 || box.y0 >= layout_.lanes.y1;
      const bool has_errors = strip.side == Side::kMeasured && !part.errors.empty();
      if (hidden && !has_errors) continue;
      TrackPicture picture = tracks[t].Fold(window, min_columns_);
      part.visited += picture.visited;
      PaintColumns(picture.columns, colours_[Index(strip.side)], box, part);
      for (const SpanRect& rect : picture.rects) PaintSpan(strip.side, rect, box);
      if (has_errors) AddErrors(picture.errors, part.errors);
      part.tracks.push_back({lane.lane, strip.side, strip.row, t, box, std::move(picture.rects)});
    }
  }

  // One pixel column of the error line for each column of the plot.
  void PaintErrors(const LaneBox& lane, const std::vector<ErrorColumn>& errors) {
    const int y0 = ImageY(lane.error.y0), y1 = ImageY(lane.error.y1);
    for (std::size_t c = 0; c < errors.size(); ++c) {
      const Colour colour = ErrorColour(errors[c]);
      if (colour != 0) image_.Fill(static_cast<int>(c), y0, y1, colour);
    }
  }

  // Filled up to the lowest value of each column, and paler from there to the highest. A line at
  // the bottom shows where there are no readings.
  void PaintCounter(const LaneBox& lane, const CounterBox& at) {
    const GpuCounter& counter = *model_.lanes[lane.lane].counters[at.counter];
    const int y0 = ImageY(at.box.y0), y1 = ImageY(at.box.y1);
    if (y1 <= 0 || y0 >= image_.height) return;
    image_.FillBox(0, y1 - 1, image_.width, y1, theme_.line);
    const SideModel& side = model_.Of(model_.Shown());
    const std::vector<CounterColumn> columns = FoldCounter(
        counter, side.Own(viewport_.start_ns), side.Own(viewport_.end_ns), layout_.Columns());
    const double top = TopOf(counter);
    const auto y_of = [&](double value) {
      const double share = std::clamp(value / top, 0.0, 1.0);
      return y1 - static_cast<int>(std::lround(share * (y1 - y0)));
    };
    for (std::size_t c = 0; c < columns.size(); ++c) {
      if (columns[c].IsEmpty()) continue;
      const int high = y_of(columns[c].high), low = y_of(columns[c].low);
      image_.Fill(static_cast<int>(c), high, low, Mixed(theme_.ground, theme_.muted, 0.22F));
      image_.Fill(static_cast<int>(c), low, y1, Mixed(theme_.ground, theme_.muted, 0.42F));
    }
  }

  // A span that the filter excludes is dimmed. Wide spans get an edge, so that neighbours of one
  // hue can be told apart.
  void PaintSpan(Side side, const SpanRect& rect, const Box& box) {
    const Timeline& timeline = model_.TimelineOf(side);
    const Span& span = timeline.spans[rect.span];
    const Hue hue = HueOf(span);
    const int x0 = static_cast<int>(std::lround(rect.x0));
    const int x1 = std::max(x0 + 1, static_cast<int>(std::lround(rect.x1)));
    const int y0 = ImageY(box.y0), y1 = ImageY(box.y1);
    const bool predicted = side == Side::kPredicted;
    if (filter_ != nullptr && !filter_->Takes(timeline, span)) {
      const Colour colour = predicted ? theme_.Tinted(hue) : theme_.Of(hue);
      return image_.FillBox(x0, y0, x1, y1, Mixed(theme_.ground, colour, kDimmed));
    }
    const Colour colour = predicted ? theme_.Tinted(hue) : ShadeOf(span, hue);
    image_.FillBox(x0, y0, x1, y1, colour);
    if (x1 - x0 < edge_) return;
    if (predicted) return Frame({x0, y0, x1, y1}, Mixed(colour, theme_.Of(hue), 0.55F));
    image_.Fill(x1 - 1, y0, y1, Mixed(colour, theme_.ground, 0.45F));
  }

  // Attention is a little lighter and memory-bound kernels a little darker than matrix products.
  Colour ShadeOf(const Span& span, Hue hue) const {
    const Colour colour = theme_.Of(hue);
    if (span.op_class == OpClass::kAttention) return Mixed(colour, Rgb(0xffffff), 0.18F);
    if (span.op_class == OpClass::kMemoryBound) return Mixed(colour, Rgb(0x000000), 0.16F);
    return colour;
  }

  // Paints the outermost pixels of [x0, x1) x [y0, y1).
  void Frame(const std::array<int, 4>& box, Colour colour) {
    const auto& [x0, y0, x1, y1] = box;
    image_.FillBox(x0, y0, x1, y0 + 1, colour);
    image_.FillBox(x0, y1 - 1, x1, y1, colour);
    image_.Fill(x0, y0, y1, colour);
    image_.Fill(x1 - 1, y0, y1, colour);
  }

  int ImageY(float y) const { return static_cast<int>(std::lround(y - layout_.lanes.y0)); }

  void PaintColumns(const std::vector<HueShares>& columns, const HueColours& colours,
                    const Box& box, LanePart& part) {
    const int y0 = ImageY(box.y0), y1 = ImageY(box.y1);
    for (std::size_t c = 0; c < columns.size(); ++c) {
      part.folded_columns +=
          PaintColumn(columns[c], colours, static_cast<int>(c), y0, y1, image_) ? 1 : 0;
    }
  }

  // Merges the errors of a lane's rows: a column keeps those of the first row that has any, which
  // is the compute row.
  static void AddErrors(const std::vector<ErrorColumn>& from, std::vector<ErrorColumn>& to) {
    for (std::size_t c = 0; c < from.size(); ++c) {
      if (to[c].paired_ns + to[c].unpaired_ns > 0.0F) continue;
      to[c] = from[c];
    }
  }

  // Colour of an error column: grey if most of its time is unpaired, neutral if exact, otherwise
  // red or blue by size. 0 if it is empty.
  Colour ErrorColour(const ErrorColumn& error) const {
    if (error.unpaired_ns > error.paired_ns) return theme_.faint;
    if (error.paired_ns <= 0.0F) return 0;
    const float relative = error.Relative();
    const float size = std::abs(relative);
    if (size < kMinError) return theme_.line;
    const float strength = 0.28F + 0.72F * std::min(1.0F, size / kFullError);
    return Mixed(theme_.lane, relative > 0.0F ? theme_.worse : theme_.better, strength);
  }

  const CompareModel& model_;
  const Layout& layout_;
  const Viewport& viewport_;
  const OpFilter* filter_;
  std::array<HueColours, 2> colours_;  // [side]
  const Theme& theme_;
  Image& image_;
  int edge_;
  double min_columns_;
};

}  // namespace

// Lanes are painted in parallel and their lists joined in order, so the result does not depend on
// timing.
LanePictures MakeLanePictures(const CompareModel& model, const Layout& layout,
                              const Viewport& viewport, const Theme& theme,
                              const OpFilter* filter) {
  LanePictures pictures;
  if (layout.Columns() == 0 || layout.lanes.IsEmpty()) return pictures;
  pictures.image.Resize(layout.Columns(), static_cast<int>(layout.lanes.Height()), theme.ground);
  Painter painter(model, layout, viewport, theme, filter, pictures.image);
  painter.PaintGrid();
  std::vector<LanePart> parts(layout.lane_boxes.size());
  ForEachInParallel(parts.size(), kThreads, [&](std::size_t lane) {
    parts[lane] = painter.PaintLane(layout.lane_boxes[lane]);
  });
  for (LanePart& part : parts) {
    for (TrackRects& track : part.tracks) {
      pictures.spans += track.rects.size();
      pictures.tracks.push_back(std::move(track));
    }
    pictures.folded_columns += part.folded_columns;
    pictures.visited += part.visited;
  }
  return pictures;
}

}  // namespace foretrain::ui
