// The parts of the plan view, each drawn into its box, and the state they share.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/config/catalogue/catalogue.h"
#include "ui/view/desktop/desktop_state.h"
#include "ui/view/screens/screen.h"
#include "ui/view_model/planning/plan_list.h"
#include "ui/view_model/planning/plan_search.h"
#include "ui/view_model/planning/scenario_changes.h"

namespace foretrain::ui {

enum class PlanTab : std::uint8_t { kSelected, kRejected, kKept };

struct PlanView {
  // The request.
  PlanSetup setup;
  std::string model_filter, gpu_filter;
  std::string config_path;  // of a config.json; empty: the catalogue's model
  std::string sequence_text, batch_text;
  std::string price_text;  // of a device for one hour
  double price = 0;        // 0: unknown
  bool rates_open = false;
  // Values of the machine as the catalogue has it, for the rates that are not changed.
  std::optional<ClusterSpec> machine;
  std::string problem;  // why the setup cannot be searched

  // The result, as it is shown.
  PlanScatter scatter;
  std::vector<TrainerFront> fronts;  // of the searches so far
  PlanOrder order;
  std::vector<std::size_t> rows;  // plans in the order of the table
  std::optional<std::size_t> selected, hovered;
  bool scroll_to_selected = false;
  std::vector<KeptPlan> kept;
  int first = 0, second = 1;  // of `kept`, compared
  // The changes from the first to the second; null while they are being forecast.
  const ExplainedDifference* difference = nullptr;
  PlanTab tab = PlanTab::kSelected;

  // Requests of this frame.
  bool wants_search = false, wants_cancel = false;
  bool wants_run = false;  // the setup of the run that is open
};

inline constexpr std::size_t kMaxKept = 8;

void DrawSetup(const ScreenFrame& frame, const Box& box, const Catalogue& catalogue,
               const DesktopState& desktop, const PlanSearch& search, PlanView& view);
void DrawScatter(const ScreenFrame& frame, const Box& box, const FoundPlans& found, PlanView& view);
void DrawPlanTable(const ScreenFrame& frame, const Box& box, const FoundPlans& found,
                   PlanView& view);
// Selected plan, why others were rejected, pinned plans.
void DrawPlanDetails(const ScreenFrame& frame, const Box& box, const FoundPlans& found,
                     DesktopState& desktop, PlanView& view);
void DrawStageMemory(const ScreenFrame& frame, const Box& box, const FoundPlans& found,
                     const FoundPlan& plan);
// Shown instead of these parts if nothing was found: the reasons, and changes that would fit.
void DrawNothingFound(const ScreenFrame& frame, const Box& box, const Error& error, PlanView& view);

// Pins a plan, or unpins it if it is pinned.
void KeepOrDrop(const FoundPlans& found, std::size_t plan, PlanView& view);
bool IsKept(const FoundPlans& found, std::size_t plan, const PlanView& view);

}  // namespace foretrain::ui
