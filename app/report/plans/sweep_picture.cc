#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "app/report/plans/sweep_report.h"
#include "base/markup.h"
#include "base/text.h"
#include "base/units.h"

namespace foretrain {
namespace {

constexpr double kWidth = 960, kHeight = 480;
constexpr double kLeft = 90, kRight = 220, kTop = 50, kBottom = 60;  // margins of the chart
// Okabe and Ito's colours, which people with colour blindness tell apart.
constexpr std::array kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                 "#e69f00", "#56b4e9", "#000000"};

std::string Label(double x, double y, const char* anchor, std::string_view text,
                  const char* more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     anchor, more, EscapedMarkup(text));
}

// The least of 1, 2, 5 times a power of ten that is at least `value`.
double RoundUp(double value) {
  if (value <= 0) return 1;
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= value) return factor * power;
  }
  return 10 * power;
}

// The points of one line, by their place on the horizontal axis.
struct Line {
  std::string name;
  std::map<std::size_t, double> points;
};

class Chart {
 public:
  explicit Chart(const SweepReport& report) : report_(report) {
    for (const SweepPoint& point : report.points) {
      const std::size_t x = PlaceOf(ticks_, point.values.front());
      Line& line = LineOf(NameOf(point));
      if (!point.best) continue;
      line.points[x] = point.rates.tokens_per_s;
      highest_ = std::max(highest_, point.rates.tokens_per_s);
    }
    step_ = RoundUp(highest_ / 5);
    top_ = step_ * std::max(1.0, std::ceil(highest_ / step_));
  }

  std::string Svg() const {
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
        kWidth, kHeight);
    svg += Label(kLeft, 28, "start", report_.title, " font-size=\"16\"");
    return svg + Axes() + Lines() + "</svg>\n";
  }

 private:
  static std::size_t PlaceOf(std::vector<std::string>& list, const std::string& value) {
    const auto found = std::find(list.begin(), list.end(), value);
    const auto at = static_cast<std::size_t>(found - list.begin());
    if (found == list.end()) list.push_back(value);
    return at;
  }
  Line& LineOf(const std::string& name) {
    for (Line& line : lines_) {
      if (line.name == name) return line;
    }
    return lines_.emplace_back(Line{name, {}});
  }
  // "sequence 8k, precision fp8": the values of all options but the first.
  std::string NameOf(const SweepPoint& point) const {
    std::vector<std::string> parts;
    for (std::size_t i = 1; i < report_.names.size(); ++i) {
      parts.push_back(report_.names[i] + " " + point.values[i]);
    }
    return Join(parts, ", ");
  }

  double X(std::size_t place) const {
    const double all = kWidth - kLeft - kRight;
    const auto count = static_cast<double>(ticks_.size());
    return kLeft + all * (static_cast<double>(place) + 0.5) / count;
  }
  double Y(double value) const {
    return kHeight - kBottom - (kHeight - kTop - kBottom) * value / top_;
  }

  std::string Axes() const {
    std::string svg;
    for (double value = 0; value <= top_ * 1.0001; value += step_) {
      svg += fmt::format(
          "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n",
          kLeft, kWidth - kRight, Y(value), Y(value));
      svg += Label(kLeft - 8, Y(value) + 4, "end", FormatSi(value, ""));
    }
    for (std::size_t i = 0; i < ticks_.size(); ++i) {
      svg += Label(X(i), kHeight - kBottom + 20, "middle", ticks_[i]);
    }
    svg += Label((kLeft + kWidth - kRight) / 2, kHeight - 14, "middle", report_.names.front());
    const double middle = (kTop + kHeight - kBottom) / 2;
    return svg + Label(20, middle, "middle", "tokens/s of a device",
                       fmt::format(" transform=\"rotate(-90 20 {:.1f})\"", middle).c_str());
  }

  std::string Lines() const {
    std::string svg;
    double y = kTop + 10;
    for (std::size_t n = 0; n < lines_.size(); ++n) {
      const char* const colour = kColours[n % kColours.size()];
      std::string path;
      for (const auto& [x, value] : lines_[n].points) {
        path += fmt::format("{}{:.1f},{:.1f} ", path.empty() ? "M" : "L", X(x), Y(value));
        svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n", X(x),
                           Y(value), colour);
      }
      if (!path.empty()) {
        svg += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n",
                           Trim(path), colour);
      }
      if (lines_[n].name.empty()) continue;
      svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n",
                         kWidth - kRight + 20, y - 4, colour);
      svg += Label(kWidth - kRight + 32, y, "start", lines_[n].name);
      y += 20;
    }
    return svg;
  }

  const SweepReport& report_;
  std::vector<std::string> ticks_;
  std::vector<Line> lines_;
  double highest_ = 0, step_ = 1, top_ = 1;
};

}  // namespace

std::string SweepPicture(const SweepReport& report) { return Chart(report).Svg(); }

}  // namespace foretrain
