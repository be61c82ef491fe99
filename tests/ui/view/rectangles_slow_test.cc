// Bounds the rectangles of a frame. Slow: a million spans and their model take over a second to
// create.
#include <gtest/gtest.h>

#include "tests/ui/headless_frames.h"
#include "tests/ui/many_spans.h"

namespace foretrain {
namespace {

constexpr std::size_t kMaxRectangles = 10'000;

class Rectangles : public HeadlessFrames {};

TEST_F(Rectangles, AreAtMostTenThousandForAMillionSpansAtAnyZoom) {
  CompareInput input;
  input.predicted = ManySpans(500'000, 1);
  input.measured = ManySpans(500'000, 2);
  for (const ui::LaneRows rows : {ui::LaneRows::kMerged, ui::LaneRows::kQueues}) {
    Open(input, {.rows = rows});
    MoveTo(430.0F, 300.0F);
    std::size_t max = 0;
    for (int notch = 0; notch < 70; ++notch) {
      const ui::FrameRecord& record = Wheel(1.0F);
      // Spans are painted into a picture; the rest are shapes handed to the renderer.
      const std::size_t painted = record.spans + record.rectangles;
      max = std::max(max, painted);
      ASSERT_LE(painted, kMaxRectangles) << "notch " << notch;
      ASSERT_LE(record.spans, ui::kMaxSpans);
    }
    EXPECT_GT(max, 1000U);
    EXPECT_LT(state().viewport.LengthNs(), 1000.0);
  }
}

}  // namespace
}  // namespace foretrain
