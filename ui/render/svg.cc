#include "ui/render/svg.h"

#include <fmt/format.h>
#include <imgui.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/markup.h"

namespace foretrain::ui {
namespace {

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr float kBaseline = 0.78F;  // of a line's height, below its upper edge
constexpr float kFontSize = 0.86F;

std::string Base64(const std::vector<unsigned char>& bytes) {
  std::string text;
  text.reserve(4 * ((bytes.size() + 2) / 3));
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto at = [&](std::size_t k) { return i + k < bytes.size() ? bytes[i + k] : 0U; };
    const unsigned group = at(0) << 16 | at(1) << 8 | at(2);
    for (int k = 0; k < 4; ++k) {
      const bool pad = i + static_cast<std::size_t>(k) > bytes.size();
      text += pad ? '=' : kBase64[group >> (18 - 6 * k) & 63U];
    }
  }
  return text;
}

unsigned Channel(Colour colour, int shift) { return colour >> shift & 0xFFU; }
unsigned Alpha(Colour colour) { return Channel(colour, 24); }

std::string Hex(Colour colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", Channel(colour, 0), Channel(colour, 8),
                     Channel(colour, 16));
}

std::string Fill(Colour colour, double opacity) {
  std::string text = fmt::format("fill=\"{}\"", Hex(colour));
  if (opacity < 0.999) text += fmt::format(" fill-opacity=\"{:.3g}\"", opacity);
  return text;
}

// To a hundredth of a pixel.
std::string Decimal(float value) { return fmt::format("{:.7g}", std::round(value * 100) / 100); }

// Writes one frame, command by command.
class Writer {
 public:
  Writer(const ImDrawData& data, const ReadTexture& read) : data_(data), read_(read) {
    const ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
    atlas_ = atlas.TexID;
    white_ = atlas.TexUvWhitePixel;
  }

  std::string Shapes() {
    for (int l = 0; l < data_.CmdListsCount; ++l) {
      const ImDrawList& list = *data_.CmdLists[l];
      for (const ImDrawCmd& command : list.CmdBuffer) {
        // Callbacks set how the renderer blends, which makes no difference here.
        if (command.UserCallback != nullptr || command.ElemCount == 0) continue;
        Clip(command.ClipRect);
        command.GetTexID() == atlas_ ? Triangles(list, command) : Picture(list, command);
      }
    }
    Flush();
    if (open_) out_ += "</g>\n";
    return "<defs>\n" + defs_ + "</defs>\n" + out_;
  }

 private:
  static const ImDrawVert& Vertex(const ImDrawList& list, const ImDrawCmd& command, unsigned i) {
    return list.VtxBuffer[static_cast<int>(list.IdxBuffer[static_cast<int>(command.IdxOffset + i)] +
                                           command.VtxOffset)];
  }

  // Opens a group for what the rectangle shows; equal ones share a definition.
  void Clip(const ImVec4& rect) {
    const std::tuple key(rect.x, rect.y, rect.z, rect.w);
    const auto [found, is_new] = clips_.try_emplace(key, static_cast<int>(clips_.size()));
    if (is_new) {
      defs_ += fmt::format(
          "<clipPath id=\"c{}\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath>\n",
          found->second, Decimal(rect.x), Decimal(rect.y), Decimal(std::max(0.0F, rect.z - rect.x)),
          Decimal(std::max(0.0F, rect.w - rect.y)));
    }
    if (open_ && clip_ == found->second) return;
    Flush();
    if (open_) out_ += "</g>\n";
    clip_ = found->second;
    open_ = true;
    out_ += fmt::format("<g clip-path=\"url(#c{})\">\n", clip_);
  }

