// Paints curves of thousands of points into images on the CPU. Handing such lines to a software
// renderer would cost more than all the rest of a frame.
#pragma once

#include <cstddef>
#include <limits>
#include <span>

#include "ui/view/widgets/canvas.h"

namespace foretrain::ui {

// Vertical extent of a curve y(x) in one column of pixels, in pixels from the top of the image;
// empty if top > bottom.
struct StrokeColumn {
  float top = std::numeric_limits<float>::infinity();
  float bottom = -std::numeric_limits<float>::infinity();

  void Include(float y) {
    if (y < top) top = y;
    if (y > bottom) bottom = y;
  }
};

// Adds the line between two points, from.x <= to.x, to the columns that it crosses. columns[i]
// covers x from i to i + 1.
void AddLine(Point from, Point to, std::span<StrokeColumn> columns);

// Paints columns [first, last) of a curve that is `width` >= 1 pixels wide, with smooth edges.
// Disjoint ranges may be painted in parallel.
void PaintStroke(std::span<const StrokeColumn> columns, std::size_t first, std::size_t last,
                 float width, Colour colour, Image& image);

}  // namespace foretrain::ui
