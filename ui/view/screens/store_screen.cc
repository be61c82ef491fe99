#include "ui/view/screens/store_screen.h"

#include <imgui.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/io/file_system.h"
#include "base/units.h"
#include "ui/view/desktop/input.h"
#include "ui/view/widgets/widgets.h"

namespace foretrain::ui {
namespace {

constexpr float kWidth = 860.0F;
constexpr std::size_t kMaxRecentShown = 6;

using Advice = std::pair<const char*, const char*>;
constexpr std::array<Advice, 3> kCommands{{
    {"foretrain demo", "measure this machine, plan, train and compare, in about a minute"},
    {"foretrain train --model gpt-10m --data text.txt", "record a run, with its forecast"},
    {"foretrain predict --model gpt2-124m --pp 2 --global-batch 8 --store foretrain.db",
     "forecast a plan without running it"},
}};

void DrawCommands(const ScreenFrame& frame) {
  Title(frame, "Make a store");
  for (const auto& [command, what] : kCommands) {
    NumberText(frame, command);
    MutedLabel(frame, what);
  }
}

}  // namespace

// Only leaves a request. The loader opens the store on its own thread, and the shown runs stay
// until it is read.
void StoreScreen::Open(const std::string& path, RunId run, RunId against) {
  desktop_.stores.wanted = StoreRequest{path, run, against};
  desktop_.stores.error.clear();
}

// Enter and the button do the same. Under the field stands the last error or a hint, never both.
void StoreScreen::DrawPath(const ScreenFrame& frame) {
  Title(frame, "Open a store");
  TextField(frame, "##store path", &path_, "path of a store, such as foretrain.db",
            frame.canvas.Px(90));
  // Enter counts only if the text was edited.
  const bool entered = ImGui::IsItemDeactivatedAfterEdit() && ImGui::IsKeyPressed(kKeyEnter, false);
  ImGui::SameLine();
  if ((Button(frame, "Open", !path_.empty()) || entered) && !path_.empty()) Open(path_);
  if (!desktop_.stores.opening.empty()) MutedLabel(frame, "Reading " + desktop_.stores.opening);
  if (!desktop_.stores.error.empty()) {
    Paragraph(frame, desktop_.stores.error, frame.canvas.theme.amber);
  } else {
    Paragraph(frame, "Or drop a store or a trace onto this window.");
  }
}

// Each path is a link that opens the store with its newest run.
void StoreScreen::DrawRecent(const ScreenFrame& frame) {
  if (desktop_.stores.recent.empty()) return;
  ImGui::Spacing();
  Title(frame, "Recent stores");
  for (std::size_t i = 0; i < std::min(desktop_.stores.recent.size(), kMaxRecentShown); ++i) {
    ImGui::PushID(static_cast<int>(i));
    const std::string path = desktop_.stores.recent[i];
    if (LinkButton(frame, path.c_str())) Open(path);
    ImGui::PopID();
  }
}

// One row with two buttons: "show" changes the run, "against" changes what it is compared with.
void StoreScreen::DrawRun(const ScreenFrame& frame, const RunInfo& run) {
  ImGui::TableNextRow();
  ImGui::PushID(static_cast<int>(run.id));
  const std::string number = std::to_string(run.id);
  NumberCell(frame, number);
  Cell(frame, std::string(Name(run.kind)));
  Cell(frame, std::string(Name(run.status)));
  Cell(frame, run.label);
  const double step = run.Metric("step_time_s").value_or(0.0);
  NumberCell(frame, step > 0.0 ? FormatSeconds(step) : "-");
  ImGui::TableNextColumn();
  if (run.id == desktop_.session.shown().run) {
    MutedLabel(frame, "shown");
  } else {
    if (SmallButton(frame, "show", "show run " + number))
      Open(desktop_.session.shown().path, run.id);
    ImGui::SameLine();
    if (SmallButton(frame, "against", "against run " + number)) {
      Open(desktop_.session.shown().path, desktop_.session.shown().run, run.id);
    }
  }
  ImGui::PopID();
}

// Newest first. Only the visible rows are drawn, so a store may have thousands of runs.
void StoreScreen::DrawRuns(const ScreenFrame& frame, float height) {
  ImGui::Spacing();
  Title(frame, "Runs of " + desktop_.session.shown().path);
  const std::vector<std::string> columns{"run", "kind", "status", "label", "step time", ""};
  if (!BeginTable(frame, "runs", columns, /*sortable=*/false, /*sorted_by=*/-1, height)) return;
  ImGuiListClipper clipper;
  const auto count = static_cast<int>(desktop_.session.runs().size());
  clipper.Begin(count);
  while (clipper.Step()) {
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
      DrawRun(frame, desktop_.session.runs()[static_cast<std::size_t>(count - 1 - i)]);
    }
  }
  EndTable();
}

// A link that opens the view behind this panel again, with `foretrain view FILE.ftlink`.
void StoreScreen::DrawShare(const ScreenFrame& frame) {
  if (desktop_.session.shown().path.empty()) return;
  ImGui::Spacing();
  Title(frame, "Share this view");
  TextField(frame, "##link path", &link_, "file of a link, such as slow-step.ftlink",
            frame.canvas.Px(90));
  ImGui::SameLine();
  if (Button(frame, "Save link", !link_.empty())) {
    if (!link_.ends_with(kViewLinkEnding)) link_ += kViewLinkEnding;
    ViewLink link = desktop_.link;
    link.store = desktop_.session.shown();
    link.store.path = StoreForLink(link.store.path, link_);
    link.view = desktop_.view;
    link.light = desktop_.light;
    PosixFileSystem files;
    const auto saved = WriteFileAtomically(files, link_, ToJson(link));
    shared_ = saved.has_value() ? "foretrain view " + link_ : saved.error().message;
  }
  if (!shared_.empty()) NumberText(frame, shared_);
}

// A column in the middle: path, recent stores, runs of the open store, commands that make a first
// one.
void StoreScreen::Draw(const ScreenFrame& frame) {
  const float width = std::min(frame.canvas.Px(kWidth), frame.box.Width());
  const float x0 = std::round((frame.box.x0 + frame.box.x1 - width) / 2);
  const float y0 = frame.box.y0 + std::min(frame.canvas.Px(28), 0.05F * frame.box.Height());
  BeginPanel(frame, {x0, y0, x0 + width, frame.box.y1}, "stores");
  DrawPath(frame);
  DrawRecent(frame);
  if (!desktop_.session.runs().empty()) {
    // As high as its rows and their header, so that what is below stays in sight.
    const float row = ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().CellPadding.y;
    const float rows = (static_cast<float>(desktop_.session.runs().size()) + 1.5F) * row;
    DrawRuns(frame, std::min(rows, 0.5F * frame.box.Height()));
  }
  DrawShare(frame);
  ImGui::Spacing();
  DrawCommands(frame);
  EndPanel();
}

std::vector<HelpLine> StoreScreen::Help() const {
  return {{"show", "the run, against its forecast"},
          {"against", "compare the shown run with this one"},
          {"O", "back to the view"}};
}

}  // namespace foretrain::ui
