#include "ui/view/screens/view_table.h"

#include "base/text.h"
#include "ui/view/screens/compare_screen.h"
#include "ui/view/screens/memory_screen.h"
#include "ui/view/screens/plan_screen.h"
#include "ui/view/screens/ranks_screen.h"
#include "ui/view/screens/run_screen.h"
#include "ui/view/screens/time_screen.h"
#include "ui/view/screens/what_if_screen.h"

namespace foretrain::ui {
namespace {

template <typename Page>
std::unique_ptr<Screen> Make(DesktopState& state) {
  return std::make_unique<Page>(state);
}

}  // namespace

// The only list of views: rail, keys and --view follow it.
const std::vector<ViewEntry>& ViewTable() {
  // One row a view, keys in the order of the rail: plan 1, what-if 2, compare 3, time 4, memory 5,
  // ranks 6, run 7.
  static const std::vector<ViewEntry> table{
      {"plan", "Plan", U'\uf0e8', U'1', false, Make<PlanScreen>},
      {"what-if", "What-if", U'\uf1de', U'2', false, Make<WhatIfScreen>},
      {"compare", "Compare", U'\uf0db', U'3', true, Make<CompareScreen>},
      {"time", "Time", U'\uf017', U'4', true, Make<TimeScreen>},
      {"memory", "Memory", U'\uf1fe', U'5', true, Make<MemoryScreen>},
      {"ranks", "Ranks", U'\uf00a', U'6', true, Make<RanksScreen>},
      {"run", "Run", U'\uf04b', U'7', false, Make<RunScreen>},
  };
  return table;
}

// The error lists all views.
Result<std::size_t> FindView(std::string_view name) {
  std::string names;
  const std::vector<ViewEntry>& table = ViewTable();
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i].name == name) return i;
    names += (i == 0 ? "" : i + 1 == table.size() ? " and " : ", ") + std::string(table[i].name);
  }
  return Fail(ErrorCode::kInvalidArgument, "view \"" + Printable(name) + "\": there is " + names);
}

}  // namespace foretrain::ui
