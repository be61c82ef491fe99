// The page's content: well-formed, self-contained, with every text escaped, and bounded in size.
#include "app/report/html/html_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "app/report/html/html_text.h"
#include "tests/app/report/html/random_run.h"
#include "traces/palette.h"

namespace foretrain {
namespace {

using testing::HasSubstr;
using testing::Not;

// Checks that elements nest, and that attributes are in quotes. Contents of script and style are
// text. Enough of HTML for pages that we write.
void ExpectWellFormed(const std::string& page) {
  static const std::set<std::string> kVoid{"meta", "rect"};  // rect ends with "/>"
  ASSERT_THAT(page, testing::StartsWith("<!DOCTYPE html>\n"));
  std::vector<std::string> open;
  std::size_t at = 15;
  while ((at = page.find('<', at)) != std::string::npos) {
    const std::size_t end = page.find('>', at);
    ASSERT_NE(end, std::string::npos);
    std::string tag = page.substr(at + 1, end - at - 1);
    at = end + 1;
    const bool closes = tag.starts_with('/');
    const std::string name = tag.substr(closes, tag.find_first_of(" >", 1) - closes);
    if (closes) {
      ASSERT_FALSE(open.empty()) << tag;
      ASSERT_EQ(open.back(), name);
      open.pop_back();
      continue;
    }
    EXPECT_EQ(std::count(tag.begin(), tag.end(), '"') % 2, 0) << tag;
    EXPECT_EQ(tag.find('\''),
              tag.find("'none'") == std::string::npos ? std::string::npos : tag.find('\''))
        << tag;
    if (kVoid.contains(name)) continue;
    open.push_back(name);
    if (name == "script" || name == "style") at = page.find("</" + name, at);
  }
  EXPECT_THAT(open, testing::IsEmpty());
}

nlohmann::json DataOf(const std::string& page) {
  const std::string start = "<script type=\"application/json\" id=\"data\">";
  const std::size_t at = page.find(start) + start.size();
  return nlohmann::json::parse(page.substr(at, page.find("</script>", at) - at));
}

// Two ranks with a forward op of 30 ns and a backward op of 60 ns each, in steps of 100 ns.
StoredRun SmallRun(const std::string& op_name) {
  StoredRun run;
  run.info = {.id = 3, .kind = RunKind::kMeasured, .status = RunStatus::kFinished, .world = 2};
  const OpId forward = PackId({.pass = Pass::kForward, .block = 1}, 0);
  const OpId backward = PackId({.pass = Pass::kBackward, .block = 1}, 0);
  for (int rank = 0; rank < 2; ++rank) {
    for (int step = 0; step < 3; ++step) {
      const std::int64_t start = std::int64_t{100} * step;
      run.timeline.spans.push_back(
          SpanOf(Queue::kCompute, OpClass::kGemm, start, start + 30, forward, rank, step));
      run.timeline.spans.push_back(
          SpanOf(Queue::kCompute, OpClass::kGemm, start + 35, start + 95, backward, rank, step));
      run.timeline.steps.push_back({start, start + 100, step, static_cast<std::int16_t>(rank)});
      run.timeline.memory.push_back({.time_ns = start + 10,
                                     .bytes = std::int64_t{1000} * (step + 1),
                                     .rank = static_cast<std::int16_t>(rank)});
    }
  }
  run.timeline.op_names = {{NameKey(forward), op_name}};
  run.timeline.world = 2;
  SortTimeline(run.timeline);
  return run;
}

std::string PageOf(const StoredRun& run, const std::string& title,
                   const std::vector<std::string>& notes = {}) {
  const Metrics metrics = ComputeMetrics(run.timeline);
  return HtmlPage({.run = &run,
                   .title = title,
                   .metrics = &metrics,
                   .shown = *metrics.overall,
                   .notes = notes});
}

TEST(HtmlReport, IsWellFormedAndNeedsNothingElse) {
  const std::string page = PageOf(SmallRun("mlp.up"), "small");
  ExpectWellFormed(page);
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* link : {"http:", "https:", "//cdn", " src=", " href=", "url(", "import "}) {
    EXPECT_THAT(page, Not(HasSubstr(link))) << link;
  }
  for (const char* part :
       {"id=\"metrics\"", "id=\"time\"", "id=\"memory\"", "id=\"ops\"", "mlp.up"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_THAT(page, Not(HasSubstr("id=\"compare\"")));
}

TEST(HtmlReport, EscapesEachText) {
  const std::string evil = "<script>alert(1)</script>\"'&\x01";
  StoredRun run = SmallRun(evil);
  run.kernels.rows.push_back({.name = evil, .calls = 1, .total_ns = 5});
  const std::string page = PageOf(run, evil, {evil});
  ExpectWellFormed(page);
  // The page's own two scripts, and no third.
  std::size_t scripts = 0;
  for (std::size_t at = page.find("<script"); at != std::string::npos;
       at = page.find("<script", at + 1)) {
    ++scripts;
  }
  EXPECT_EQ(scripts, 2U);
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;\\x01"));
  EXPECT_EQ(DataOf(page).at("ops").at(0).at(0), evil);
}

TEST(HtmlReport, HoldsTheSpansAndTheMemoryOfTheRun) {
  const nlohmann::json data = DataOf(PageOf(SmallRun("mlp.up"), "small"));
  const auto& lanes = data.at("time").at("lanes");
  ASSERT_EQ(lanes.size(), 2U);
  EXPECT_EQ(lanes[1].at("rank"), 1);
  EXPECT_EQ(lanes[1].at("queue"), "compute");
  // Gap, length, op, wait: 0 to 30, then 35 to 95, then 100 to 130.
  const std::vector<std::int64_t> numbers = lanes[0].at("r");
  ASSERT_EQ(numbers.size(), 6U * 4);
  EXPECT_THAT(std::vector(numbers.begin(), numbers.begin() + 10),
              testing::ElementsAre(0, 30, 0, 0, 5, 60, 1, 0, 5, 30));
  EXPECT_EQ(data.at("ops").at(0), (nlohmann::json{"mlp.up", 0, "gemm", "forward block 1 mb 0"}));
  EXPECT_EQ(data.at("time").at("length"), 300);
  EXPECT_EQ(data.at("memory").at(0).at("m"), (nlohmann::json{10, 1000, 110, 2000, 210, 3000}));
}

// Three million spans would be 60 MB as spans.
TEST(HtmlReport, StaysSmallWhateverTheLengthOfTheRun) {
  std::mt19937_64 random(3);
  StoredRun run;
  run.info = {.id = 1, .kind = RunKind::kMeasured, .world = 8};
  run.timeline = RandomRun(random, 8, 40'000);
  const std::string page = PageOf(run, "long");
  EXPECT_LT(page.size(), std::size_t{7} << 20);
  std::size_t numbers = 0;
  const nlohmann::json data = DataOf(page);
  for (const auto& lane : data.at("time").at("lanes")) numbers += lane.at("r").size();
  EXPECT_LE(numbers / 4, static_cast<std::size_t>(kDrawnRectangles) + std::size_t{8} * 15 * 16);
  EXPECT_GE(numbers / 4, static_cast<std::size_t>(kDrawnRectangles) / 4);
}

TEST(HtmlReport, ComparesAStepOfTwoRuns) {
  StoredRun run = SmallRun("mlp.up"), forecast = SmallRun("mlp.up");
  forecast.info.kind = RunKind::kPredicted;
  const Metrics metrics = ComputeMetrics(run.timeline);
  Attribution gap{.predicted_s = 1, .replayed_s = 1.4, .measured_s = 1.5, .unexplained_s = 0.1};
  gap.shares = {{.gap_class = GapClass::kGemm, .seconds = 0.6},
                {.gap_class = GapClass::kAttention, .seconds = -0.2}};
  ComparisonView view;
  view.predicted = view.measured = *metrics.overall;
  view.join = JoinRuns(forecast.timeline, 2, run.timeline, 1);
  view.attribution = &gap;
  const std::string page = HtmlPage({.run = &run,
                                     .title = "small",
                                     .metrics = &metrics,
                                     .shown = *metrics.overall,
                                     .against = &forecast,
                                     .comparison = &view});
  ExpectWellFormed(page);
  EXPECT_THAT(page, HasSubstr("<td>gemm</td><td class=\"number\">+600 ms</td>"
                              "<td class=\"number\">+40.0 %</td>"));
  EXPECT_THAT(page, HasSubstr("<td>attention</td><td class=\"number\">-200 ms</td>"));
  EXPECT_THAT(page, HasSubstr("<td>gap</td><td class=\"number\">+500 ms</td>"));
  // Both sides begin at 0: steps are aligned.
  const nlohmann::json compare = DataOf(page).at("compare");
  EXPECT_EQ(compare.at("predicted").at("lanes").at(0).at("r").at(0), 0);
  EXPECT_EQ(compare.at("measured").at("lanes").at(0).at("r").at(0), 0);
  EXPECT_EQ(compare.at("measured").at("length"), 100);
}

// Relative luminance of 0xRRGGBB; channels are linear in light by IEC 61966-2-1.
double LuminanceOf(std::uint32_t colour) {
  const auto linear = [colour](int shift) {
    const double value = (colour >> shift & 0xFF) / 255.0;
    return value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(16) + 0.7152 * linear(8) + 0.0722 * linear(0);
}

double Contrast(std::uint32_t a, std::uint32_t b) {
  const double x = LuminanceOf(a) + 0.05, y = LuminanceOf(b) + 0.05;
  return std::max(x, y) / std::min(x, y);
}

std::uint32_t Mixed(std::uint32_t under, std::uint32_t over, double share) {
  std::uint32_t mixed = 0;
  for (const int shift : {0, 8, 16}) {
    const double channel = (under >> shift & 0xFF) * (1 - share) + (over >> shift & 0xFF) * share;
    mixed |= static_cast<std::uint32_t>(std::lround(channel)) << shift;
  }
  return mixed;
}

// Level AA of the Web Content Accessibility Guidelines. Forecast spans are drawn with 30 % of their
// colour on the panel.
TEST(HtmlReport, HasTextsThatCanBeRead) {
  EXPECT_THAT(PageOf(SmallRun("mlp.up"), "small"), HasSubstr("isForecast ? 0.3 : 1"));
  for (const Palette& palette : {kDarkPalette, kLightPalette}) {
    for (const std::uint32_t under : {palette.ground, palette.panel}) {
      EXPECT_GE(Contrast(palette.text, under), 4.5);
      EXPECT_GE(Contrast(palette.muted, under), 4.5);
    }
    for (const std::uint32_t work : palette.works) {
      EXPECT_GE(Contrast(palette.on_span, work), 4.5);
      EXPECT_GE(Contrast(palette.predicted, Mixed(palette.panel, work, 0.3)), 4.5) << work;
    }
  }
}

TEST(HtmlText, WritesNoTableWithoutRows) { EXPECT_EQ(HtmlTable({"a", ">b"}, {}), ""); }

TEST(HtmlText, AlignsNumbersAndEscapesTitles) {
  const std::string table = HtmlTable({"a<b", ">n"}, {{"x"}});
  EXPECT_THAT(table,
              HasSubstr("<th scope=\"col\">a&lt;b</th><th scope=\"col\" class=\"number\">n"));
  EXPECT_THAT(table, HasSubstr("<tr><td>x</td><td class=\"number\"></td></tr>"));
}

}  // namespace
}  // namespace foretrain
