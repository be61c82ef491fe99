#include "ui/view/panels/time_panels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "base/numeric/digits_apart.h"
#include "base/units.h"
#include "ui/view/lanes/segments.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

constexpr float kRow = 21.0F;
constexpr float kColumn = 84.0F;
constexpr int kMaxTimeDigits = 5;  // more do not fit a column
constexpr double kNone = 5e-10;    // seconds; less than a nanosecond is shown as 0

// Whether any row has a value for that side; a side without values has no column.
bool Has(const std::vector<WaitRow>& rows, Side side) {
  return std::any_of(rows.begin(), rows.end(),
                     [side](const WaitRow& row) { return row.seconds[Index(side)].has_value(); });
}

// The times of a row by side; empty where one is unknown.
std::array<std::string, 2> TimesOf(const WaitRow& row) {
  std::array<double, 2> seconds{};
  for (const Side side : kSides) {
    const double value = row.seconds[Index(side)].value_or(0.0);
    seconds[Index(side)] = std::abs(value) < kNone ? 0.0 : value;
  }
  const std::vector<std::string> texts = SecondsApart(seconds, kMaxTimeDigits);
  std::array<std::string, 2> times;
  for (const Side side : kSides) {
    if (!row.seconds[Index(side)].has_value()) continue;
    times[Index(side)] = seconds[Index(side)] == 0.0 ? "0" : texts[Index(side)];
  }
  return times;
}

// Columns from the right: error, measured, predicted. They move together in a narrow box, and the
// last one is left out where names would lie under it.
class Columns {
 public:
  Columns(Canvas& canvas, const Box& box, const std::string& title,
          const std::vector<WaitRow>& rows, const SideNames& names)
      : canvas_(canvas),
        box_(box),
        names_(names),
        both_(Has(rows, Side::kPredicted) && Has(rows, Side::kMeasured)) {
    for (const Side side : {Side::kMeasured, Side::kPredicted}) {
      if (Has(rows, side)) sides_.push_back(side);
    }
    float name = canvas.WidthOf(canvas.fonts.bold, title);
    float needed = canvas.WidthOf(canvas.fonts.small, "predicted");
    for (const WaitRow& row : rows) {
      name = std::max(name, canvas.WidthOf(canvas.fonts.small, row.name));
      for (const std::string& text : TimesOf(row)) {
        needed = std::max(needed, canvas.WidthOf(canvas.fonts.mono_small, text));
      }
    }
    needed += canvas.Px(8);
    const auto room = [&] {
      const auto count = static_cast<float>(sides_.size() + (both_ ? 1 : 0));
      return std::floor((box.Width() - name) / std::max(1.0F, count));
    };
    if (room() < needed && sides_.size() > 1) sides_.pop_back();
    column_ = std::clamp(room(), needed, std::max(needed, canvas.Px(kColumn)));
  }

  void Titles(float y) {
    float right = box_.x1;
    if (both_) Cell(right, y, canvas_.fonts.small, canvas_.theme.muted, "error");
    for (const Side side : sides_) {
      Cell(right, y, canvas_.fonts.small, canvas_.theme.muted, std::string(names_[Index(side)]));
    }
  }

  // The error is measured minus predicted; values that would be displayed as 0 are exactly 0.
  void Values(float y, const WaitRow& row) {
    float right = box_.x1;
    if (both_) {
      const bool known = row.seconds[0].has_value() && row.seconds[1].has_value();
      const double error = known ? *row.seconds[1] - *row.seconds[0] : 0.0;
      const double rounded = std::abs(error) < kNone ? 0.0 : error;
      Cell(right, y, canvas_.fonts.mono_small, ToneColour(canvas_.theme, ToneOf(rounded)),
           known ? SignedTime(rounded * kNsPerSecond) : "");
    }
    const std::array<std::string, 2> times = TimesOf(row);
    for (const Side side : sides_) {
      Cell(right, y, canvas_.fonts.mono_small,
           side == Side::kMeasured || !both_ ? canvas_.theme.text : canvas_.theme.muted,
           times[Index(side)]);
    }
  }

 private:
  // Moves `right` to the next column.
  void Cell(float& right, float y, ImFont* font, Colour colour, const std::string& text) {
    const float left = right - column_;
    canvas_.TextIn(font, {left, y, right, y + canvas_.Px(kRow)}, Align::kRight, colour, text);
    right = left;
  }

  Canvas& canvas_;
  const Box& box_;
  SideNames names_;
  bool both_;
  std::vector<Side> sides_;
  float column_ = 0.0F;
};

}  // namespace

// Rows that do not fit in the box are left out. The heading has a tooltip too.
std::optional<HoverText> DrawWaits(const ScreenFrame& frame, const Box& box,
                                   const std::string& title, const std::string& remark,
                                   const std::vector<WaitRow>& rows, const SideNames& names,
                                   float& y) {
  Canvas& canvas = frame.canvas;
  const float row_height = canvas.Px(kRow);
  if (rows.empty() || y + 2 * row_height > box.y1) return std::nullopt;
  Columns columns(canvas, box, title, rows, names);
  canvas.TextIn(canvas.fonts.bold, {box.x0, y, box.x1, y + row_height}, Align::kLeft,
                canvas.theme.text, title);
  columns.Titles(y);
  std::optional<HoverText> over;
  const Box head{box.x0, y, box.x1, y + row_height};
  if (head.Contains(frame.input.x, frame.input.y)) over = HoverText{title, remark, {}};
  y += row_height;
  // A total has a stronger line above it.
  for (const WaitRow& row : rows) {
    if (y + row_height > box.y1) break;
    const Box line{box.x0, y, box.x1, y + row_height};
    canvas.Fill({line.x0, y, line.x1, y + 1.0F}, row.total ? canvas.theme.line : canvas.theme.grid);
    canvas.TextIn(canvas.fonts.small, line, Align::kLeft,
                  row.total ? canvas.theme.text : canvas.theme.muted, row.name);
    columns.Values(y, row);
    if (line.Contains(frame.input.x, frame.input.y)) over = HoverText{row.name, row.explained, {}};
    y += row_height;
  }
  return over;
}

}  // namespace foretrain::ui
