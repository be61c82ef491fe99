// Controls of the what-if view, generated from the table of plan fields and the table of machine
// rates.
#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/catalogue/catalogue.h"
#include "sim/config/plan/plan_values.h"
#include "ui/view/screens/what_if_parts.h"
#include "ui/view/widgets/widgets.h"
#include "ui/view_model/planning/plan_controls.h"

namespace foretrain::ui {
namespace {

constexpr double kMaxNumber = 16;  // maximum of a slider whose field has no smaller limit
constexpr int kMaxNodes = 1 << 14;

// Draws all controls of one frame and collects what was used. Controls change the scenario in
// place.
class Controls {
 public:
  Controls(const ScreenFrame& frame, const ControlState& state, Scenario& scenario,
           std::string& list_text)
      : frame_(frame),
        state_(state),
        pinned_(state.pinned),
        scenario_(scenario),
        list_text_(list_text) {}

  ControlUse Draw() {
    DrawButtons();
    for (const ControlGroup& group : ControlGroups()) DrawGroup(group);
    DrawMachine();
    return use_;
  }

 private:
  int Devices() const { return scenario_.cluster.Devices(); }

  // Buttons only report their use; the screen acts on it.
  void DrawButtons() {
    if (Button(frame_, "Pin this")) use_.pin = true;
    Tooltip(frame_, "Compare changes with this plan from here on");
    ImGui::SameLine();
    if (Button(frame_, "Back to pinned")) use_.reset = true;
    ImGui::SameLine();
    if (Button(frame_, "Run")) use_.run = true;
    Tooltip(frame_, "Train it on this machine");
    if (Button(frame_, "Undo", state_.can_undo)) use_.undo = true;
    Tooltip(frame_, "Take back the last change (Z)");
    ImGui::SameLine();
    if (Button(frame_, "Redo", state_.can_redo)) use_.redo = true;
    Tooltip(frame_, "Make it again (Y)");
    if (!state_.has_run) return;
    ImGui::SameLine();
    if (Button(frame_, "From the open run")) use_.from_run = true;
    Tooltip(frame_, "Model, plan and rates of the run that is shown");
  }

  // Returns whether the group is open.
  bool Header(std::string_view name, bool open) {
    const std::string label(name);
    ImGui::PushFont(frame_.canvas.fonts.bold);
    const bool shown = ImGui::CollapsingHeader(
        label.c_str(), open ? ImGuiTreeNodeFlags_DefaultOpen : ImGuiTreeNodeFlags_None);
    ImGui::PopFont();
    Record(frame_, label);
    frame_.canvas.record.labels.push_back(label);
    return shown;
  }

  // The most used groups are open at first. A group is a header with one control per field that
  // applies.
  void DrawGroup(const ControlGroup& group) {
    const bool open = group.name == "parallel" || group.name == "batch" ||
                      group.name == "schedule" || group.name == "memory";
    if (!Header(group.name, open)) return;
    for (const PlanField* field : group.fields) {
      if (!Applies(*field)) continue;
      ImGui::PushID(field->name.data(), field->name.data() + field->name.size());
      DrawField(*field);
      Tooltip(frame_, field->help);
      MarkChange(*field);
      ImGui::PopID();
    }
  }

  // Whether to show the field: those of experts and of an encoder only for models that have some.
  bool Applies(const PlanField& field) const {
    if (field.name == "encoder_sequence") return scenario_.model.HasEncoder();
    if (field.slots != nullptr) return !scenario_.plan.slots.empty();
    constexpr std::array<std::string_view, 5> kExperts = {"ep", "expert_tp", "moe_pieces",
                                                          "capacity_factor", "expert_headroom"};
    const bool experts = std::find(kExperts.begin(), kExperts.end(), field.name) != kExperts.end();
    return !experts || scenario_.model.experts > 0;
  }

  // The type of a field selects its control: text for lists, slider for numbers, toggle for flags,
  // list for choices.
  void DrawField(const PlanField& field) {
    const std::string label = LabelOf(field);
    if (field.list != nullptr) return DrawList(field, label);
    if (field.number != nullptr) return DrawNumber(field, label);
    if (field.slots != nullptr) {
      return MutedLabel(frame_, label + ": " + TextOf(field, scenario_.plan));
    }
    const std::int64_t own = field.get(scenario_.plan);
    if (field.type == PlanFieldType::kFlag) {
      bool on = own != 0;
      if (Toggle(frame_, label.c_str(), &on)) Set(field, on ? 1 : 0);
      return;
    }
    if (field.type == PlanFieldType::kChoice) {
      std::vector<std::string> names(field.choices.begin(), field.choices.end());
      int chosen = static_cast<int>(own);
      if (Combo(frame_, label.c_str(), &chosen, names)) Set(field, chosen);
      return;
    }
    if (field.type == PlanFieldType::kNames) return DrawNames(field, label, own);
    DrawSteps(field, label, own);
  }

  // A toggle for each name of a set, below the name of the field: both in one line would not fit.
  void DrawNames(const PlanField& field, const std::string& label, std::int64_t own) {
    MutedLabel(frame_, label + ":");
    for (std::size_t i = 0; i < field.choices.size(); ++i) {
      const std::int64_t bit = std::int64_t{1} << i;
      bool on = (own & bit) != 0;
      const std::string text = "  " + std::string(field.choices[i]);
      if (Toggle(frame_, text.c_str(), &on)) Set(field, on ? own | bit : own & ~bit);
    }
  }

