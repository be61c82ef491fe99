// A million spans take over a second to make and to build a model of.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/ui/hand_made.h"
#include "tests/ui/headless_frames.h"

namespace foretrain {
namespace {

constexpr std::size_t kMostRectangles = 10'000;

// `count` spans on 32 ranks and three queues each, lengths from 1 ns to 100 us, of all passes.
RunView MillionSpans(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> exponent(0.0, 5.0);
  std::vector<Span> spans;
  spans.reserve(count);
  std::array<std::array<std::int64_t, 3>, 32> now{};
  for (std::size_t i = 0; i < count; ++i) {
    const auto rank = static_cast<int>(engine() % 32);
    const std::size_t queue = engine() % 3;
    const Place place{.rank = rank,
                      .micro_batch = static_cast<int>(i / 4000),
                      .block = static_cast<int>(engine() % 8),
                      .op = static_cast<int>(engine() % 100),
                      .pass = engine() % 2 == 0 ? Pass::kForward : Pass::kBackward};
    std::int64_t& time = now[static_cast<std::size_t>(rank)][queue];
    const auto length = static_cast<std::int64_t>(std::pow(10.0, exponent(engine)));
    Span span =
        queue == 0 ? ComputeSpan(place, time, time + length) : SendSpan(place, time, time + length);
    if (queue == 2) span.queue = Queue::kRecvPrev;
    spans.push_back(span);
    time += length + static_cast<std::int64_t>(engine() % 1000);
  }
  return RunOfSpans(std::move(spans));
}

class Rectangles : public HeadlessFrames {};

TEST_F(Rectangles, AreAtMostTenThousandForAMillionSpansAtAnyZoom) {
  CompareInput input;
  input.predicted = MillionSpans(500'000, 1);
  input.measured = MillionSpans(500'000, 2);
  for (const ui::LaneRows rows : {ui::LaneRows::kMerged, ui::LaneRows::kQueues}) {
    Open(input, {.rows = rows});
    MoveTo(430.0F, 300.0F);
    std::size_t most = 0;
    for (int notch = 0; notch < 70; ++notch) {
      const ui::FrameRecord& record = Wheel(1.0F);
      most = std::max(most, record.rectangles);
      ASSERT_LE(record.rectangles, kMostRectangles) << "notch " << notch;
      ASSERT_LE(record.spans, ui::kMostSpans);
    }
    EXPECT_GT(most, 1000U);
    EXPECT_LT(state().viewport.LengthNs(), 1000.0);
  }
}

}  // namespace
}  // namespace foretrain
