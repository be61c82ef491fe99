#include "ui/view_model/timeline/layout.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace foretrain::ui {
namespace {

// In pixels at scale 1.
constexpr float kAxis = 26.0F;
constexpr float kOverview = 24.0F;
constexpr float kMinForOverview = 300.0F;  // a lower window has none
constexpr float kLegend = 30.0F;
constexpr float kDrift = 112.0F;
constexpr float kMemory = 150.0F;
constexpr float kGutter = 124.0F;
constexpr float kRight = 16.0F;
constexpr float kGap = 8.0F;
constexpr float kMinLane = 46.0F;
constexpr float kMaxLane = 210.0F;
constexpr float kMinLanes = 120.0F;  // minimum height of all lanes
constexpr float kLanePad = 6.0F;
constexpr float kQueueRow = 24.0F;
constexpr float kErrorLine = 5.0F;
constexpr float kStripGap = 2.0F;
constexpr float kCounterRow = 18.0F;
constexpr float kPredictedShare = 0.30F;
constexpr float kComputeShare = 0.70F;
constexpr float kTickDistance = 110.0F;

// Samples are sorted by rank, so this is a binary search per side.
bool HasMemory(const CompareModel& model, std::size_t lane) {
  if (lane >= model.lanes.size()) return false;
  for (const Side side : kSides) {
    if (!model.Of(side).IsPresent()) continue;
    const int rank = model.RankOn(side, model.lanes[lane].rank);
    const std::vector<MemorySample>& samples = model.TimelineOf(side).memory;
    const auto at = std::partition_point(samples.begin(), samples.end(),
                                         [rank](const MemorySample& s) { return s.rank < rank; });
    if (at != samples.end() && at->rank == rank) return true;
  }
  return false;
}

// Cuts boxes of the window's width from its top and bottom.
class Cutter {
 public:
  Cutter(const Box& window, float scale)
      : scale_(scale), x0_(window.x0), x1_(window.x1), top_(window.y0), bottom_(window.y1) {}

  float Left() const { return std::max(0.0F, bottom_ - top_); }
  Box Top(float height) {
    const float y1 = std::min(bottom_, top_ + std::round(height * scale_));
    const Box box{x0_, top_, x1_, y1};
    top_ = y1;
    return box;
  }
  Box Bottom(float height) {
    const float y0 = std::max(top_, bottom_ - std::round(height * scale_));
    const Box box{x0_, y0, x1_, bottom_};
    bottom_ = y0;
    return box;
  }

