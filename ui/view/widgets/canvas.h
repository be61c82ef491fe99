// Draws shapes and text with Dear ImGui, and records everything that was drawn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ui/view/widgets/fonts.h"
#include "ui/view/widgets/theme.h"
#include "ui/view_model/timeline/layout.h"

struct ImDrawCmd;
struct ImDrawList;

namespace foretrain::ui {

// A control and its position.
struct WidgetRecord {
  std::string label{};
  Box box{};
};

// A text and its place, for tests of layout.
struct TextRecord {
  std::string text{};
  Box box{};
  Box clip{};            // the part of the window that shows it
  bool scrolls = false;  // in a panel that scrolls up and down, so it may be cut there
  bool scrolls_sideways = false;
  Colour colour{};
  bool disabled = false;  // of a control that cannot be used, which may be pale
};

// The content of a frame, for tests, which read this instead of pixels.
struct FrameRecord {
  std::size_t rectangles = 0;       // filled, outlined or textured
  std::size_t spans = 0;            // drawn one by one
  std::size_t folded_columns = 0;   // columns of class shares
  std::size_t visited = 0;          // spans and blocks examined
  std::vector<std::string> labels;  // all text, in drawing order
  std::vector<std::string> tooltip;
  std::vector<WidgetRecord> widgets;  // controls that react to the mouse, by their text
  std::vector<TextRecord> texts;      // the labels that are drawn, with their places
};

struct Point {
  float x = 0.0F;
  float y = 0.0F;
};

// Pixels for part of the window; 0 is transparent.
struct Image {
  int width = 0;
  int height = 0;
  std::vector<Colour> pixels;  // row by row from the top
  bool opaque = false;         // true if every pixel is opaque

  // Sets all pixels to `ground`.
  void Resize(int w, int h, Colour ground = 0);
  // Fill paints part of one column, FillBox a box. Pixels outside the image are skipped.
  void Fill(int x, int y0, int y1, Colour colour);
  void FillBox(int x0, int y0, int x1, int y1, Colour colour);
};

// An image held by the renderer, as an ImageSink returns it.
struct Picture {
  void* texture = nullptr;  // null: cannot be shown
  // Makes the renderer draw the following rectangles without blending, which costs software a
  // fraction; null if that is not needed. `of` is its argument.
  void (*opaque)(const ImDrawList* list, const ImDrawCmd* command) = nullptr;
  void* of = nullptr;
};

enum class Align : std::uint8_t { kLeft, kCentre, kRight };

struct Canvas {
  ImDrawList& list;
  const Theme& theme;
  const Fonts& fonts;
  float scale;
  FrameRecord& record;
  bool scrolls = false;  // what is drawn lies in a part that scrolls up and down

  // `units` at scale 1 as whole pixels.
  float Px(float units) const;

  void Fill(const Box& box, Colour colour, float rounding = 0.0F);
  void Outline(const Box& box, Colour colour, float thickness = 1.0F, float rounding = 0.0F);
  void Line(Point from, Point to, Colour colour, float thickness = 1.0F);
  void DashedLine(Point from, Point to, Colour colour, float dash);
  void Lines(const std::vector<Point>& points, Colour colour, float thickness);
  void Quad(Point a, Point b, Point c, Point d, Colour colour);
  void Dot(Point at, float radius, Colour colour);
  // A raised card with a shadow.
  void Card(const Box& box);
  void Show(const Picture& picture, const Box& box);

  // Draws one line of text and returns its width. Records it as a label.
  float Text(ImFont* font, Point at, Colour colour, std::string_view text);
  // Centred vertically; clipped to the box.
  void TextIn(ImFont* font, const Box& box, Align align, Colour colour, std::string_view text);
  float WidthOf(ImFont* font, std::string_view text) const;
  float HeightOf(ImFont* font) const;

  void PushClip(const Box& box);
  void PopClip();
};

}  // namespace foretrain::ui
