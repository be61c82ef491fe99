// The fonts of the view: Inter for words, JetBrains Mono for numbers, and the built-in font where
// those are not installed.
#pragma once

#include <string>
#include <vector>

struct ImFont;
struct ImFontAtlas;

namespace foretrain::ui {

struct Fonts {
  ImFont* text = nullptr;
  ImFont* small = nullptr;
  ImFont* bold = nullptr;
  ImFont* mono = nullptr;
  ImFont* mono_small = nullptr;
  ImFont* mono_large = nullptr;
  ImFont* icons = nullptr;  // Font Awesome 4.7; null where it is not installed
  std::string missing{};  // a sentence where the built-in font stands in
};

// Where distributions put fonts.
std::vector<std::string> FontFolders();

// Adds the fonts to `atlas` and builds it. `folders`: searched in order for Inter and JetBrains
// Mono; none: the built-in font. `scale`: 1 for text of 15 pixels.
Fonts LoadFonts(ImFontAtlas& atlas, const std::vector<std::string>& folders, float scale);

}  // namespace foretrain::ui