 private:
  float scale_;
  float x0_;
  float x1_;
  float top_;
  float bottom_;
};

std::size_t RowCount(const CompareModel& model) {
  std::size_t rows = 0;
  for (const Lane& lane : model.lanes) {
    for (const Side side : kSides) rows = std::max(rows, lane.rows[Index(side)].size());
  }
  return rows;
}

// Height of a lane's counters. Lanes are equally high, so those of the lane with the most count.
float CountersHeight(const CompareModel& model, float scale) {
  std::size_t rows = 0;
  for (const Lane& lane : model.lanes) rows = std::max(rows, lane.counters.size());
  return std::round(static_cast<float>(rows) * kCounterRow * scale);
}

// Queue rows have a fixed height and scroll; merged lanes share the available height within limits.
// `counters`: height of the counters, which come on top of either.
float LaneHeight(const CompareModel& model, std::size_t shown, float available, float scale,
                 float counters) {
  const auto lanes = static_cast<float>(std::max<std::size_t>(1, shown));
  if (model.options.rows == LaneRows::kQueues) {
    const auto rows = static_cast<float>(RowCount(model));
    return std::round((rows * kQueueRow + 2 * kLanePad + kErrorLine + kStripGap) * scale) +
           counters;
  }
  return std::floor(std::clamp(available / lanes - counters, kMinLane * scale, kMaxLane * scale)) +
         counters;
}

// Spans in memory, or sums of spans that are not read.
bool HasSpans(const Lane& lane, std::size_t row) {
  for (const Side side : kSides) {
    const std::vector<Row>& rows = lane.rows[Index(side)];
    if (row >= rows.size()) continue;
    if (!rows[row].tracks.empty() || !rows[row].sums.empty()) return true;
  }
  return false;
}

// The two rows of one run in a merged lane: compute above communication.
void AddMerged(const Lane& lane, Side side, const Box& box, float scale,
               std::vector<StripBox>& strips) {
  if (lane.rows[Index(side)].empty()) return;
  Box compute = box, moves = box;
  if (HasSpans(lane, 1)) {
    compute.y1 = box.y0 + std::round(box.Height() * kComputeShare);
    moves.y0 = compute.y1 + std::max(1.0F, std::floor(scale));
    strips.push_back({side, 0, compute});
    strips.push_back({side, 1, moves});
    return;
  }
  strips.push_back({side, 0, compute});
}

// With both runs: forecast above, measurement below, and an error line at the bottom.
void FillMerged(const CompareModel& model, const Box& inner, float scale, LaneBox& lane_box) {
  const Lane& lane = model.lanes[lane_box.lane];
  const float gap = std::round(kStripGap * scale);
  if (!model.HasBoth()) {
    for (const Side side : kSides) AddMerged(lane, side, inner, scale, lane_box.strips);
    return;
  }
  const float error = std::round(kErrorLine * scale);
  const float strips = inner.Height() - error - 2 * gap;
  Box predicted = inner, measured = inner;
  predicted.y1 = inner.y0 + std::round(strips * kPredictedShare);
  measured.y0 = predicted.y1 + gap;
  measured.y1 = inner.y1 - error - gap;
  AddMerged(lane, Side::kPredicted, predicted, scale, lane_box.strips);
  AddMerged(lane, Side::kMeasured, measured, scale, lane_box.strips);
  lane_box.error = {inner.x0, measured.y1 + gap, inner.x1, inner.y1};
}

// Each queue has one row of fixed height: a third for the forecast, the rest for the measurement.
void FillQueues(const CompareModel& model, const Box& inner, float scale, LaneBox& lane_box) {
  const Lane& lane = model.lanes[lane_box.lane];
  const float height = std::round(kQueueRow * scale);
  const float gap = std::round(kStripGap * scale);
  for (std::size_t row = 0; row < RowCount(model); ++row) {
    Box box{inner.x0, inner.y0 + static_cast<float>(row) * height, inner.x1, 0.0F};
    box.y1 = box.y0 + height - gap;
    if (row < lane.rows[0].size()) {
      Box predicted = box;
      if (model.HasBoth()) predicted.y1 = box.y0 + std::round(height / 3);
      lane_box.strips.push_back({Side::kPredicted, row, predicted});
    }
    if (row < lane.rows[1].size()) {
      Box measured = box;
      if (model.HasBoth()) measured.y0 = box.y0 + std::round(height / 3) + 1.0F;
      lane_box.strips.push_back({Side::kMeasured, row, measured});
    }
  }
  if (model.HasBoth()) {
    lane_box.error = {inner.x0, inner.y1 - std::round(kErrorLine * scale), inner.x1, inner.y1};
  }
}

// Graphs one below the other, beneath the strips.
void FillCounters(const CompareModel& model, const Box& inner, float scale, LaneBox& lane_box) {
  const float height = std::round(kCounterRow * scale);
  const float gap = std::round(kStripGap * scale);
  for (std::size_t i = 0; i < model.lanes[lane_box.lane].counters.size(); ++i) {
    const float y0 = inner.y1 + static_cast<float>(i) * height + gap;
    lane_box.counters.push_back({i, {inner.x0, y0, inner.x1, y0 + height - gap}});
  }
}

// Where the mouse pins a lane, at the right end of its name, and expands or closes its group, in
// the line below.
void PlaceGutter(LaneBox& lane, const Layout& layout) {
  const auto px = [&layout](float units) { return std::round(units * layout.scale); };
  const float top = lane.box.y0 + px(kLanePad), right = layout.plot_x0 - px(6);
  lane.pin = {right - px(14), top, right, top + px(16)};
  if (!lane.row.closed && !lane.row.heads) return;
  lane.group = {lane.box.x0 + px(10), top + px(18), right, top + px(34)};
}

std::size_t ShownLanes(const CompareModel& model, const Layout& layout) {
  return layout.list == nullptr ? model.lanes.size() : layout.list->rows.size();
}

// Only lanes that are at least partly visible get boxes, so the cost does not depend on the number
// of ranks.
void FillLanes(const CompareModel& model, bool counters, Layout& layout) {
  const float scale = layout.scale;
  const float pad = std::round(kLanePad * scale);
  const float graphs = counters ? CountersHeight(model, scale) : 0.0F;
  const std::size_t shown = ShownLanes(model, layout);
  if (shown == 0 || layout.lane_height <= 0.0F) return;
  const auto first = static_cast<std::size_t>(std::floor(layout.scroll / layout.lane_height));
  for (std::size_t i = first; i < shown; ++i) {
    const float y0 =
        layout.lanes.y0 - std::round(layout.scroll) + static_cast<float>(i) * layout.lane_height;
    if (y0 >= layout.lanes.y1) break;
    LaneBox lane{.box = {layout.window.x0, y0, layout.window.x1, y0 + layout.lane_height}};
    lane.row = layout.list == nullptr ? LaneRow{.lane = i} : layout.list->rows[i];
    lane.lane = lane.row.lane;
    if (lane.box.y1 <= layout.lanes.y0) continue;
    if (layout.list != nullptr) PlaceGutter(lane, layout);
    const Box inner{layout.plot_x0, lane.box.y0 + pad, layout.plot_x1, lane.box.y1 - pad - graphs};
    if (model.options.rows == LaneRows::kMerged) {
      FillMerged(model, inner, scale, lane);
    } else {
      FillQueues(model, inner, scale, lane);
    }
    if (counters) FillCounters(model, inner, scale, lane);
    layout.lane_boxes.push_back(std::move(lane));
  }
}

}  // namespace

