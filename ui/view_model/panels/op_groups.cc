#include "ui/view_model/panels/op_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

using GroupKey = std::tuple<std::string, Pass, OpClass>;

std::array<const std::optional<OpTotal>*, 2> SidesOfPair(const PairedOp& pair) {
  return {&pair.predicted, &pair.measured};
}

std::string InstructionName(OpId op) {
  if (!IsValidId(op)) return "no op";
  const InstructionKey key = UnpackId(op);
  if (key.kind != InstructionKind::kBlock) return InWords(Name(key.kind));
  if (OpNumber(op) == kWholeInstruction) return "block";
  return fmt::format("op {}", OpNumber(op));
}

struct GroupName {
  std::string text;
  bool known = false;  // some run knows the name
};

// A name for the pair from either run, the measured one first.
GroupName NameOf(const SidePair& sides, const PairedOp& pair) {
  for (const Side side : {Side::kMeasured, Side::kPredicted}) {
    if (!sides.Of(side).IsPresent()) continue;
    const auto& names = sides.TimelineOf(side).op_names;
    const auto at = names.find(NameKey(pair.op));
    if (at != names.end() && !at->second.empty()) return {Printable(at->second), true};
  }
  return {InstructionName(pair.op), false};
}

// Looks up each name once per op, since names do not depend on rank and micro-batch.
class Namer {
 public:
  explicit Namer(const SidePair& sides) : sides_(sides) {}
  const GroupName& Of(const PairedOp& pair) {
    const auto [at, is_new] = names_.try_emplace(NameKey(pair.op));
    if (is_new) at->second = NameOf(sides_, pair);
    return at->second;
  }

 private:
  const SidePair& sides_;
  std::map<OpId, GroupName> names_;
};

void AddSide(const OpTotal& total, double flops, std::size_t side, OpGroup& group) {
  ++group.ops[side];
  group.busy_ns[side] += total.busy_ns;
  group.bytes[side] += total.bytes;
  group.flops[side] += flops;
}

// Adds both sides of a pair. Time counts as paired only if both sides are present.
void AddPair(const PairedOp& pair, double flops, OpGroup& group) {
  const auto totals = SidesOfPair(pair);
  for (std::size_t side = 0; side < 2; ++side) {
    if (!totals[side]->has_value()) continue;
    AddSide(**totals[side], flops, side, group);
    if (pair.IsPair()) group.paired_ns += (*totals[side])->busy_ns;
  }
}

double FlopsOf(const std::map<OpId, double>& flops, OpId op) {
  const auto at = flops.find(NameKey(op));
  // One op with unknown FLOPs makes the sum of its group unknown (NaN).
  return at == flops.end() ? std::numeric_limits<double>::quiet_NaN() : at->second;
}

// Forms groups by (name, pass, class), sorted as they first occur, and the group of each pair.
OpGroups Collect(const SidePair& sides, const std::vector<PairedOp>& pairs,
                 const std::map<OpId, double>& flops) {
  OpGroups result;
  Namer names(sides);
  std::map<GroupKey, std::uint32_t> places;
  for (const PairedOp& pair : pairs) {
    const OpClass op_class = (pair.measured ? pair.measured : pair.predicted)->op_class;
    const Pass pass = IsValidId(pair.op) ? UnpackId(pair.op).pass : Pass::kNone;
    const GroupName& name = names.Of(pair);
    const auto [at, is_new] = places.try_emplace(GroupKey{name.text, pass, op_class},
                                                 static_cast<std::uint32_t>(result.groups.size()));
    if (is_new) {
      result.groups.push_back(
          {.name = name.text, .pass = pass, .op_class = op_class, .named = name.known});
    }
    const double of_op = foretrain::IsCompute(op_class) ? FlopsOf(flops, pair.op) : 0.0;
    AddPair(pair, of_op, result.groups[at->second]);
    result.group_of.push_back(at->second);
  }
  return result;
}

// Sorts the groups and renumbers group_of. Ties are broken by name, pass and class, so the order
// does not depend on the input.
void SortByContribution(bool both, OpGroups& groups) {
  std::vector<std::uint32_t> order(groups.groups.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto weight = [&](std::uint32_t i) {
    const OpGroup& group = groups.groups[i];
    return both ? std::abs(group.ErrorNs()) : group.busy_ns[0] + group.busy_ns[1];
  };
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const OpGroup &x = groups.groups[a], &y = groups.groups[b];
    return std::tuple(-weight(a), std::tie(x.name, x.pass, x.op_class)) <
           std::tuple(-weight(b), std::tie(y.name, y.pass, y.op_class));
  });
  std::vector<std::uint32_t> place(order.size());
  std::vector<OpGroup> sorted;
  sorted.reserve(order.size());
  for (const std::uint32_t from : order) {
    place[from] = static_cast<std::uint32_t>(sorted.size());
    sorted.push_back(std::move(groups.groups[from]));
  }
  groups.groups = std::move(sorted);
  for (std::uint32_t& group : groups.group_of) group = place[group];
}

