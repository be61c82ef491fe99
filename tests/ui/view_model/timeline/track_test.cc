#include "ui/view_model/timeline/track.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "tests/ui/hand_made.h"

namespace foretrain::ui {
namespace {

constexpr auto kForward = static_cast<std::size_t>(Hue::kForward);
constexpr auto kBackward = static_cast<std::size_t>(Hue::kBackward);

std::vector<std::uint32_t> All(const std::vector<Span>& spans) {
  std::vector<std::uint32_t> order(spans.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// Spans in sequence with gaps, lengths from 1 ns to 10^`digits`, all passes mixed.
std::vector<Span> RandomSpans(std::size_t count, double digits, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> exponent(0.0, digits);
  std::vector<Span> spans;
  std::int64_t now = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto length = static_cast<std::int64_t>(std::pow(10.0, exponent(engine)));
    const Pass pass = engine() % 2 == 0 ? Pass::kForward : Pass::kBackward;
    spans.push_back(
        ComputeSpan({.micro_batch = static_cast<int>(i % 1000), .pass = pass}, now, now + length));
    now += length + static_cast<std::int64_t>(engine() % 20);
  }
  return spans;
}

TEST(Track, DrawsWideSpansOneByOneAndFoldsNarrowOnes) {
  const std::vector<Span> spans{ComputeSpan({}, 0, 10), ComputeSpan({.micro_batch = 1}, 10, 12),
                                ComputeSpan({.pass = Pass::kBackward}, 20, 30)};
  const Track track(spans, All(spans));
  // 10 ns a column: the first and last are one column wide, the second a fifth.
  const TrackPicture picture = track.Fold({0.0, 40.0, 4}, 1.0);
  ASSERT_EQ(picture.rects.size(), 2U);
  EXPECT_EQ(picture.rects[0].span, 0U);
  EXPECT_DOUBLE_EQ(picture.rects[1].x0, 2.0);
  EXPECT_DOUBLE_EQ(picture.rects[1].x1, 3.0);
  EXPECT_FLOAT_EQ(picture.columns[1][kForward], 0.2F);
  EXPECT_FLOAT_EQ(picture.columns[1][kBackward], 0.0F);
  EXPECT_FLOAT_EQ(picture.columns[3][kForward], 0.0F);
}

TEST(Track, SharesTheColumnsThatAWideSpanFillsInPart) {
  const std::vector<Span> spans{ComputeSpan({}, 5, 25)};
  const TrackPicture picture = Track(spans, All(spans)).Fold({0.0, 40.0, 4}, 1.0);
  ASSERT_EQ(picture.rects.size(), 1U);
  EXPECT_FLOAT_EQ(picture.columns[0][kForward], 0.5F);
  EXPECT_FLOAT_EQ(picture.columns[1][kForward], 0.0F);
  EXPECT_FLOAT_EQ(picture.columns[2][kForward], 0.5F);
}

TEST(Track, CutsSpansToTheWindow) {
  const std::vector<Span> spans{ComputeSpan({}, 0, 1'000'000)};
  const TrackPicture picture = Track(spans, All(spans)).Fold({400.0, 500.0, 10}, 3.0);
  ASSERT_EQ(picture.rects.size(), 1U);
  EXPECT_DOUBLE_EQ(picture.rects[0].x0, 0.0);
  EXPECT_DOUBLE_EQ(picture.rects[0].x1, 10.0);
}

TEST(Track, FoldsToTheTimeThatEachClassTook) {
  const std::vector<Span> spans = RandomSpans(5000, 2.5, 3);
  const Track track(spans, All(spans));
  const auto end = static_cast<double>(spans.back().end_ns);
  constexpr int kColumns = 77;
  const TrackPicture picture = track.Fold({0.0, end, kColumns}, kColumns + 1.0);
  EXPECT_TRUE(picture.rects.empty());
  std::array<double, 2> busy{};
  for (const Span& span : spans) {
    busy[HueOf(span) == Hue::kForward ? 0 : 1] += static_cast<double>(span.end_ns - span.start_ns);
  }
  std::array<double, 2> shown{};
  for (const HueShares& column : picture.columns) {
    shown[0] += column[kForward] * end / kColumns;
    shown[1] += column[kBackward] * end / kColumns;
    EXPECT_LE(column[kForward] + column[kBackward], 1.0F + 1e-4F);
  }
  // Columns are floats: 77 sums of up to 65 terms, each accurate to 6e-8.
  EXPECT_NEAR(shown[0], busy[0], 1e-5 * busy[0]);
  EXPECT_NEAR(shown[1], busy[1], 1e-5 * busy[1]);
}

TEST(Track, VisitsFewSpansOfAMillion) {
  const std::vector<Span> spans = RandomSpans(1'000'000, 1.0, 4);
  const Track track(spans, All(spans));
  const TrackPicture picture =
      track.Fold({0.0, static_cast<double>(spans.back().end_ns), 1000}, 3.0);
  // 1,000 spans per column in blocks of 32: 31 blocks and the ends of two, cut at each column's
  // edge.
  EXPECT_LT(picture.visited, 1000U * (32 + 64));
  EXPECT_TRUE(picture.rects.empty());
}

TEST(Track, DrawsAtMostAsManyRectanglesAsFit) {
  const std::vector<Span> spans = RandomSpans(200'000, 4.0, 5);
  const Track track(spans, All(spans));
  const auto end = static_cast<double>(spans.back().end_ns);
  for (double length = end; length > 50.0; length /= 3.0) {
    const double start = 0.37 * (end - length);
    const TrackPicture picture = track.Fold({start, start + length, 1200}, 3.0);
    EXPECT_LE(picture.rects.size(), 1200U / 3 + 2);
  }
}

TEST(Track, FindsEachSpanInItsMiddle) {
  const std::vector<Span> spans = RandomSpans(20'000, 5.0, 6);
  const Track track(spans, All(spans));
  for (std::uint32_t i = 0; i < spans.size(); ++i) {
    const double middle =
        (static_cast<double>(spans[i].start_ns) + static_cast<double>(spans[i].end_ns)) / 2;
    ASSERT_EQ(track.Find(middle), i);
  }
}

TEST(Track, FindsTheNearestSpanWithinItsSlack) {
  const std::vector<Span> spans{ComputeSpan({}, 0, 10), ComputeSpan({}, 20, 30)};
  const Track track(spans, All(spans));
  EXPECT_EQ(track.Find(12.0), std::nullopt);
  EXPECT_EQ(track.Find(12.0, 3.0), 0U);
  EXPECT_EQ(track.Find(18.0, 3.0), 1U);
  EXPECT_EQ(track.Find(15.0, 3.0), std::nullopt);
  EXPECT_EQ(track.Find(10.0), std::nullopt);  // a span ends before its end
  EXPECT_EQ(Track(spans, {}).Find(5.0, 100.0), std::nullopt);
}

TEST(Track, SpreadsErrorsOverColumns) {
  const std::vector<Span> spans{ComputeSpan({}, 0, 20), ComputeSpan({}, 20, 30)};
  Track track(spans, All(spans));
  EXPECT_TRUE(track.Fold({0.0, 30.0, 3}, 3.0).errors.empty());
  // The first took 20 ns instead of 15, the second has no counterpart.
  track.SetErrors(std::vector<float>{5.0F, kNoCounterpart});
  const std::vector<ErrorColumn> columns = track.Fold({0.0, 30.0, 3}, 3.0).errors;
  ASSERT_EQ(columns.size(), 3U);
  EXPECT_FLOAT_EQ(columns[0].error_ns, 2.5F);
  EXPECT_FLOAT_EQ(columns[0].paired_ns, 10.0F);
  // 2.5 of 10 measured, 7.5 predicted: a quarter of the longer.
  EXPECT_FLOAT_EQ(columns[1].Relative(), 0.25F);
  EXPECT_FLOAT_EQ(columns[2].unpaired_ns, 10.0F);
  EXPECT_FLOAT_EQ(columns[2].Relative(), 0.0F);
}

TEST(Track, GroupsSpansToSlots) {
  const std::vector<Span> spans{
      ComputeSpan({.micro_batch = 0, .block = 1, .op = 0}, 0, 10),
      ComputeSpan({.micro_batch = 0, .block = 1, .op = 1}, 10, 20),
      ComputeSpan({.micro_batch = 0, .block = 2, .op = 0}, 25, 30),
      ComputeSpan({.micro_batch = 1, .block = 1, .op = 0}, 30, 40),
      ComputeSpan({.micro_batch = 1, .block = 1, .op = 0, .pass = Pass::kBackward}, 40, 60)};
  const std::vector<Slot> slots = Track(spans, All(spans)).Slots();
  ASSERT_EQ(slots.size(), 3U);
  EXPECT_EQ(slots[0].end_ns, 30);
  EXPECT_EQ(slots[0].last, 2U);
  EXPECT_EQ(slots[0].instructions, 2U);
  EXPECT_EQ(slots[1].instructions, 1U);
  EXPECT_EQ(slots[2].start_ns, 40);
}

// A wait between ops of one layer and one between layers; the short wait at 240 divides nothing.
TEST(Track, DividesSlotsAtLongWaits) {
  const std::vector<Span> spans{ComputeSpan({.micro_batch = 0, .block = 1, .op = 0}, 0, 10),
                                ComputeSpan({.micro_batch = 0, .block = 1, .op = 1}, 110, 120),
                                ComputeSpan({.micro_batch = 0, .block = 2, .op = 0}, 220, 240),
                                ComputeSpan({.micro_batch = 0, .block = 2, .op = 1}, 245, 260)};
  const std::vector<Slot> slots = Track(spans, All(spans)).Slots();
  ASSERT_EQ(slots.size(), 3U);
  EXPECT_EQ(slots[0].end_ns, 10);
  EXPECT_EQ(slots[1].start_ns, 110);
  EXPECT_EQ(slots[1].end_ns, 120);
  EXPECT_EQ(slots[2].start_ns, 220);
  EXPECT_EQ(slots[2].end_ns, 260);
  EXPECT_EQ(slots[2].last, 3U);
}

TEST(Track, PacksOverlappingSpansIntoAsFewTracksAsItTakes) {
  const std::vector<Span> spans{ComputeSpan({}, 0, 10), ComputeSpan({}, 5, 15),
                                ComputeSpan({}, 10, 20), ComputeSpan({}, 12, 18)};
  const PackedTracks packed = PackTracks(spans, All(spans));
  ASSERT_EQ(packed.tracks.size(), 3U);  // three run from 12 to 15
  EXPECT_EQ(packed.tracks[0].size(), 2U);
  EXPECT_EQ(packed.tracks[0].IndexAt(1), 2U);
  EXPECT_EQ(packed.left_out, 0);
}

TEST(Track, CountsSpansThatOverlapTooManyOthers) {
  const std::vector<Span> spans(kMaxTracks + 5, ComputeSpan({}, 0, 10));
  const PackedTracks packed = PackTracks(spans, All(spans));
  EXPECT_EQ(packed.tracks.size(), kMaxTracks);
  EXPECT_EQ(packed.left_out, 5);
}

TEST(Track, OfNoSpansIsEmpty) {
  const std::vector<Span> spans;
  const Track track(spans, {});
  EXPECT_TRUE(track.Fold({0.0, 1.0, 5}, 3.0).rects.empty());
  EXPECT_TRUE(track.Slots().empty());
}

}  // namespace
}  // namespace foretrain::ui