// Fixed parts are cut first. Panels are added only if the lanes keep their minimum height, and they
// share the height that the lanes cannot use.
Layout MakeLayout(const CompareModel& model, const Box& window, float scale, float scroll,
                  std::size_t memory_lane, bool counters, std::shared_ptr<const LaneList> list) {
  Layout layout{.scale = scale, .list = std::move(list)};
  layout.window = {std::floor(window.x0), std::floor(window.y0), std::floor(window.x1),
                   std::floor(window.y1)};
  layout.plot_x0 = layout.window.x0 + std::round(kGutter * scale);
  layout.plot_x1 = std::max(layout.plot_x0, layout.window.x1 - std::round(kRight * scale));
  Cutter cut(layout.window, scale);
  const bool overview = layout.list != nullptr && cut.Left() >= kMinForOverview * scale;
  if (overview) layout.overview = cut.Top(kOverview);
  layout.axis = cut.Top(kAxis);
  layout.legend = cut.Bottom(kLegend);
  const auto lanes = static_cast<float>(ShownLanes(model, layout));
  const float wanted = std::min(lanes * 80.0F, 4 * kMinLane + kMinLanes);
  const auto fits = [&](float panel) { return cut.Left() >= (panel + kGap + kMinLanes) * scale; };
  // Height that the lanes cannot use goes to the panels.
  const float spare = std::max(
      0.0F, cut.Left() / scale - kDrift - kMemory - 2 * kGap - std::max(wanted, lanes * kMaxLane));
  // Drift takes precedence over memory if only one of them fits.
  const bool drift = model.HasBoth() && fits(kDrift);
  const bool memory = HasMemory(model, memory_lane) && fits(kMemory + (drift ? kDrift : 0.0F));
  if (memory) {
    layout.memory = cut.Bottom(kMemory + 0.6F * spare);
    cut.Bottom(kGap);
  }
  if (drift) {
    layout.drift = cut.Bottom(kDrift + 0.4F * spare);
    cut.Bottom(kGap);
  }
  layout.lanes = cut.Top(cut.Left() / scale + 1.0F);
  layout.lane_height = LaneHeight(model, ShownLanes(model, layout), layout.lanes.Height(), scale,
                                  counters ? CountersHeight(model, scale) : 0.0F);
  layout.max_scroll = std::max(0.0F, lanes * layout.lane_height - layout.lanes.Height());
  layout.scroll = std::clamp(scroll, 0.0F, layout.max_scroll);
  FillLanes(model, counters, layout);
  return layout;
}

