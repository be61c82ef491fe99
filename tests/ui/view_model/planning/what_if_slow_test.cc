// Time of a change in What-if, from request to answer and to the end of the frame that draws it, as
// the desktop requests it. Printed, not asserted; docs/ui.md has the values.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "sim/config/catalogue/catalogue.h"
#include "sim/cost/profile/derive_profile.h"
#include "ui/render/headless.h"
#include "ui/view/desktop/desktop.h"
#include "ui/view/screens/what_if_screen.h"
#include "ui/view/widgets/fonts.h"
#include "ui/view_model/planning/plan_controls.h"
#include "ui/view_model/planning/what_if.h"

namespace foretrain::ui {
namespace {

Scenario ScenarioOf(const std::string& model, const std::string& cluster, const Plan& plan) {
  const auto catalogue = BuiltInCatalogue();
  Scenario out;
  out.model = ResolveModel(model, "test", *catalogue)->model;
  out.cluster = *ParseCluster(cluster, *catalogue);
  out.machine = {out.cluster, DeriveProfile(out.cluster)};
  out.plan = plan;
  return out;
}

struct Turn {
  std::string name;
  std::function<void(Scenario&)> turn;
};

std::int64_t ThreadCpuNs() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec;
}

// Times each change of `turns` from the initial scenario, as the first of its kind.
void Print(const Scenario& start, const std::vector<Turn>& turns) {
  SystemClock clock;
  double worst_s = 0;
  for (const Turn& turn : turns) {
    StepMaker maker(clock);
    ASSERT_TRUE(maker.Make({start, -1}).has_value());
    Scenario turned = start;
    turn.turn(turned);
    const std::int64_t cpu_ns = ThreadCpuNs();
    const auto step = maker.Make({turned, -1});
    const double cpu_s = SecondsFromNs(ThreadCpuNs() - cpu_ns);
    if (!step) {
      std::printf("%-28s refused: %s\n", turn.name.c_str(), step.error().message.c_str());
      continue;
    }
    worst_s = std::max(worst_s, cpu_s);
    std::printf("%-28s %8s wall %8s cpu, step %s\n", turn.name.c_str(),
                FormatSeconds(step->seconds).c_str(), FormatSeconds(cpu_s).c_str(),
                FormatSeconds(step->stats.step_s).c_str());
  }
  std::printf("%-28s %8s\n", "longest, cpu", FormatSeconds(worst_s).c_str());
}

constexpr int kMaxFrames = 1000;

std::string MedianOf(std::vector<double> walls_s) {
  std::sort(walls_s.begin(), walls_s.end());
  return FormatSeconds(walls_s[walls_s.size() / 2]);
}

// The same including drawing: the desktop gets the plan and draws frames of 1600x900 on the CPU
// until the one with its timeline is done.
class Drawn {
 public:
  explicit Drawn(std::unique_ptr<HeadlessView> view) : view_(std::move(view)), desktop_(nullptr) {}

  // Draws `frames_between` more frames after each change. With none, changes follow one another as
  // in a drag; with some, the op-by-op simulation of the previous plan is running.
  void Print(const Scenario& start, const std::vector<Turn>& turns, int frames_between) {
    ASSERT_TRUE(desktop_.Show("what-if").has_value());
    Turned(start);
    std::vector<double> walls_s;
    std::size_t slowest = 0, in_one = 0;
    for (std::size_t i = 0; i < turns.size(); ++i) {
      Scenario turned = start;
      turns[i].turn(turned);
      walls_s.push_back(Turned(turned));
      in_one += frames_ == 1;
      if (walls_s[i] > walls_s[slowest]) slowest = i;
      for (int frame = 0; frame < frames_between; ++frame) Frame();
    }
    std::printf("%-28s %8s median, %8s longest (%s), %zu of %zu in one frame\n",
                frames_between == 0 ? "drawn, in a drag" : "drawn, while simulating",
                MedianOf(walls_s).c_str(), FormatSeconds(walls_s[slowest]).c_str(),
                turns[slowest].name.c_str(), in_one, turns.size());
  }

 private:
  double Frame() {
    const std::int64_t start_ns = clock_.MonotonicNs();
    view_->Frame(desktop_);
    view_->Wait();
    return SecondsFromNs(clock_.MonotonicNs() - start_ns);
  }

  double Turned(const Scenario& scenario) {
    desktop_.state().selection.Pin({"", scenario.model, scenario.cluster, scenario.plan});
    double wall_s = 0;
    for (frames_ = 1; frames_ < kMaxFrames; ++frames_) {
      wall_s += Frame();
      if (dynamic_cast<WhatIfScreen&>(desktop_.screen()).IsAnswered()) break;
    }
    return wall_s;
  }

  std::unique_ptr<HeadlessView> view_;
  Desktop desktop_;
  SystemClock clock_;
  int frames_ = 0;
};

void PrintDrawn(const Scenario& start, const std::vector<Turn>& turns) {
  auto view = HeadlessView::Create({1600, 900, 1}, FontFolders());
  if (!view.has_value()) GTEST_SKIP() << view.error().message;
  Drawn drawn(*std::move(view));
  for (const int frames_between : {0, 2}) drawn.Print(start, turns, frames_between);
}

std::vector<Turn> TurnsOf(const Scenario& start) {
  std::vector<Turn> turns = {{"nothing", [](Scenario&) {}}};
  for (const ControlGroup& group : ControlGroups()) {
    for (const PlanField* field : group.fields) {
      if (field->get == nullptr) continue;
      const auto steps = StepsOf(*field, start.model, start.plan, start.cluster.Devices());
      const std::int64_t own = field->get(start.plan);
      const auto at = std::find(steps.begin(), steps.end(), own);
      const std::int64_t next = at + 1 < steps.end() ? *(at + 1) : steps.front();
      if (next == own) continue;
      turns.push_back({std::string(field->name) + " " + TextOf(*field, next),
                       [field, next](Scenario& scenario) {
                         scenario.plan =
                             WithField(*field, next, scenario.plan, scenario.cluster.Devices());
                       }});
    }
  }
  for (const HardwareField& field : HardwareFields()) {
    if (field.get(start.cluster) <= 0) continue;
    turns.push_back({"machine: " + std::string(field.name), [&field](Scenario& scenario) {
                       field.Set(scenario.cluster, field.In(scenario.cluster) * 1.1);
                     }});
  }
  return turns;
}

TEST(WhatIfSpeed, OfSixtyFourStagesAndFiveHundredTwelveMicroBatches) {
  Plan plan;
  plan.tp = 8;
  plan.pp = 64;
  plan.sequence = 2048;
  plan.global_batch = 512;
  plan.micro_batch = 1;
  plan.precision = Precision::kBf16;
  Scenario start = ScenarioOf("gpt3-175b", "64x8xa100-80gb-sxm", plan);
  start.model.layers = 128;
  Print(start, TurnsOf(start));
  PrintDrawn(start, TurnsOf(start));
}

TEST(WhatIfSpeed, OfEightDevices) {
  Plan plan;
  plan.dp = 2;
  plan.tp = 2;
  plan.pp = 2;
  plan.zero_stage = 1;
  plan.sequence = 8192;
  plan.global_batch = 64;
  plan.micro_batch = 1;
  plan.precision = Precision::kBf16;
  const Scenario start = ScenarioOf("llama3-8b", "1x8xh100-80gb-sxm", plan);
  Print(start, TurnsOf(start));
  PrintDrawn(start, TurnsOf(start));
}

}  // namespace
}  // namespace foretrain::ui
