// Controls of the search: the left side of the plan view.
#include <fmt/format.h>
#include <imgui.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "base/text.h"
#include "ui/view/screens/plan_parts.h"
#include "ui/view/widgets/widgets.h"
#include "ui/view_model/planning/plan_controls.h"

namespace foretrain::ui {
namespace {

void Gap(const ScreenFrame& frame, float units) { ImGui::Dummy({0.0F, frame.canvas.Px(units)}); }

// A list with a text field above it that filters its names.
bool FilterCombo(const ScreenFrame& frame, const char* label, std::string* chosen,
                 std::string* filter, const std::vector<std::string>& names) {
  MutedLabel(frame, std::string_view(label).substr(0, std::string_view(label).find("##")));
  ImGui::SetNextItemWidth(-1.0F);
  frame.canvas.record.labels.push_back(*chosen);
  const std::string id = std::string("##") + label;
  const bool open = ImGui::BeginCombo(id.c_str(), chosen->c_str(), ImGuiComboFlags_HeightLarge);
  Record(frame, label);
  bool used = false;
  if (!open) return used;
  if (ImGui::IsWindowAppearing()) {
    filter->clear();
    ImGui::SetKeyboardFocusHere();
  }
  ImGui::SetNextItemWidth(-1.0F);
  ImGui::InputTextWithHint("##filter", "filter", filter);
  Record(frame, std::string(label) + " filter");
  for (const std::string& name : names) {
    if (ImGui::Selectable(name.c_str(), name == *chosen)) {
      used = name != *chosen;
      *chosen = name;
    }
    Record(frame, name);
  }
  if (names.empty()) MutedLabel(frame, "nothing has these letters");
  ImGui::EndCombo();
  return used;
}

// A count with a label, clamped to 1 to `max`.
void CountField(const ScreenFrame& frame, const char* label, int* value, int max) {
  ImGui::AlignTextToFramePadding();
  MutedLabel(frame, label);
  ImGui::SameLine(frame.canvas.Px(130));
  ImGui::SetNextItemWidth(-1.0F);
  ImGui::PushFont(frame.canvas.fonts.mono);
  ImGui::InputInt((std::string("##") + label).c_str(), value);
  ImGui::PopFont();
  Record(frame, label);
  frame.canvas.record.labels.push_back(std::to_string(*value));
  *value = std::clamp(*value, 1, max);
}

// A number field; empty text selects the automatic value 0. Other text that is no positive number
// leaves the value unchanged.
void NumberText(const ScreenFrame& frame, const char* label, std::string* text,
                std::int64_t* value) {
  if (!TextField(frame, label, text, "auto")) return;
  std::int64_t number = 0;
  const char* const end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, number);
  if (text->empty()) *value = 0;
  if (parsed.ec == std::errc() && parsed.ptr == end && number > 0) *value = number;
}

// A catalogue name, or the path of a config.json, which takes precedence until a name is chosen
// again.
void DrawModel(const ScreenFrame& frame, const Catalogue& catalogue, PlanView& view) {
  Title(frame, "Model");
  if (FilterCombo(frame, "of the catalogue", &view.setup.model, &view.model_filter,
                  ModelNames(catalogue, view.model_filter))) {
    view.config_path.clear();
    view.setup.spec.reset();
  }
  if (TextField(frame, "config.json", &view.config_path, "path, in its place")) {
    view.setup.spec.reset();
  }
  NumberText(frame, "sequence", &view.sequence_text, &view.setup.sequence);
  Tooltip(frame, "Tokens of a sample; auto: what the model was made for, up to 1024");
  NumberText(frame, "global batch", &view.batch_text, &view.setup.global_batch);
  Tooltip(frame, "Samples a step; auto: four million tokens, or what fills the largest pipeline");
}

// Sliders for the machine's parameters. Closing them returns to the catalogue's values.
void DrawOtherRates(const ScreenFrame& frame, const ClusterSpec& cluster, PlanView& view) {
  Toggle(frame, "other rates", &view.rates_open);
  Tooltip(frame, "Rates of the machine that replace the catalogue's");
  if (!view.rates_open) {
    view.setup.other_rates.clear();
    return;
  }
  for (const HardwareField& field : HardwareFields()) {
    const double own = field.In(cluster);
    if (own <= 0) continue;
    const std::string name(field.name);
    const auto given = view.setup.other_rates.find(name);
    double value = given == view.setup.other_rates.end() ? own : given->second;
    if (Slider(frame, name.c_str(), &value, field.low, field.high,
               fmt::format("{:.4g} {}", value, field.unit), true)) {
      view.setup.other_rates[name] = value;
    }
    Tooltip(frame, field.help);
  }
}

// This machine is offered only if its rates are known. Choosing another device drops changed
// parameters.
void DrawCluster(const ScreenFrame& frame, const Catalogue& catalogue, const DesktopState& desktop,
                 PlanView& view) {
  Title(frame, "Cluster");
  std::vector<std::string> names = GpuNames(catalogue, view.gpu_filter);
  if (desktop.plan_start.local) names.insert(names.begin(), std::string(kLocal));
  if (FilterCombo(frame, "device", &view.setup.gpu, &view.gpu_filter, names)) {
    view.setup.other_rates.clear();
  }
  const bool local = view.setup.gpu == kLocal;
  if (!local) {
    CountField(frame, "nodes", &view.setup.nodes, 1 << 17);
    CountField(frame, "devices a node", &view.setup.devices_per_node, 1024);
  }
  std::optional<ClusterSpec> cluster;
  if (local && desktop.plan_start.local) cluster = desktop.plan_start.local->rates.cluster;
  // A cluster that cannot be made has no rates to change.
  if (const auto gpu = FindGpu(catalogue, view.setup.gpu); !local && gpu) {
    if (auto made = MakeCluster(*gpu, view.setup.nodes, view.setup.devices_per_node)) {
      cluster = *std::move(made);
    }
  }
  if (cluster) DrawOtherRates(frame, *cluster, view);
  // Text that is no price leaves the one before, so that typing is not disturbed.
  if (TextField(frame, "price an hour", &view.price_text, "of a device")) {
    const auto price = ParseNumber("price", view.price_text, 0, 1e6);
    if (price.has_value() || view.price_text.empty()) view.price = price.value_or(0.0);
  }
  Tooltip(frame, "Adds what 10^9 tokens cost, in the same currency");
}

// The trainer whose plans are searched. The fronts of earlier searches stay in the plot, to be
// compared.
void DrawTrainer(const ScreenFrame& frame, PlanView& view) {
  if (view.setup.gpu == kLocal) return;
  static const std::vector<std::string> names = TrainerNames();
  const auto at = std::find(names.begin(), names.end(), view.setup.trainer);
  int chosen = static_cast<int>(at - names.begin());
  if (Combo(frame, "trainer", &chosen, names)) {
    view.setup.trainer = names[static_cast<std::size_t>(chosen)];
  }
  Tooltip(frame,
          "Only plans that this trainer runs, with its software; any: what most have. Fronts of "
          "earlier searches stay in the plot");
}

// Plan fields that the user fixes, by their displayed names.
void DrawConstraints(const ScreenFrame& frame, PlanView& view) {
  Title(frame, "Constraints");
  DrawTrainer(frame, view);
  std::optional<std::size_t> dropped;
  for (std::size_t i = 0; i < view.setup.constraints.size(); ++i) {
    Constraint& constraint = view.setup.constraints[i];
    const PlanField* field = FindPlanField(constraint.field);
    if (field == nullptr) continue;
    const std::string label = LabelOf(*field);
    ImGui::PushID(static_cast<int>(i));
    ImGui::AlignTextToFramePadding();
    MutedLabel(frame, label);
    ImGui::SameLine(frame.canvas.Px(130));
    ImGui::SetNextItemWidth(-frame.canvas.Px(34));
    ImGui::PushFont(frame.canvas.fonts.mono);
    ImGui::InputTextWithHint("##value", "1,2,4 or 1..8", &constraint.text);
    ImGui::PopFont();
    Record(frame, "constraint " + label);
    frame.canvas.record.labels.push_back(constraint.text);
    Tooltip(frame, field->help);
    ImGui::SameLine();
    if (ImGui::Button("x")) dropped = i;
    Record(frame, "drop " + label);
    ImGui::PopID();
  }
  if (dropped) {
    view.setup.constraints.erase(view.setup.constraints.begin() +
                                 static_cast<std::ptrdiff_t>(*dropped));
  }
  // A list of all remaining fields; choosing one adds a constraint with its default value.
  std::vector<std::string> names = {"fix an option"};
  std::vector<const PlanField*> fields = {nullptr};
  for (const PlanField& field : PlanFields()) {
    const bool taken = std::any_of(view.setup.constraints.begin(), view.setup.constraints.end(),
                                   [&](const Constraint& c) { return c.field == field.name; });
    if (taken || field.slots != nullptr || field.name == "sequence" || field.name == "global_batch")
      continue;
    names.push_back(LabelOf(field));
    fields.push_back(&field);
  }
  int chosen = 0;
  if (Combo(frame, "##fix an option", &chosen, names) && chosen > 0) {
    const PlanField& field = *fields[static_cast<std::size_t>(chosen)];
    view.setup.constraints.push_back({std::string(field.name), TextOf(field, Plan{})});
  }
}

// Share of the search space, and plans compared so far.
void DrawProgress(const ScreenFrame& frame, const PlanSearch& search) {
  const std::string text =
      fmt::format("{:.0f} %, {} plans", 100 * search.share(), CountText(search.compared()));
  ImGui::PushStyleColor(ImGuiCol_PlotHistogram, frame.canvas.theme.faint);
  ImGui::ProgressBar(static_cast<float>(search.share()), {-1.0F, 0.0F}, text.c_str());
  ImGui::PopStyleColor();
  frame.canvas.record.labels.push_back(text);
}

// The search button stays visible however long the form is.
void DrawAction(const ScreenFrame& frame, const PlanSearch& search, PlanView& view) {
  if (search.IsRunning()) {
    if (Button(frame, "Cancel")) view.wants_cancel = true;
    DrawProgress(frame, search);
  } else if (Button(frame, "Search")) {
    view.wants_search = true;
  }
  if (view.problem.empty()) return;
  ImGui::PushStyleColor(ImGuiCol_Text, frame.canvas.theme.amber);
  ImGui::PushTextWrapPos(0.0F);
  ImGui::TextUnformatted(view.problem.c_str());
  ImGui::PopTextWrapPos();
  ImGui::PopStyleColor();
  frame.canvas.record.labels.push_back(view.problem);
}

}  // namespace

