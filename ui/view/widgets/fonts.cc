#include "ui/view/widgets/fonts.h"

#include <imgui.h>
#include <imgui_freetype.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string_view>

namespace foretrain::ui {
namespace {

constexpr float kText = 15.0F;
constexpr float kSmall = 12.5F;
constexpr float kMono = 13.0F;
constexpr float kMonoSmall = 12.0F;
constexpr float kMonoLarge = 21.0F;
constexpr float kIcons = 18.0F;
constexpr float kBuiltIn = 13.0F;  // the size it is designed for

// Path of the first folder that contains the file; nullopt if none does.
std::optional<std::string> Find(const std::vector<std::string>& folders, std::string_view name) {
  for (const std::string& folder : folders) {
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    std::error_code error;
    if (std::filesystem::is_regular_file(path, error)) return path.string();
  }
  return std::nullopt;
}

ImFont* Add(ImFontAtlas& atlas, const std::optional<std::string>& path, float size, float scale) {
  ImFontConfig config;
  if (path.has_value()) {
    // Horizontal oversampling gives small text even spacing; whole pixels keep it sharp.
    config.OversampleH = 2;
    config.PixelSnapH = true;
    if (ImFont* font = atlas.AddFontFromFileTTF(path->c_str(), std::round(size * scale), &config)) {
      return font;
    }
  }
  // A bitmap font is sharp only at whole multiples of its size.
  config = ImFontConfig();
  config.SizePixels = kBuiltIn * std::fmax(1.0F, std::floor(scale * size / kBuiltIn));
  return atlas.AddFontDefault(&config);
}

// Only the range of icons that the view uses is rasterized.
ImFont* AddIcons(ImFontAtlas& atlas, const std::optional<std::string>& path, float scale) {
  if (!path.has_value()) return nullptr;
  static constexpr std::array<ImWchar, 3> kRange{0xf000, 0xf2ff, 0};
  ImFontConfig config;
  config.PixelSnapH = true;
  return atlas.AddFontFromFileTTF(path->c_str(), std::round(kIcons * scale), &config,
                                  kRange.data());
}

}  // namespace

std::vector<std::string> FontFolders() {
  return {"/usr/share/fonts/opentype/inter",
          "/usr/share/fonts/truetype/inter",
          "/usr/share/fonts/truetype/jetbrains-mono",
          "/usr/share/fonts/truetype/font-awesome",
          "/usr/share/fonts-font-awesome/fonts",
          "/usr/share/fonts/inter",
          "/usr/share/fonts/TTF",
          "/usr/share/fonts/OTF",
          "/usr/local/share/fonts"};
}

// All sizes are rasterized once into one atlas. Hinting is light, so that letters keep their
// shapes.
Fonts LoadFonts(ImFontAtlas& atlas, const std::vector<std::string>& folders, float scale) {
  atlas.FontBuilderIO = ImGuiFreeType::GetBuilderForFreeType();
  atlas.FontBuilderFlags = ImGuiFreeTypeBuilderFlags_LightHinting;
  // Distributions install fonts as .otf or .ttf, and in different weights.
  const auto either = [&folders](std::string_view a, std::string_view b) {
    const std::optional<std::string> first = Find(folders, a);
    return first.has_value() ? first : Find(folders, b);
  };
  const auto text = either("Inter-Medium.otf", "Inter-Medium.ttf");
  const auto bold = either("Inter-SemiBold.otf", "Inter-SemiBold.ttf");
  const auto mono = either("JetBrainsMono-Medium.ttf", "JetBrainsMono-Regular.ttf");
  Fonts fonts{
      .text = Add(atlas, text, kText, scale),
      .small = Add(atlas, text, kSmall, scale),
      .bold = Add(atlas, bold, kText, scale),
      .mono = Add(atlas, mono, kMono, scale),
      .mono_small = Add(atlas, mono, kMonoSmall, scale),
      .mono_large = Add(atlas, mono, kMonoLarge, scale),
      .icons = AddIcons(atlas, either("fontawesome-webfont.ttf", "FontAwesome.otf"), scale)};
  if (!folders.empty() && (!text.has_value() || !mono.has_value())) {
    fonts.missing =
        "The fonts Inter and JetBrains Mono are not installed (fonts-inter, fonts-jetbrains-mono): "
        "the built-in font stands in.";
  }
  atlas.Build();
  return fonts;
}

}  // namespace foretrain::ui