  // Shapes are triangles of the atlas's white pixel or of its lines; glyphs have other places in it
  // and are left to the texts. Two triangles that make an upright rectangle are one.
  void Triangles(const ImDrawList& list, const ImDrawCmd& command) {
    for (unsigned i = 0; i + 2 < command.ElemCount; i += 3) {
      const std::array<const ImDrawVert*, 3> v = {
          &Vertex(list, command, i), &Vertex(list, command, i + 1), &Vertex(list, command, i + 2)};
      const auto is_white = [&](const ImDrawVert* at) {
        return at->uv.x == white_.x && at->uv.y == white_.y;
      };
      if (!std::all_of(v.begin(), v.end(), is_white)) {
        if (i + 5 < command.ElemCount && LinePart(list, command, i, v)) i += 3;
        continue;
      }
      if (i + 5 < command.ElemCount && IsRectangle(list, command, i, v)) {
        SetColour(v);
        path_ += fmt::format("M{} {}H{}V{}H{}Z", Decimal(v[0]->pos.x), Decimal(v[0]->pos.y),
                             Decimal(v[2]->pos.x), Decimal(v[2]->pos.y), Decimal(v[0]->pos.x));
        i += 3;
        continue;
      }
      const float area = (v[1]->pos.x - v[0]->pos.x) * (v[2]->pos.y - v[0]->pos.y) -
                         (v[2]->pos.x - v[0]->pos.x) * (v[1]->pos.y - v[0]->pos.y);
      if (std::abs(area) < 1e-4F) continue;
      SetColour(v);
      path_ += fmt::format("M{} {}L{} {}L{} {}Z", Decimal(v[0]->pos.x), Decimal(v[0]->pos.y),
                           Decimal(v[1]->pos.x), Decimal(v[1]->pos.y), Decimal(v[2]->pos.x),
                           Decimal(v[2]->pos.y));
    }
  }

  // Triangles a b c and a c d with corners a and c.
  static bool IsRectangle(const ImDrawList& list, const ImDrawCmd& command, unsigned i,
                          const std::array<const ImDrawVert*, 3>& v) {
    const ImDrawVert &a = Vertex(list, command, i + 3), &c = Vertex(list, command, i + 4),
                     &d = Vertex(list, command, i + 5);
    return &a == v[0] && &c == v[2] && v[0]->col == v[1]->col && v[1]->col == v[2]->col &&
           d.col == v[0]->col && v[1]->pos.x == v[2]->pos.x && v[1]->pos.y == v[0]->pos.y &&
           d.pos.x == v[0]->pos.x && d.pos.y == v[2]->pos.y;
  }

  // Draws a straight part of a line: triangles of left 2, left 1, right 1 and right 2, right 1,
  // left
  // 2. The atlas's picture of a line has a pixel more on either side, for the smoothed edge.
  // Returns false, if the triangles are something else.
  bool LinePart(const ImDrawList& list, const ImDrawCmd& command, unsigned i,
                const std::array<const ImDrawVert*, 3>& v) {
    if (&Vertex(list, command, i + 4) != v[2] || &Vertex(list, command, i + 5) != v[0]) {
      return false;
    }
    const auto rows = std::span(ImGui::GetIO().Fonts->TexUvLines);
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const ImVec4& at) {
      return at.x == v[0]->uv.x && at.y == v[0]->uv.y && at.z == v[2]->uv.x && at.w == v[2]->uv.y;
    });
    if (row == rows.end() || row == rows.begin()) return false;
    const auto width = static_cast<float>(row - rows.begin());
    const ImDrawVert& right = Vertex(list, command, i + 3);
    const float cut = 1 / (width + 2);  // of the way from one side to the other
    const auto inner = [&](const ImVec2& from, const ImVec2& to) {
      return fmt::format("{} {}", Decimal(from.x + cut * (to.x - from.x)),
                         Decimal(from.y + cut * (to.y - from.y)));
    };
    SetColour({v[0], v[0], v[0]});
    path_ += fmt::format("M{}L{}L{}L{}Z", inner(v[1]->pos, v[2]->pos), inner(v[0]->pos, right.pos),
                         inner(right.pos, v[0]->pos), inner(v[2]->pos, v[1]->pos));
    return true;
  }

  // Smoothed edges fade from the shape's colour to nothing, which is half of it on the mean.
  void SetColour(const std::array<const ImDrawVert*, 3>& v) {
    const auto deepest = *std::max_element(v.begin(), v.end(), [](const auto* a, const auto* b) {
      return Alpha(a->col) < Alpha(b->col);
    });
    double alpha = 0;
    for (const ImDrawVert* const at : v) alpha += Alpha(at->col) / 255.0 / 3;
    const std::string fill = Fill(deepest->col, alpha);
    if (fill == fill_) return;
    Flush();
    fill_ = fill;
  }

  void Flush() {
    if (!path_.empty()) out_ += fmt::format("<path {} d=\"{}\"/>\n", fill_, path_);
    path_.clear();
    fill_.clear();
  }

  void Picture(const ImDrawList& list, const ImDrawCmd& command) {
    Flush();
    ImVec2 low{1e9F, 1e9F}, high{-1e9F, -1e9F};
    for (unsigned i = 0; i < command.ElemCount; ++i) {
      const ImVec2 at = Vertex(list, command, i).pos;
      low = {std::min(low.x, at.x), std::min(low.y, at.y)};
      high = {std::max(high.x, at.x), std::max(high.y, at.y)};
    }
    const std::string bytes = PngBase64(read_(command.GetTexID()));
    if (bytes.empty()) return;
    out_ += fmt::format(
        "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\" "
        "style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{}\"/>\n",
        Decimal(low.x), Decimal(low.y), Decimal(high.x - low.x), Decimal(high.y - low.y), bytes);
  }

  const ImDrawData& data_;
  const ReadTexture& read_;
  ImTextureID atlas_{};
  ImVec2 white_{};
  std::string defs_, out_, path_, fill_;
  std::map<std::tuple<float, float, float, float>, int> clips_;
  int clip_ = -1;
  bool open_ = false;
};