// The form scrolls, the action panel below it is fixed.
void DrawSetup(const ScreenFrame& frame, const Box& box, const Catalogue& catalogue,
               const DesktopState& desktop, const PlanSearch& search, PlanView& view) {
  Box form = box, below = box;
  // A problem needs more lines.
  const float action = frame.canvas.Px(view.problem.empty() ? 78.0F : 150.0F);
  form.y1 = below.y0 = std::max(box.y0, box.y1 - action);
  BeginPanel(frame, form, "plan.setup");
  if (desktop.session.setting() != nullptr) {
    if (Button(frame, "From the open run")) view.wants_run = true;
    Tooltip(frame, "Model, machine, sequence and batch of the run that is shown");
  }
  DrawModel(frame, catalogue, view);
  Gap(frame, 6);
  DrawCluster(frame, catalogue, desktop, view);
  Gap(frame, 6);
  DrawConstraints(frame, view);
  Gap(frame, 6);
  IntSlider(frame, "simulate", &view.setup.simulated, 1, 32);
  Tooltip(frame, "Plans that are simulated op by op at least, best first");
  EndPanel();
  frame.canvas.Fill({below.x0, below.y0, below.x1, below.y0 + 1.0F}, frame.canvas.theme.line);
  BeginPanel(frame, below, "plan.action");
  DrawAction(frame, search, view);
  EndPanel();
}

}  // namespace foretrain::ui