// Sort key of a column as a number; kName sorts by text instead.
double KeyOf(const OpGroups& groups, const OpGroup& group, GroupColumn column) {
  switch (column) {
    case GroupColumn::kClass:
      return static_cast<double>(group.op_class);
    case GroupColumn::kCount:
      return static_cast<double>(std::max(group.ops[0], group.ops[1]));
    case GroupColumn::kPredicted:
      return static_cast<double>(group.busy_ns[0]);
    case GroupColumn::kMeasured:
      return static_cast<double>(group.busy_ns[1]);
    case GroupColumn::kError:
      return static_cast<double>(group.ErrorNs());
    case GroupColumn::kShare:
      return std::abs(static_cast<double>(group.ErrorNs()));
    case GroupColumn::kCoverage:
      return group.Coverage();
    case GroupColumn::kRate:
      return group.Rate(groups.step_ns[1] > 0 ? Side::kMeasured : Side::kPredicted).value_or(-1.0);
    case GroupColumn::kName:
      break;
  }
  return 0.0;
}

}  // namespace

double OpGroup::Coverage() const {
  const std::int64_t all = busy_ns[0] + busy_ns[1];
  if (all > 0) return static_cast<double>(paired_ns) / static_cast<double>(all);
  return ops[0] == ops[1] ? 1.0 : 0.0;
}

// Unknown FLOPs are NaN, which fails the comparison with 0 and gives no rate.
std::optional<double> OpGroup::Rate(Side side) const {
  const std::size_t i = Index(side);
  const double work = IsCompute() ? flops[i] : static_cast<double>(bytes[i]);
  if (busy_ns[i] <= 0 || !(work > 0.0)) return std::nullopt;
  return work / SecondsFromNs(busy_ns[i]);
}

double OpGroups::Seconds(const OpGroup& group, Side side) const {
  if (ranks == 0) return 0.0;
  return SecondsFromNs(group.busy_ns[Index(side)]) / static_cast<double>(ranks);
}

std::optional<double> OpGroups::ShareOfError(const OpGroup& group) const {
  const std::int64_t error = step_ns[1] - step_ns[0];
  if (error == 0 || ranks == 0 || step_ns[0] == 0 || step_ns[1] == 0) return std::nullopt;
  return static_cast<double>(group.ErrorNs()) / static_cast<double>(ranks) /
         static_cast<double>(error);
}

std::string TitleOf(const OpGroup& group) {
  if (group.pass == Pass::kNone) return group.name;
  return group.name + "  " + InWords(Name(group.pass));
}

// Sorting comes last, so that groups are complete when they are weighed.
OpGroups GroupOps(const SidePair& sides, const std::vector<PairedOp>& pairs,
                  const std::map<OpId, double>& flops) {
  OpGroups groups = Collect(sides, pairs, flops);
  groups.ranks = static_cast<std::int64_t>(RanksOf(sides).size());
  for (const Side side : kSides) groups.step_ns[Index(side)] = sides.Of(side).step_ns;
  SortByContribution(sides.HasBoth(), groups);
  return groups;
}

// Reversing the comparison instead of the result keeps the sort stable in both directions.
std::vector<std::uint32_t> OrderOf(const OpGroups& groups, GroupColumn column, bool falling) {
  std::vector<std::uint32_t> order(groups.groups.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto less = [&](std::uint32_t a, std::uint32_t b) {
    const OpGroup &x = groups.groups[a], &y = groups.groups[b];
    if (column == GroupColumn::kName) return std::tie(x.name, x.pass) < std::tie(y.name, y.pass);
    return KeyOf(groups, x, column) < KeyOf(groups, y, column);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return falling ? less(b, a) : less(a, b);
  });
  return order;
}

std::int64_t Histogram::Highest() const {
  std::int64_t highest = 0;
  for (const auto& of_side : counts) {
    for (const std::int64_t count : of_side) highest = std::max(highest, count);
  }
  return highest;
}

// Bins span both sides' durations, so that predicted and measured counts can be compared bin by
// bin.
Histogram HistogramOf(const OpGroups& groups, const std::vector<PairedOp>& pairs,
                      std::uint32_t group, int bins) {
  Histogram histogram;
  std::array<std::vector<std::int64_t>, 2> times;
  std::int64_t min = std::numeric_limits<std::int64_t>::max(), max = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (groups.group_of[i] != group) continue;
    const auto totals = SidesOfPair(pairs[i]);
    for (std::size_t side = 0; side < 2; ++side) {
      if (!totals[side]->has_value()) continue;
      times[side].push_back((*totals[side])->busy_ns);
      min = std::min(min, times[side].back());
      max = std::max(max, times[side].back());
    }
  }
  if (min > max || bins < 1) return histogram;
  // The range covers both sides.
  histogram.start_ns = static_cast<double>(min);
  // If all ops take the same time, a bin is one nanosecond wide.
  histogram.width_ns = std::max(1.0, static_cast<double>(max - min) / bins);
  for (std::size_t side = 0; side < 2; ++side) {
    auto& counts = histogram.counts[side];
    counts.assign(static_cast<std::size_t>(bins), 0);
    for (const std::int64_t time : times[side]) {
      const auto bin =
          static_cast<std::size_t>(static_cast<double>(time - min) / histogram.width_ns);
      ++counts[std::min(bin, counts.size() - 1)];
    }
    if (times[side].empty()) continue;
    std::sort(times[side].begin(), times[side].end());
    histogram.median_ns[side] = times[side][(times[side].size() - 1) / 2];
  }
  return histogram;
}

}  // namespace foretrain::ui