  // A slider over the values that are valid for this field.
  void DrawSteps(const PlanField& field, const std::string& label, std::int64_t own) {
    const std::vector<std::int64_t> steps =
        StepsOf(field, scenario_.model, scenario_.plan, Devices());
    const auto at = std::lower_bound(steps.begin(), steps.end(), own) - steps.begin();
    // The slider moves over positions, so that values of any spacing are equally far apart.
    auto place = static_cast<double>(at);
    const double max = std::max<double>(1, static_cast<double>(steps.size()) - 1);
    if (!Slider(frame_, label.c_str(), &place, 0, max, TextOf(field, own))) return;
    const auto chosen = static_cast<std::size_t>(
        std::clamp<double>(std::round(place), 0, static_cast<double>(steps.size()) - 1));
    if (steps[chosen] != own) Set(field, steps[chosen]);
  }

  // A slider with two decimals; the loss scale is logarithmic, and values below 1 become 0.
  void DrawNumber(const PlanField& field, const std::string& label) {
    double value = scenario_.plan.*field.number;
    const bool scale = field.name == "loss_scale";
    const double max = scale ? 65536 : std::min(field.max, kMaxNumber);
    if (!Slider(frame_, label.c_str(), &value, 0, std::max(max, value),
                TextOf(field, scenario_.plan), scale)) {
      return;
    }
    scenario_.plan.*field.number = scale && value < 1 ? 0 : std::round(value * 100) / 100;
    use_.changed = true;
  }

  // Text that is not a valid list yet leaves the plan unchanged, so that typing is not disturbed.
  void DrawList(const PlanField& field, const std::string& label) {
    if (!TextField(frame_, label.c_str(), &list_text_, "even, or 3,2,3")) return;
    Plan plan = scenario_.plan;
    (plan.*field.list).clear();
    if (!list_text_.empty() && !SetPlanField(field, list_text_, plan)) return;  // still typing
    scenario_.plan = plan;
    use_.changed = true;
  }

  // Goes through WithField, which lets dp absorb a changed degree, so that the number of ranks
  // stays.
  void Set(const PlanField& field, std::int64_t value) {
    scenario_.plan = WithField(field, value, scenario_.plan, Devices());
    use_.changed = true;
  }

  // Marks a field that differs from the pinned plan, with the pinned value as tooltip.
  void MarkChange(const PlanField& field) {
    if (pinned_ == nullptr || TextOf(field, pinned_->plan) == TextOf(field, scenario_.plan)) return;
    Mark();
    if (ImGui::IsItemHovered()) Tooltip(frame_, "pinned: " + TextOf(field, pinned_->plan));
  }
  void Mark() {
    const ImVec2 low = ImGui::GetItemRectMin(), high = ImGui::GetItemRectMax();
    const float x = ImGui::GetWindowPos().x + frame_.canvas.Px(3);
    ImGui::GetWindowDrawList()->AddRectFilled({x, low.y + 3}, {x + frame_.canvas.Px(3), high.y - 3},
                                              frame_.canvas.theme.text);
  }

  // Parameters that the machine does not have are left out. A change is relative to the pinned
  // machine.
  void DrawMachine() {
    if (!Header("machine", true)) return;
    ImGui::PushID("machine");
    DrawNodes();
    for (const HardwareField& field : HardwareFields()) {
      double value = field.In(scenario_.cluster);
      if (field.In(scenario_.machine.cluster) <= 0) continue;
      const std::string name(field.name);
      if (Slider(frame_, name.c_str(), &value, std::min(field.low, value),
                 std::max(field.high, value), fmt::format("{:.4g} {}", value, field.unit), true)) {
        field.Set(scenario_.cluster, value);
        use_.changed = true;
      }
      Tooltip(frame_, field.help);
      if (pinned_ != nullptr && field.In(pinned_->cluster) != field.In(scenario_.cluster)) Mark();
    }
    ImGui::PopID();
  }

  // Changing the number of nodes rescales dp if the other degrees allow it, so that the plan stays
  // valid. A cluster of one node gets a default network.
  void DrawNodes() {
    ClusterSpec& cluster = scenario_.cluster;
    if (cluster.is_cpu) return;
    double place = std::log2(cluster.nodes);
    if (!Slider(frame_, "nodes", &place, 0, std::log2(kMaxNodes), std::to_string(cluster.nodes))) {
      return;
    }
    // Powers of two only.
    const int nodes = 1 << static_cast<int>(std::lround(place));
    if (nodes == cluster.nodes) return;
    cluster.nodes = scenario_.machine.cluster.nodes = nodes;
    if (cluster.network_bytes_per_s <= 0) {
      cluster.network_bytes_per_s = kUsualNetworkBytesPerS;
      scenario_.machine.cluster.network_bytes_per_s = cluster.network_bytes_per_s;
    }
    const PlanField& dp = PlanFieldOf("dp");
    const Plan& plan = scenario_.plan;
    const int others = plan.cp * plan.tp * plan.pp;
    if (Devices() % others == 0) {
      scenario_.plan = WithField(dp, Devices() / others, plan, Devices());
    }
    use_.changed = true;
  }

  const ScreenFrame& frame_;
  const ControlState& state_;
  const Scenario* pinned_;
  Scenario& scenario_;
  std::string& list_text_;
  ControlUse use_;
};

}  // namespace

ControlUse DrawControls(const ScreenFrame& frame, const Box& box, const ControlState& state,
                        Scenario& scenario, std::string& list_text) {
  BeginPanel(frame, box, "what-if.controls");
  const ControlUse use = Controls(frame, state, scenario, list_text).Draw();
  EndPanel();
  return use;
}

}  // namespace foretrain::ui
