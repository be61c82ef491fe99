#include "ui/view_model/panels/wait_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "base/units.h"

namespace foretrain::ui {
namespace {

struct BubbleText {
  std::string_view name;
  std::string_view explained;
  double BubbleCauses::*part;
};
constexpr std::array kBubbleTexts{
    BubbleText{"warm-up", "schedule: before a stage's first pass", &BubbleCauses::warm_up_s},
    BubbleText{"steady", "schedule: between a stage's passes, were all stages alike",
               &BubbleCauses::steady_s},
    BubbleText{"cool-down", "schedule: after a stage's last pass", &BubbleCauses::cool_down_s},
    BubbleText{"imbalance", "what stages that take unlike long add", &BubbleCauses::imbalance_s},
    BubbleText{"transfers", "what sends between stages add that nothing hides",
               &BubbleCauses::transfers_s},
    BubbleText{"variation", "a stage's passes take unlike long from micro-batch to micro-batch",
               &BubbleCauses::variation_s},
    BubbleText{"rest", "the host, and all else", &BubbleCauses::rest_s},
};

// Sum over the ranks that have the step; `ranks` becomes their number.
std::optional<ExposedParts> PartsOf(const SideModel& side, bool together, std::int64_t& ranks) {
  if (!side.IsPresent() || side.run->timeline.spans.empty()) return std::nullopt;
  std::set<int> with;
  for (const StepWindow& window : side.run->timeline.steps) {
    if (window.step == side.step) with.insert(window.rank);
  }
  ranks = static_cast<std::int64_t>(with.size());
  if (with.empty()) return std::nullopt;
  return ExposedPartsOf(side.run->timeline, side.run->groups, side.step, together);
}

}  // namespace

std::optional<BubbleCauses> BubbleCausesOf(const SideModel& side) {
  if (!side.IsPresent() || side.run->metrics.asynchronous) return std::nullopt;
  return CausesOfBubbles(side.run->timeline, side.run->metrics.pipelines, side.metrics->bubbles,
                         side.step);
}

// Both sides share the rows; a side without causes leaves its column empty.
std::vector<WaitRow> BubbleRows(const std::array<std::optional<BubbleCauses>, 2>& causes) {
  if (!causes[0].has_value() && !causes[1].has_value()) return {};
  std::vector<WaitRow> rows;
  for (const BubbleText& text : kBubbleTexts) {
    WaitRow row{std::string(text.name), std::string(text.explained), {}};
    for (std::size_t i = 0; i < causes.size(); ++i) {
      if (causes[i].has_value()) row.seconds[i] = (*causes[i]).*text.part;
    }
    rows.push_back(std::move(row));
  }
  WaitRow sum{"bubble",
              "a stage stands still so long between its pipeline's first pass and last",
              {},
              true};
  for (std::size_t i = 0; i < causes.size(); ++i) {
    if (causes[i].has_value()) sum.seconds[i] = causes[i]->Sum();
  }
  rows.push_back(std::move(sum));
  return rows;
}

// The row of unknown time appears only if there is some.
std::vector<WaitRow> ExposedRows(const SidePair& sides) {
  WaitRow wire{"on the wire", "bytes move: every rank of the group has come", {}};
  WaitRow skew{"for the last rank", "begun here, while another rank of the group had not come", {}};
  WaitRow unknown{"not split", "spans of other ranks of the group were not recorded", {}};
  WaitRow sum{"exposed", "communication not overlapped with compute", {}, true};
  bool any = false, any_unknown = false;
  for (const Side side : kSides) {
    const std::size_t i = Index(side);
    std::int64_t ranks = 0;
    // Spans of a forecast begin when all ranks have come, so all of its time is on the wire.
    const auto parts = PartsOf(sides.Of(side), side == Side::kPredicted, ranks);
    if (!parts.has_value()) continue;
    const auto mean = [ranks](std::int64_t ns) {
      return SecondsFromNs(ns) / static_cast<double>(ranks);
    };
    wire.seconds[i] = mean(parts->wire_ns);
    skew.seconds[i] = mean(parts->skew_ns);
    unknown.seconds[i] = mean(parts->unknown_ns);
    sum.seconds[i] = mean(parts->Sum());
    any = any || parts->Sum() > 0;
    any_unknown = any_unknown || parts->unknown_ns > 0;
  }
  if (!any) return {};
  if (!any_unknown) return {std::move(wire), std::move(skew), std::move(sum)};
  return {std::move(wire), std::move(skew), std::move(unknown), std::move(sum)};
}

// The schedule's three rows are one part here: warm-up, steady and cool-down.
std::string DescribeBubble(const BubbleCauses& causes) {
  const double sum = causes.Sum();
  if (sum <= 0) return {};
  std::vector<std::pair<double, std::string_view>> parts{{causes.ScheduleSeconds(), "schedule"},
                                                         {causes.imbalance_s, "imbalance"},
                                                         {causes.transfers_s, "transfers"},
                                                         {causes.variation_s, "variation"},
                                                         {causes.rest_s, "rest"}};
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (const auto& [seconds, name] : parts) {
    const double share = seconds / sum;
    if (share > -0.01 && share < 0.01) continue;
    text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", name, 100 * share);
  }
  return text;
}

}  // namespace foretrain::ui
