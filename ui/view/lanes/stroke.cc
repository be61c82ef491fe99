#include "ui/view/lanes/stroke.h"

#include <algorithm>
#include <cmath>

namespace foretrain::ui {
namespace {

// Part of the pixel in row `row` that lies in [top, bottom).
float CoverOf(const StrokeColumn& column, int row) {
  const auto y = static_cast<float>(row);
  return std::max(0.0F, std::min(y + 1.0F, column.bottom) - std::max(y, column.top));
}

StrokeColumn Grown(const StrokeColumn& column, float by) {
  return {column.top - by, column.bottom + by};
}

StrokeColumn Joined(const StrokeColumn& a, const StrokeColumn& b) {
  return {std::min(a.top, b.top), std::max(a.bottom, b.bottom)};
}

}  // namespace

// Each column receives the line's y at its left and right edge, clipped to the line's ends.
// O(columns crossed).
void AddLine(Point from, Point to, std::span<StrokeColumn> columns) {
  const auto count = static_cast<float>(columns.size());
  const float x0 = std::max(0.0F, from.x), x1 = std::min(count, to.x);
  if (!(x0 <= x1)) return;
  // A vertical line lies in a single column.
  const float slope = to.x > from.x ? (to.y - from.y) / (to.x - from.x) : 0.0F;
  const auto at = [&](float x) { return x > from.x ? from.y + (x - from.x) * slope : from.y; };
  const auto last = static_cast<std::size_t>(std::min(x1, count - 1.0F));
  for (auto c = static_cast<std::size_t>(x0); c <= last && c < columns.size(); ++c) {
    const auto left = static_cast<float>(c);
    columns[c].Include(at(std::max(left, x0)));
    columns[c].Include(left + 1.0F < to.x ? at(left + 1.0F) : to.y);
  }
}

// Coverage of a pixel is that of the curve's vertical extent in its column. For wider strokes the
// neighbouring columns count too, so that steep parts are as wide as flat ones.
void PaintStroke(std::span<const StrokeColumn> columns, std::size_t first, std::size_t last,
                 float width, Colour colour, Image& image) {
  const float half = std::max(0.5F, width / 2);
  // Part of the neighbouring columns that a steep stroke of this width covers.
  const float neighbour = std::min(1.0F, half - 0.5F);
  const auto count = std::min(columns.size(), static_cast<std::size_t>(image.width));
  for (std::size_t c = first; c < std::min(last, count); ++c) {
    StrokeColumn around = columns[c];
    if (neighbour > 0.0F && c > 0) around = Joined(around, columns[c - 1]);
    if (neighbour > 0.0F && c + 1 < count) around = Joined(around, columns[c + 1]);
    if (around.top > around.bottom) continue;
    const StrokeColumn own = Grown(columns[c], half);
    around = Grown(around, half);
    const int end = std::min(image.height, static_cast<int>(std::ceil(around.bottom)));
    for (int row = std::max(0, static_cast<int>(std::floor(around.top))); row < end; ++row) {
      const float cover = std::max(CoverOf(own, row), neighbour * CoverOf(around, row));
      Colour& pixel =
          image.pixels[static_cast<std::size_t>(row) * static_cast<std::size_t>(image.width) + c];
      pixel = cover >= 1.0F ? colour : Mixed(pixel, colour, cover);
    }
  }
}

}  // namespace foretrain::ui
