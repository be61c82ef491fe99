// The parts of the plan view, each drawn into its box, and the state they share.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/spec/catalogue.h"
#include "ui/view/desktop_state.h"
#include "ui/view/screen.h"
#include "ui/view_model/plan_list.h"
#include "ui/view_model/plan_search.h"

namespace foretrain::ui {

enum class PlanTab : std::uint8_t { kSelected, kRejected, kKept };

struct PlanView {
  // What is asked.
  PlanSetup setup;
  std::string model_filter, gpu_filter;
  std::string config_path;  // of a config.json; empty: the catalogue's model
  std::string sequence_text, batch_text;
  int added_field = 0;  // of the list of options that can be fixed
  bool figures_open = false;
  // Values of the machine as the catalogue has it, for the figures that are not changed.
  std::optional<ClusterSpec> machine;
  std::string problem;  // why the setup cannot be searched

  // What is shown.
  PlanScatter scatter;
  PlanOrder order;
  std::vector<std::size_t> rows;  // plans in the order of the table
  std::optional<std::size_t> selected, hovered;
  bool scroll_to_selected = false;
  std::vector<KeptPlan> kept;
  int first = 0, second = 1;  // of `kept`, compared
  PlanTab tab = PlanTab::kSelected;

  // Asked by a part in this frame.
  bool wants_search = false, wants_cancel = false;
};

inline constexpr std::size_t kMostKept = 8;

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
// In place of all of these where nothing was found: the sentences, and what would fit.
void DrawNothingFound(const ScreenFrame& frame, const Box& box, const Error& error, PlanView& view);

// Pins a plan where it is not pinned yet, else takes it away.
void KeepOrDrop(const FoundPlans& found, std::size_t plan, PlanView& view);
bool IsKept(const FoundPlans& found, std::size_t plan, const PlanView& view);

}  // namespace foretrain::ui
