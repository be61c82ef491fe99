#include "app/report/longest_ops.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/json/json.h"
#include "base/table.h"
#include "base/units.h"
#include "traces/kernels/kernel_table.h"
#include "traces/metrics/op_totals.h"

namespace foretrain {
namespace {

constexpr std::size_t kShown = 10;
constexpr int kNameWidth = 48;

}  // namespace

// Sums one step's busy time by op name, as a mean over the ranks that have spans in it. Ties keep
// the order of names, so the result does not depend on span order.
std::vector<OpGroup> LongestOps(const Timeline& timeline, int step) {
  Timeline of_step;
  std::copy_if(timeline.spans.begin(), timeline.spans.end(), std::back_inserter(of_step.spans),
               [step](const Span& span) { return span.step == step; });
  std::set<int> ranks;
  for (const Span& span : of_step.spans) ranks.insert(span.rank);
  std::map<std::string, OpGroup> groups;
  for (const OpTotal& total : OpTotals(of_step)) {
    // An op without a name is called by its instruction.
    const auto named = timeline.op_names.find(NameKey(total.op));
    const std::string name =
        named == timeline.op_names.end() ? Describe(InstructionOf(total.op)) : named->second;
    OpGroup& group = groups[name];
    group.name = name;
    group.op_class = total.op_class;
    ++group.count;
    group.busy_s += SecondsFromNs(total.busy_ns) / static_cast<double>(ranks.size());
  }
  std::vector<OpGroup> sorted;
  for (auto& [name, group] : groups) sorted.push_back(std::move(group));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const OpGroup& a, const OpGroup& b) { return a.busy_s > b.busy_s; });
  return sorted;
}

// The first kShown ops and one line for the rest, so the column adds up to the busy time of the
// step.
std::string LongestOpsText(const std::vector<OpGroup>& ops, double step_s) {
  if (ops.empty()) return "";
  Table table({"op", "class", ">count", ">busy, a rank", ">of the step"});
  table.LimitWidth("op", kNameWidth);
  const auto row = [&](const std::string& name, const std::string& op_class, std::int64_t count,
                       double busy_s) {
    table.AddRow({name, op_class, std::to_string(count), FormatSeconds(busy_s),
                  FormatPercent(busy_s / step_s)});
  };
  const std::size_t shown = std::min(kShown, ops.size());
  for (std::size_t i = 0; i < shown; ++i) {
    row(ShortKernelName(ops[i].name), std::string(Name(ops[i].op_class)), ops[i].count,
        ops[i].busy_s);
  }
  OpGroup others;
  for (std::size_t i = shown; i < ops.size(); ++i) {
    others.count += ops[i].count;
    others.busy_s += ops[i].busy_s;
  }
  if (shown < ops.size()) {
    row(std::to_string(ops.size() - shown) + " others", "", others.count, others.busy_s);
  }
  return table.Text(2);
}

void WriteLongestOps(JsonWriter& json, const std::vector<OpGroup>& ops) {
  json.Name("ops").BeginArray();
  for (const OpGroup& group : ops) {
    json.BeginObject().Field("op", group.name).Field("class", Name(group.op_class));
    json.Field("count", group.count).Field("busy_s", group.busy_s).EndObject();
  }
  json.EndArray();
}

}  // namespace foretrain
