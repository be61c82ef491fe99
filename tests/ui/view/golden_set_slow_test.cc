// Every view in every state that people meet, in three sizes and both themes: no text is cut, lies
// over another, or has a contrast under 4.5. FORETRAIN_PICTURES=FOLDER keeps the pictures
// (tests/ui/clean_frames.h). Slow: two hundred and ninety-four screens, some with a simulation.
#include <gtest/gtest.h>

#include <string>

#include "tests/ui/clean_frames.h"
#include "tests/ui/golden_states.h"
#include "tests/ui/planning_samples.h"

namespace foretrain {
namespace {

struct GoldenCase {
  FrameSize size{};
  bool light = false;
};

class GoldenSet : public CleanFrames, public testing::WithParamInterface<GoldenCase> {};

TEST_P(GoldenSet, CanBeReadInEveryViewAndState) {
  Resize(GetParam().size);
  for (const GoldenState& state : GoldenStates()) {
    OpenDesktop(state.input);
    whole_->state().light = GetParam().light;
    // A search takes a while, so one is enough; views of a run with a plan start from that.
    if (!state.input.predicted || state.input.predicted->setting == nullptr) {
      whole_->state().plan_start.setup = SampleSetup();
    }
    whole_->state().plan_start.search = state.name == "demo";
    ExpectCleanEverywhere((GetParam().light ? "light " : "dark ") + state.name);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, GoldenSet,
    testing::Values(GoldenCase{{1024, 640}, false}, GoldenCase{{1024, 640}, true},
                    GoldenCase{{1600, 900}, false}, GoldenCase{{1600, 900}, true},
                    GoldenCase{{2560, 1440}, false}, GoldenCase{{2560, 1440}, true}),
    [](const auto& of) {
      return std::to_string(of.param.size.width) + (of.param.light ? "Light" : "Dark");
    });

}  // namespace
}  // namespace foretrain
