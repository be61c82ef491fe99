// Ten thousand frames of random mouse input, keys, characters and sizes over all views. Slow:
// thousands of frames of each view. FORETRAIN_FRAMES sets their number.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include "tests/ui/hand_made.h"
#include "tests/ui/headless_frames.h"
#include "tests/ui/item_ids.h"
#include "tests/ui/sample_run.h"
#include "ui/view/desktop/input.h"
#include "ui/view/screens/view_table.h"

namespace foretrain {
namespace {

int Frames() {
  const char* asked = std::getenv("FORETRAIN_FRAMES");
  return asked == nullptr ? 10'000 : std::max(1, std::atoi(asked));
}

class RandomInput : public HeadlessFrames {
 protected:
  // One frame of random input. A seed, not the time, decides what happens.
  void Disturb(std::mt19937_64& engine) {
    ImGuiIO& io = ImGui::GetIO();
    const auto draw = [&engine](std::uint64_t below) { return static_cast<int>(engine() % below); };
    if (draw(3) == 0) {
      io.MousePos = {static_cast<float>(draw(1100)) - 50.0F, static_cast<float>(draw(800)) - 50.0F};
    }
    if (draw(4) == 0) io.MouseDown[0] = !io.MouseDown[0];
    if (draw(40) == 0) io.MouseDown[1] = !io.MouseDown[1];
    // The wheel goes on in one direction for a while, up to the limits of a zoom.
    if (draw(30) == 0) wheel_ = static_cast<float>(draw(11)) - 5.0F;
    if (draw(4) == 0) io.MouseWheel = wheel_;
    if (draw(30) == 0) io.MouseWheelH = static_cast<float>(draw(5)) - 2.0F;
    if (draw(5) == 0) {
      static constexpr std::string_view kKeys = "12345678?hHtToOfFmM[].,qQgzbekxcC/nNuU aA0.-%{";
      io.AddInputCharacter(static_cast<unsigned char>(kKeys[engine() % kKeys.size()]));
    }
    if (draw(50) == 0) io.AddInputCharacter(static_cast<unsigned>(draw(0x2FFF)));
    for (const int key :
         {ui::kKeyA, ui::kKeyD, ui::kKeyS, ui::kKeyW, ui::kKeyEscape, ui::kKeyEnter}) {
      if (draw(25) == 0) io.KeysDown[key] = !io.KeysDown[key];
    }
    if (draw(20) == 0) io.KeyShift = !io.KeyShift;
    if (draw(20) == 0) io.KeyCtrl = !io.KeyCtrl;
    io.KeyMods =
        (io.KeyShift ? ImGuiKeyModFlags_Shift : 0) | (io.KeyCtrl ? ImGuiKeyModFlags_Ctrl : 0);
    if (draw(60) == 0)
      whole_->state().navigation.GoTo(ui::ViewTable()[engine() % ui::ViewTable().size()].name);
  }

  void ExpectSense() {
    for (const std::string& label : last_.labels) {
      ASSERT_FALSE(HoldsNoNumber(label)) << label;
    }
    ASSERT_LE(last_.rectangles, 10'000U);
    const double length_ns = whole_->compare().state().viewport.LengthNs();
    ASSERT_TRUE(std::isfinite(length_ns));
    ASSERT_GE(length_ns, 0.999 * ui::kShortestViewNs);
    ASSERT_THAT(EqualIds(), testing::IsEmpty());
  }

  float wheel_ = 0.0F;
};

// Two buttons of one name, which is one id.
struct TwoButtons final : ui::WindowContent {
  const ui::FrameRecord& Draw(const ui::ViewSize&, const ui::Fonts&, const ui::InputFrame&,
                              ui::ImageSink&) override {
    ImGui::Begin("window");
    ImGui::Button("button");
    ImGui::Button("button");
    ImGui::End();
    return record;
  }
  bool IsMoving() const override { return false; }
  ui::Colour ground() const override { return {}; }
  ui::FrameRecord record;
};

TEST_F(RandomInput, WouldTellOfTwoItemsWithOneId) {
  content_ = std::make_unique<TwoButtons>();
  Frame();
  EXPECT_EQ(EqualIds().size(), 1U);
}

TEST_F(RandomInput, ZoomsNoFurtherThanTheLimits) {
  OpenDesktop(SampleInput({.stages = 2, .layers = 2, .micro_batches = 4}));
  ASSERT_TRUE(whole_->Show("compare").has_value());
  Frame();
  const ui::Extent& all = whole_->compare().model().all;
  const double whole_ns = all.end_ns - all.start_ns;
  MoveTo(500.0F, 300.0F);
  for (int frame = 0; frame < 100; ++frame) Wheel(5.0F);
  const double shortest_ns = whole_->compare().state().viewport.LengthNs();
  EXPECT_GE(shortest_ns, ui::kShortestViewNs);
  EXPECT_LT(shortest_ns, 4 * ui::kShortestViewNs);
  for (int frame = 0; frame < 200; ++frame) Wheel(-5.0F);
  const double longest_ns = whole_->compare().state().viewport.LengthNs();
  EXPECT_LE(longest_ns, ui::kMaxLengths * whole_ns);
  EXPECT_GT(longest_ns, whole_ns);
}

TEST_F(RandomInput, LeavesEveryViewStanding) {
  std::mt19937_64 engine(2026);
  const std::vector<CompareInput> inputs = [] {
    std::vector<CompareInput> all{SampleInput({.stages = 2, .layers = 2, .micro_batches = 4}),
                                  TwoRanks(), CompareInput{}};
    all.push_back({.measured = RunOfSpans({ComputeSpan({}, 5, 5)})});
    all.push_back({.predicted = RunOfSpans({})});
    return all;
  }();
  OpenDesktop(inputs[0]);
  const int frames = Frames();
  for (int frame = 0; frame < frames; ++frame) {
    Disturb(engine);
    Frame();
    ASSERT_NO_FATAL_FAILURE(ExpectSense()) << "frame " << frame;
    // Other runs arrive while a view is shown.
    if (engine() % 400 == 0) {
      const CompareInput& next = inputs[engine() % inputs.size()];
      whole_->state().TakeStore(
          ui::Prepare({.path = std::to_string(frame), .input = next}, {}, /*same_run=*/false));
    }
  }
}

}  // namespace
}  // namespace foretrain
