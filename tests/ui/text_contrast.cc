#include "tests/ui/text_contrast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include "ui/view/widgets/theme.h"

namespace foretrain {
namespace {

using ui::Colour;

constexpr double kCovers = 0.2;  // share of a text's box from which a colour counts as its ground
constexpr int kLeastPixels = 24;

int Channel(Colour colour, int shift) { return static_cast<int>(colour >> shift & 0xFF); }

// Whether a colour may be the letters': they are tinted by bands that are drawn over them.
constexpr int kTint = 36;
bool IsLetters(Colour colour, Colour text, int tint) {
  return std::abs(Channel(colour, 0) - Channel(text, 0)) <= tint &&
         std::abs(Channel(colour, 8) - Channel(text, 8)) <= tint &&
         std::abs(Channel(colour, 16) - Channel(text, 16)) <= tint;
}

// Whether `colour` is a mixture of the other two, as the edges of letters are.
bool IsBetween(Colour colour, Colour a, Colour b) {
  double along = 0.0, length = 0.0;
  for (const int shift : {0, 8, 16}) {
    const double by = Channel(b, shift) - Channel(a, shift);
    along += by * (Channel(colour, shift) - Channel(a, shift));
    length += by * by;
  }
  if (!(length > 0.0)) return false;
  const double share = std::clamp(along / length, 0.0, 1.0);
  double off = 0.0;
  for (const int shift : {0, 8, 16}) {
    const double at = Channel(a, shift) + share * (Channel(b, shift) - Channel(a, shift));
    off = std::max(off, std::abs(at - Channel(colour, shift)));
  }
  return share > 0.02 && off <= 6.0;
}

// The colours under a text, the most frequent one first.
std::vector<Colour> GroundsOf(const ui::TextRecord& text, const ui::Image& image) {
  const int x0 = std::max(0, static_cast<int>(std::ceil(std::max(text.box.x0, text.clip.x0))));
  const int y0 = std::max(0, static_cast<int>(std::ceil(std::max(text.box.y0, text.clip.y0))));
  const int x1 =
      std::min(image.width, static_cast<int>(std::floor(std::min(text.box.x1, text.clip.x1))));
  const int y1 =
      std::min(image.height, static_cast<int>(std::floor(std::min(text.box.y1, text.clip.y1))));
  std::map<Colour, int> counts;
  int all = 0;
  for (int y = y0; y < y1; ++y) {
    for (int x = x0; x < x1; ++x) {
      const std::size_t at = static_cast<std::size_t>(y) * static_cast<std::size_t>(image.width) +
                             static_cast<std::size_t>(x);
      ++counts[image.pixels[at] | 0xFF000000U];
      ++all;
    }
  }
  std::vector<std::pair<int, Colour>> found;
  for (const auto& [colour, count] : counts) found.emplace_back(count, colour);
  std::sort(found.rbegin(), found.rend());
  std::vector<Colour> grounds;
  for (const auto& [count, colour] : found) {
    if (all < kLeastPixels) break;
    // Icons fill up to two thirds of their box. More is a ground of the text's own colour.
    constexpr double kLetters = 0.8;
    const bool letters = (text.colour >> 24) == 0xFF && IsLetters(colour, text.colour, 3);
    if (letters && count < kLetters * all) continue;
    const bool covers = count >= kCovers * all && !grounds.empty() &&
                        !IsLetters(colour, text.colour, kTint) &&
                        !IsBetween(colour, grounds[0], text.colour);
    if (grounds.empty() || covers) grounds.push_back(colour);
  }
  return grounds;
}

}  // namespace

std::vector<std::string> ContrastProblems(const ui::FrameRecord& record, const ui::Image& image) {
  std::vector<std::string> problems;
  for (const ui::TextRecord& text : record.texts) {
    if (text.disabled) continue;
    for (const Colour ground : GroundsOf(text, image)) {
      const float alpha = static_cast<float>(Channel(text.colour, 24)) / 255.0F;
      const double contrast =
          ui::Contrast(ui::Mixed(ground, text.colour | 0xFF000000U, alpha), ground);
      if (contrast >= kLeastContrast) continue;
      problems.push_back(fmt::format(
          "\"{}\" at {:.0f},{:.0f}: contrast {:.2f} of {:02x}{:02x}{:02x} on {:02x}{:02x}{:02x}",
          text.text, text.box.x0, text.box.y0, contrast, Channel(text.colour, 0),
          Channel(text.colour, 8), Channel(text.colour, 16), Channel(ground, 0), Channel(ground, 8),
          Channel(ground, 16)));
    }
  }
  return problems;
}

}  // namespace foretrain
