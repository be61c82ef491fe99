// Runs with little or no stored data, in every view: each shows a message or a picture, and no
// label holds "nan" or "inf".
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imgui.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/ui/hand_made.h"
#include "tests/ui/headless_frames.h"
#include "ui/view/screens/view_table.h"

namespace foretrain {
namespace {

// Two ranks with steps `first` to `last`, each starting 400 ns after the previous one.
RunView RunOfSteps(std::int32_t first, std::int32_t last) {
  std::vector<Span> spans;
  for (std::int32_t step = first; step <= last; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      const std::int64_t start = 400 * (step - first) + 100 * rank;
      spans.push_back(ComputeSpan({.rank = rank, .step = step}, start, start + 90));
    }
  }
  return RunOfSpans(std::move(spans));
}

RunView WithoutWindows(RunView run) {
  run.timeline.steps.clear();
  return run;
}

struct SparseCase {
  const char* name;
  CompareInput input;
  const char* compare;  // message of the compare view
  const char* time;     // message of the time view; empty if it shows the run
  const char* memory = "";
  const char* ranks = "";
};

class SparseRuns : public HeadlessFrames {
 protected:
  // Draws all views with mouse and key input, and expects that each shows something.
  void ExpectSenseEverywhere(const SparseCase& of) {
    OpenDesktop(of.input);
    for (const ui::ViewEntry& entry : ui::ViewTable()) {
      ASSERT_TRUE(whole_->Show(entry.name).has_value());
      Frame();
      ExpectSense(of.name, entry.name);
      EXPECT_TRUE(Shows(last_, SentenceOf(of, entry.name))) << of.name << ", " << entry.name;
      for (const char key : std::string("fmcc[]qxbekz,.n")) {
        Type(key);
        ExpectSense(of.name, entry.name);
      }
      for (const float y : {150.0F, 300.0F, 450.0F}) {
        MoveTo(500.0F, y);
        Wheel(3.0F);
        Click(500.0F, y);
        ExpectSense(of.name, entry.name);
      }
    }
  }

  static std::string SentenceOf(const SparseCase& of, std::string_view view) {
    if (view == "compare") return of.compare;
    if (view == "time") return of.time;
    if (view == "memory") return of.memory;
    return view == "ranks" ? of.ranks : "";
  }

  void ExpectSense(const char* name, std::string_view view) {
    EXPECT_GT(last_.labels.size(), 10U) << name << ", " << view;
    for (const std::string& label : last_.labels) {
      EXPECT_FALSE(HoldsNoNumber(label)) << name << ", " << view << ": " << label;
    }
    const ui::Viewport& shown = whole_->compare().state().viewport;
    EXPECT_TRUE(std::isfinite(shown.start_ns) && std::isfinite(shown.end_ns)) << name;
    EXPECT_GT(shown.LengthNs(), 0.0) << name;
  }
};

TEST_F(SparseRuns, AreToldInASentenceOrShownInEveryView) {
  const Span one = ComputeSpan({}, 5, 105);
  const Span point = ComputeSpan({}, 5, 5);
  const std::vector<SparseCase> cases{
      {"nothing", {}, "no store is open", "no store is open"},
      {"predicted alone, no spans",
       {.predicted = RunOfSpans({})},
       "The forecast holds no spans.",
       "no step",
       "memory",
       "no steps to show"},
      {"measured alone, no spans",
       {.measured = RunOfSpans({})},
       "The measured run holds no spans.",
       "no step",
       "memory",
       "no steps to show"},
      {"both without spans",
       {.predicted = RunOfSpans({}), .measured = RunOfSpans({})},
       "The measured run holds no spans.",
       "no step",
       "memory",
       "no steps to show"},
      {"one span",
       {.measured = RunOfSpans({one})},
       "the measurement alone",
       "",
       "memory",
       "rank 0"},
      {"one span each",
       {.predicted = RunOfSpans({one}), .measured = RunOfSpans({one})},
       "rank 0",
       "",
       "memory",
       "rank 0"},
      {"one span without length",
       {.measured = RunOfSpans({point})},
       "rank 0",
       "",
       "memory",
       "rank 0"},
      {"spans without windows",
       {.measured = WithoutWindows(RunOfSpans({one}))},
       "rank 0",
       "",
       "memory",
       "no steps to show"},
      {"spans against none",
       {.predicted = RunOfSpans({}), .measured = RunOfSpans({one})},
       "The forecast holds no spans.",
       "",
       "memory",
       "rank 0"},
      {"prediction alone",
       {.predicted = RunOfSteps(0, 2)},
       "the forecast alone",
       "",
       "memory",
       "rank 1"},
      {"measurement alone",
       {.measured = RunOfSteps(0, 2)},
       "the measurement alone",
       "",
       "memory",
       "rank 1"},
      {"other steps",
       {.predicted = RunOfSteps(0, 0), .measured = RunOfSteps(7, 19)},
       "rank 1",
       "",
       "memory",
       "rank 1"},
      {"more steps forecast",
       {.predicted = RunOfSteps(0, 9), .measured = RunOfSteps(3, 3)},
       "rank 1",
       "",
       "memory",
       "rank 1"},
  };
  for (const SparseCase& of : cases) ExpectSenseEverywhere(of);
}

}  // namespace
}  // namespace foretrain
