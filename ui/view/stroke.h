// Curves painted into images by the processor: for curves of thousands of points, for which handing
// over lines costs a software renderer more than all else.
#pragma once

#include <cstddef>
#include <limits>
#include <span>

#include "ui/view/canvas.h"

namespace foretrain::ui {

// What a curve y(x) covers of one column of pixels, in pixels from the top of the image; nothing
// where top > bottom.
struct StrokeColumn {
  float top = std::numeric_limits<float>::infinity();
  float bottom = -std::numeric_limits<float>::infinity();

  void Include(float y) {
    if (y < top) top = y;
    if (y > bottom) bottom = y;
  }
};

// Adds the line between two points, from.x <= to.x, to the columns that it crosses; columns[i]
// reaches from x = i to i + 1.
void AddLine(Point from, Point to, std::span<StrokeColumn> columns);

// The part in columns [first, last) of a curve that is `width` >= 1 pixels wide, with smooth edges.
// Parts may be painted at once.
void PaintStroke(std::span<const StrokeColumn> columns, std::size_t first, std::size_t last,
                 float width, Colour colour, Image& image);

}  // namespace foretrain::ui
