#include "ui/view/widgets/canvas.h"

#include <imgui.h>

#include <algorithm>
#include <cmath>

namespace foretrain::ui {
namespace {

bool IsOpaque(Colour colour) { return colour >> 24 == 0xffU; }

ImVec2 Vec(Point point) { return {point.x, point.y}; }

Box ClipOf(const ImDrawList& list) {
  const ImVec2 low = list.GetClipRectMin(), high = list.GetClipRectMax();
  return {low.x, low.y, high.x, high.y};
}

}  // namespace

void Image::Resize(int w, int h, Colour ground) {
  width = std::max(0, w);
  height = std::max(0, h);
  pixels.assign(static_cast<std::size_t>(width) * static_cast<std::size_t>(height), ground);
  opaque = IsOpaque(ground);
}

void Image::Fill(int x, int y0, int y1, Colour colour) {
  if (x < 0 || x >= width) return;
  if (!IsOpaque(colour)) opaque = false;
  for (int y = std::max(0, y0); y < std::min(height, y1); ++y) {
    pixels[static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
           static_cast<std::size_t>(x)] = colour;
  }
}

// Clips once per call, then fills whole rows: the inner loop has no tests.
void Image::FillBox(int x0, int y0, int x1, int y1, Colour colour) {
  const int left = std::max(0, x0);
  const int count = std::min(width, x1) - left;
  if (count <= 0) return;
  if (!IsOpaque(colour)) opaque = false;
  for (int y = std::max(0, y0); y < std::min(height, y1); ++y) {
    const auto first = pixels.begin() + static_cast<std::ptrdiff_t>(y) * width + left;
    std::fill_n(first, count, colour);
  }
}

float Canvas::Px(float units) const { return std::round(units * scale); }

void Canvas::Fill(const Box& box, Colour colour, float rounding) {
  if (box.IsEmpty()) return;
  ++record.rectangles;
  list.AddRectFilled({box.x0, box.y0}, {box.x1, box.y1}, colour, rounding);
}

void Canvas::Outline(const Box& box, Colour colour, float thickness, float rounding) {
  if (box.IsEmpty()) return;
  ++record.rectangles;
  list.AddRect({box.x0, box.y0}, {box.x1, box.y1}, colour, rounding, 0, thickness);
}

void Canvas::Line(Point from, Point to, Colour colour, float thickness) {
  list.AddLine(Vec(from), Vec(to), colour, thickness);
}

// Dashes have constant length in pixels, independent of the line's length.
void Canvas::DashedLine(Point from, Point to, Colour colour, float dash) {
  const float length = std::hypot(to.x - from.x, to.y - from.y);
  if (!(length > 0.0F) || !(dash > 0.0F)) return;
  const Point step{(to.x - from.x) / length, (to.y - from.y) / length};
  for (float at = 0.0F; at < length; at += 2 * dash) {
    const float end = std::min(length, at + dash);
    Line({from.x + step.x * at, from.y + step.y * at},
         {from.x + step.x * end, from.y + step.y * end}, colour, std::max(1.0F, scale));
  }
}

void Canvas::Lines(const std::vector<Point>& points, Colour colour, float thickness) {
  if (points.size() < 2) return;
  std::vector<ImVec2> vectors;
  vectors.reserve(points.size());
  for (const Point& point : points) vectors.push_back(Vec(point));
  list.AddPolyline(vectors.data(), static_cast<int>(vectors.size()), colour, ImDrawFlags_None,
                   thickness);
}

void Canvas::Quad(Point a, Point b, Point c, Point d, Colour colour) {
  ++record.rectangles;
  list.AddQuadFilled(Vec(a), Vec(b), Vec(c), Vec(d), colour);
}

void Canvas::Dot(Point at, float radius, Colour colour) {
  list.AddCircleFilled(Vec(at), radius, colour);
}

// The callback switches to the opaque program for this image only; the reset restores Dear ImGui's
// state.
void Canvas::Show(const Picture& picture, const Box& box) {
  if (picture.texture == nullptr || box.IsEmpty()) return;
  ++record.rectangles;
  if (picture.opaque != nullptr) list.AddCallback(picture.opaque, picture.of);
  list.AddImage(picture.texture, {box.x0, box.y0}, {box.x1, box.y1});
  if (picture.opaque != nullptr) list.AddCallback(ImDrawCallback_ResetRenderState, nullptr);
}

float Canvas::Text(ImFont* font, Point at, Colour colour, std::string_view text) {
  if (text.empty()) return 0.0F;
  record.labels.emplace_back(text);
  list.AddText(font, font->FontSize, {std::round(at.x), std::round(at.y)}, colour, text.data(),
               text.data() + text.size());
  const float width = WidthOf(font, text);
  record.texts.push_back({std::string(text),
                          {at.x, at.y, at.x + width, at.y + font->FontSize},
                          ClipOf(list),
                          scrolls,
                          /*scrolls_sideways=*/false,
                          colour});
  return width;
}

// Text wider than the box is clipped to it; text that fits is drawn without a clip rectangle.
void Canvas::TextIn(ImFont* font, const Box& box, Align align, Colour colour,
                    std::string_view text) {
  if (box.IsEmpty() || text.empty()) return;
  const float width = WidthOf(font, text);
  Point at{box.x0, box.y0 + (box.Height() - font->FontSize) / 2};
  if (align == Align::kCentre) at.x += (box.Width() - width) / 2;
  if (align == Align::kRight) at.x += box.Width() - width;
  record.labels.emplace_back(text);
  Box shown = ClipOf(list);
  shown.x0 = std::max(shown.x0, box.x0);
  shown.x1 = std::min(shown.x1, box.x1);
  record.texts.push_back({std::string(text),
                          {at.x, at.y, at.x + width, at.y + font->FontSize},
                          shown,
                          scrolls,
                          /*scrolls_sideways=*/false,
                          colour});
  const ImVec4 clip(box.x0, box.y0 - font->FontSize, box.x1, box.y1 + font->FontSize);
  list.AddText(font, font->FontSize, {std::round(at.x), std::round(at.y)}, colour, text.data(),
               text.data() + text.size(), 0.0F, width > box.Width() ? &clip : nullptr);
}

float Canvas::WidthOf(ImFont* font, std::string_view text) const {
  return font->CalcTextSizeA(font->FontSize, 1e9F, 0.0F, text.data(), text.data() + text.size()).x;
}

float Canvas::HeightOf(ImFont* font) const { return font->FontSize; }

void Canvas::Card(const Box& box) {
  Fill({box.x0 + Px(3), box.y0 + Px(4), box.x1 + Px(3), box.y1 + Px(4)}, 0x60000000U, Px(6));
  Fill(box, theme.panel, Px(6));
  Outline(box, theme.line, scale, Px(6));
}

void Canvas::PushClip(const Box& box) {
  list.PushClipRect({box.x0, box.y0}, {std::max(box.x0, box.x1), std::max(box.y0, box.y1)}, true);
}

void Canvas::PopClip() { list.PopClipRect(); }

}  // namespace foretrain::ui
