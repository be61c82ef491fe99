// The fonts of the view: Inter for words and JetBrains Mono for numbers, or the built-in font if
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
  ImFont* icons = nullptr;  // Font Awesome 4.7; null if not installed
  std::string missing{};    // message if the built-in font is used; empty otherwise
};

// Folders where distributions install fonts.
std::vector<std::string> FontFolders();

// Adds the fonts to `atlas` and builds it. `folders` are searched in order for Inter and JetBrains
// Mono; if empty, the built-in font is used. `scale`: 1 gives text of 15 pixels.
Fonts LoadFonts(ImFontAtlas& atlas, const std::vector<std::string>& folders, float scale);

}  // namespace foretrain::ui