// Whether a text is a character for private use, U+E000 to U+F8FF, which icon fonts use: other
// fonts show a box for it.
bool IsIcon(std::string_view text) {
  return text.size() == 3 &&
         (text.starts_with('\xEE') ||
          (text.starts_with('\xEF') && static_cast<unsigned char>(text[1]) < 0xA4));
}

// A text that its panel cuts lies in a part of its own.
void AddText(const TextRecord& text, std::string& out) {
  const Box& box = text.box;
  const Box shown{std::max(box.x0, text.clip.x0), std::max(box.y0, text.clip.y0),
                  std::min(box.x1, text.clip.x1), std::min(box.y1, text.clip.y1)};
  if (shown.IsEmpty() || text.text.empty() || IsIcon(text.text)) return;
  const bool cut = box.x0 < text.clip.x0 - 1 || box.x1 > text.clip.x1 + 1 ||
                   box.y0 < text.clip.y0 - 1 || box.y1 > text.clip.y1 + 1;
  const Box from = cut ? shown : Box{};
  if (cut) {
    out += fmt::format("<svg x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\">", Decimal(shown.x0),
                       Decimal(shown.y0), Decimal(shown.Width()), Decimal(shown.Height()));
  }
  out += fmt::format(
      "<text x=\"{}\" y=\"{}\" font-size=\"{}\" textLength=\"{}\" "
      "lengthAdjust=\"spacingAndGlyphs\" {}>{}</text>",
      Decimal(box.x0 - from.x0), Decimal(box.y0 - from.y0 + kBaseline * box.Height()),
      Decimal(kFontSize * box.Height()), Decimal(box.Width()),
      Fill(text.colour, Alpha(text.colour) / 255.0), EscapedMarkup(text.text));
  out += cut ? "</svg>\n" : "\n";
}

}  // namespace

std::string PngBase64(const Image& image) {
  if (image.width <= 0 || image.height <= 0) return {};
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = PNG_FORMAT_RGBA;
  png_alloc_size_t size = 0;
  std::vector<unsigned char> bytes;
  if (png_image_write_to_memory(&png, nullptr, &size, 0, image.pixels.data(), 0, nullptr) != 0) {
    bytes.resize(size);
    if (png_image_write_to_memory(&png, bytes.data(), &size, 0, image.pixels.data(), 0, nullptr) ==
        0) {
      bytes.clear();
    }
  }
  png_image_free(&png);
  return Base64(bytes);
}

std::string SvgOf(const ImDrawData& data, const FrameRecord& record, Colour ground,
                  const ReadTexture& read) {
  const std::string width = Decimal(data.DisplaySize.x), height = Decimal(data.DisplaySize.y);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {} {}\" "
      "font-family=\"DejaVu Sans, Liberation Sans, Arial, sans-serif\">\n"
      "<rect width=\"{}\" height=\"{}\" {}/>\n",
      width, height, width, height, width, height, Fill(ground, 1));
  out += Writer(data, read).Shapes();
  for (const TextRecord& text : record.texts) AddText(text, out);
  return out + "</svg>\n";
}

}  // namespace foretrain::ui