std::optional<std::size_t> Layout::PlaceOf(std::size_t lane) const {
  if (list == nullptr) return lane;
  if (lane >= list->places.size()) return std::nullopt;
  return list->places[lane];
}

std::vector<Tick> AxisTicks(const Layout& layout, const Viewport& viewport) {
  const float max = static_cast<float>(layout.Columns()) / std::round(kTickDistance * layout.scale);
  return TimeTicks(viewport.start_ns, viewport.end_ns, std::max(1, static_cast<int>(max)));
}

// Edges are rounded down and the last track takes the rest, so tracks neither overlap nor leave
// gaps.
Box TrackBox(const Box& strip, std::size_t track, std::size_t tracks) {
  const float height = strip.Height() / static_cast<float>(std::max<std::size_t>(1, tracks));
  const auto at = [&](std::size_t i) {
    return strip.y0 + std::floor(static_cast<float>(i) * height);
  };
  return {strip.x0, at(track), strip.x1, track + 1 == tracks ? strip.y1 : at(track + 1)};
}

double MinColumns(int columns, std::size_t tracks, std::size_t max) {
  constexpr double kMin = 3.0;
  // A track has at most columns / least + 2 rectangles.
  const double left = static_cast<double>(max) - 2.0 * static_cast<double>(tracks);
  if (left < 1.0) return columns + 1.0;
  return std::max(kMin, columns * static_cast<double>(tracks) / left);
}

// Narrow spans are hard to hit, so a span within two pixels of the mouse counts if it is narrower
// than that.
std::optional<Hit> HitTest(const CompareModel& model, const Layout& layout,
                           const Viewport& viewport, float x, float y) {
  if (!layout.lanes.Contains(x, y) || layout.Columns() == 0) return std::nullopt;
  for (const LaneBox& lane : layout.lane_boxes) {
    for (const StripBox& strip : lane.strips) {
      if (!strip.box.Contains(x, y)) continue;
      Hit hit{.lane = lane.lane, .side = strip.side};
      hit.time_ns = viewport.ToTime(x - layout.plot_x0, layout.Columns());
      const std::vector<Track>& tracks =
          model.lanes[lane.lane].rows[Index(strip.side)][strip.row].tracks;
      for (std::size_t t = 0; t < tracks.size(); ++t) {
        if (!TrackBox(strip.box, t, tracks.size()).Contains(x, y)) continue;
        // Two pixels, in time.
        const double slack = 2.0 * viewport.LengthNs() / layout.Columns();
        const auto span = tracks[t].Find(model.Of(strip.side).Own(hit.time_ns), slack);
        if (!span.has_value()) continue;
        const Span& found = model.TimelineOf(strip.side).spans[*span];
        const double own = model.Of(strip.side).Own(hit.time_ns);
        const bool inside =
            static_cast<double>(found.start_ns) <= own && own < static_cast<double>(found.end_ns);
        const bool narrow = static_cast<double>(found.end_ns - found.start_ns) < slack;
        if (inside || narrow) hit.span = SpanRef{strip.side, *span};
      }
      return hit;
    }
  }
  return std::nullopt;
}

std::optional<CounterHit> CounterAt(const Layout& layout, const Viewport& viewport, float x,
                                    float y) {
  if (!layout.lanes.Contains(x, y) || layout.Columns() == 0) return std::nullopt;
  for (const LaneBox& lane : layout.lane_boxes) {
    for (const CounterBox& at : lane.counters) {
      if (!at.box.Contains(x, y)) continue;
      return CounterHit{lane.lane, at.counter,
                        viewport.ToTime(x - layout.plot_x0, layout.Columns())};
    }
  }
  return std::nullopt;
}

std::optional<std::size_t> LaneAt(const Layout& layout, float x, float y) {
  if (!layout.lanes.Contains(x, y)) return std::nullopt;
  for (const LaneBox& lane : layout.lane_boxes) {
    if (lane.box.Contains(x, y)) return lane.lane;
  }
  return std::nullopt;
}

}  // namespace foretrain::ui
