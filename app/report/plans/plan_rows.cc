#include "app/report/plans/plan_rows.h"

#include <algorithm>
#include <string>

namespace foretrain {
namespace {

std::ptrdiff_t WordsOf(const Plan& plan) {
  const std::string text = Describe(plan);
  return std::count(text.begin(), text.end(), ' ');
}

// Whether `plan` is no alternative to `first`, the fastest plan of its row.
bool IsAlike(const RankedPlan& first, const RankedPlan& plan) {
  return plan.plan.tp == first.plan.tp && plan.plan.pp == first.plan.pp &&
         plan.plan.ep == first.plan.ep &&
         static_cast<double>(plan.device.Needed()) >=
             kSmaller * static_cast<double>(first.device.Needed());
}

}  // namespace

// Each row collects its plans in `alike` first; then the one to show is taken out.
std::vector<PlanRow> RowsOf(const std::vector<RankedPlan>& plans) {
  std::vector<PlanRow> rows;
  for (const RankedPlan& plan : plans) {
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const PlanRow& one) {
      return IsAlike(*one.alike.front(), plan);
    });
    (row == rows.end() ? rows.emplace_back() : *row).alike.push_back(&plan);
  }
  for (PlanRow& row : rows) {
    const double limit_s = row.alike.front()->step_s * (1 + kSimplest);
    auto simplest = row.alike.begin();
    for (auto at = row.alike.begin(); at != row.alike.end() && (*at)->step_s <= limit_s; ++at) {
      if (WordsOf((*at)->plan) < WordsOf((*simplest)->plan)) simplest = at;
    }
    row.shown = *simplest;
    row.alike.erase(simplest);
  }
  return rows;
}

}  // namespace foretrain
