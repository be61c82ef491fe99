// Texts can be read, and colours can be told apart, also by people who see fewer of them.
#include "ui/view/widgets/theme.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace foretrain::ui {
namespace {

using Vector = std::array<double, 3>;
using Matrix = std::array<Vector, 3>;

// Red, green and blue in [0, 1], linear in light: IEC 61966-2-1.
Vector LinearOf(Colour colour) {
  Vector light{};
  for (int i = 0; i < 3; ++i) {
    const double value = (colour >> (8 * i) & 0xFF) / 255.0;
    light[static_cast<std::size_t>(i)] =
        value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  }
  return light;
}

Vector Times(const Matrix& matrix, const Vector& vector) {
  Vector product{};
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) product[i] += matrix[i][j] * vector[j];
  }
  return product;
}

// Linear light as it is seen: by most people, and without long, medium or short cones (Machado,
// Oliveira and Fernandes 2009, severity 1).
struct Sight {
  const char* name;
  Matrix matrix;
};
constexpr std::array<Sight, 4> kSights{{
    {"trichromacy", {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}}},
    {"protanopia",
     {{{0.152286, 1.052583, -0.204868},
       {0.114503, 0.786281, 0.099216},
       {-0.003882, -0.048116, 1.051998}}}},
    {"deuteranopia",
     {{{0.367322, 0.860646, -0.227968},
       {0.280085, 0.672501, 0.047413},
       {-0.011820, 0.042940, 0.968881}}}},
    {"tritanopia",
     {{{1.255528, -0.076749, -0.178779},
       {-0.078411, 0.930809, 0.147602},
       {0.004733, 0.691367, 0.303900}}}},
}};

// CIE L*a*b* of linear light, for white D65.
Vector LabOf(const Vector& light) {
  constexpr Matrix kXyz{
      {{0.4124, 0.3576, 0.1805}, {0.2126, 0.7152, 0.0722}, {0.0193, 0.1192, 0.9505}}};
  const Vector xyz = Times(kXyz, light);
  const auto f = [](double t) { return t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116.0; };
  const double x = f(xyz[0] / 0.95047), y = f(xyz[1]), z = f(xyz[2] / 1.08883);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

// CIE 1976 difference of two colours as `sight` sees them; 2.3 is just noticeable.
double Distance(Colour a, Colour b, const Sight& sight) {
  const auto seen = [&](Colour colour) {
    Vector light = Times(sight.matrix, LinearOf(colour));
    for (double& part : light) part = std::clamp(part, 0.0, 1.0);
    return LabOf(light);
  };
  const Vector x = seen(a), y = seen(b);
  return std::hypot(x[0] - y[0], x[1] - y[1], x[2] - y[2]);
}

// Black on white is 21 by definition; 767676 is the palest grey that WCAG's own tools pass on
// white.
TEST(Contrast, IsThatOfTheGuidelines) {
  EXPECT_NEAR(Contrast(Rgb(0x000000), Rgb(0xffffff)), 21.0, 1e-9);
  EXPECT_DOUBLE_EQ(Contrast(Rgb(0x336699), Rgb(0x336699)), 1.0);
  EXPECT_NEAR(Contrast(Rgb(0x767676), Rgb(0xffffff)), 4.54, 0.005);
  EXPECT_NEAR(Contrast(Rgb(0xffffff), Rgb(0x777777)), 4.48, 0.005);
  EXPECT_EQ(Readable(Rgb(0x202020), Rgb(0x000000), Rgb(0xffffff)), Rgb(0xffffff));
  EXPECT_EQ(Readable(Rgb(0xe0e0e0), Rgb(0x000000), Rgb(0xffffff)), Rgb(0x000000));
}

class Themes : public testing::TestWithParam<bool> {
 protected:
  const Theme theme_ = GetParam() ? LightTheme() : DarkTheme();
};

TEST_P(Themes, HaveTextsThatCanBeRead) {
  constexpr double kLeast = 4.5;  // level AA
  std::vector<Colour> texts{theme_.text,  theme_.muted,  theme_.faint,    theme_.amber,
                            theme_.worse, theme_.better, theme_.predicted};
  texts.insert(texts.end(), theme_.ranks.begin(), theme_.ranks.end());
  for (const Colour under : {theme_.ground, theme_.panel, theme_.lane}) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_GE(Contrast(texts[i], under), kLeast) << "text " << i;
    }
  }
  for (int i = 0; i < kHueCount; ++i) {
    const Hue hue = static_cast<Hue>(i);
    EXPECT_GE(Contrast(theme_.on_span, theme_.Of(hue)), kLeast) << Name(hue);
    EXPECT_GE(Contrast(theme_.predicted, theme_.Tinted(hue)), kLeast) << Name(hue);
  }
}

TEST_P(Themes, HaveColoursThatAllEyesCanTellApart) {
  const auto apart = [](std::span<const Colour> colours, const std::string& what) {
    for (const Sight& sight : kSights) {
      for (std::size_t i = 0; i < colours.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
          EXPECT_GE(Distance(colours[i], colours[j], sight), 12.0)
              << what << " " << i << " and " << j << ", " << sight.name;
        }
      }
    }
  };
  apart(theme_.hues, "hues");
  apart(theme_.categories, "categories");
  const std::array<Colour, 2> verdicts{theme_.worse, theme_.better};
  apart(verdicts, "worse and better");
}

INSTANTIATE_TEST_SUITE_P(Both, Themes, testing::Bool(),
                         [](const auto& of) { return of.param ? "Light" : "Dark"; });

}  // namespace
}  // namespace foretrain::ui
