#include "ui/view_model/ranks/lane_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace foretrain::ui {
namespace {

// Lanes that do the same, in the order in which they are shown.
struct Group {
  int lowest = 0;  // rank
  std::vector<std::size_t> lanes{};
};

// [lane]: ranks that it shows when every lane is shown. A forecast of representatives has a lane
// for each of them; any other run has one for each rank.
std::vector<std::int64_t> RanksShownBy(const CompareModel& model) {
  std::vector<std::int64_t> counts(model.lanes.size(), 1);
  const SideModel& shown = model.Of(model.Shown());
  if (!shown.IsPresent() || shown.run->stands_for_rank.empty()) return counts;
  std::map<int, std::int64_t> ranks;
  for (const int stands : shown.run->stands_for_rank) ++ranks[stands];
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto found = ranks.find(model.lanes[i].rank);
    if (found != ranks.end()) counts[i] = found->second;
  }
  return counts;
}

class Arranger {
 public:
  Arranger(const CompareModel& model, const LaneOrder& order)
      : model_(model),
        order_(order),
        ranks_(RanksShownBy(model)),
        compute_ns_(ComputeNsByLane(model)) {
    list_.places.resize(model.lanes.size());
  }

  LaneList Arrange() {
    for (const int rank : order_.pinned) {
      const auto lane = LaneOfRank(model_, rank);
      if (lane.has_value() && !list_.places[*lane].has_value()) {
        Add({.lane = *lane, .stands_for = ranks_[*lane], .pinned = true});
      }
    }
    if (order_.grouped) {
      AddGroups();
    } else {
      std::vector<std::size_t> lanes;
      for (std::size_t i = 0; i < model_.lanes.size(); ++i) {
        if (!list_.places[i].has_value()) lanes.push_back(i);
      }
      Sort(lanes);
      for (const std::size_t lane : lanes) Add({.lane = lane, .stands_for = ranks_[lane]});
    }
    return std::move(list_);
  }

 private:
  bool IsSlower(std::size_t a, std::size_t b) const {
    return std::pair(-compute_ns_[a], a) < std::pair(-compute_ns_[b], b);
  }

  void Sort(std::vector<std::size_t>& lanes) const {
    if (order_.sort != LaneSort::kSlowestFirst) return;
    std::sort(lanes.begin(), lanes.end(),
              [this](std::size_t a, std::size_t b) { return IsSlower(a, b); });
  }

  void Add(const LaneRow& row) {
    list_.places[row.lane] = static_cast<std::uint32_t>(list_.rows.size());
    list_.rows.push_back(row);
  }

  // By lowest rank. Pinned lanes belong to their group, but are shown already.
  std::vector<Group> GroupsOf() {
    std::map<std::pair<std::string, int>, std::size_t> known;
    std::vector<Group> groups;
    for (std::size_t i = 0; i < model_.lanes.size(); ++i) {
      const Lane& lane = model_.lanes[i];
      const SideModel& predicted = model_.Of(Side::kPredicted);
      const bool folded = predicted.IsPresent() && !predicted.run->stands_for_rank.empty();
      const int role = folded ? model_.RankOn(Side::kPredicted, lane.rank) : 0;
      const auto [at, added] = known.try_emplace({lane.detail, role}, groups.size());
      if (added) groups.push_back({.lowest = lane.rank});
      list_.groups.push_back(groups[at->second].lowest);
      if (!list_.places[i].has_value()) groups[at->second].lanes.push_back(i);
    }
    std::erase_if(groups, [](const Group& group) { return group.lanes.empty(); });
    return groups;
  }

  std::size_t SlowestOf(const Group& group) const {
    return *std::min_element(group.lanes.begin(), group.lanes.end(),
                             [this](std::size_t a, std::size_t b) { return IsSlower(a, b); });
  }

  void AddGroups() {
    std::vector<Group> groups = GroupsOf();
    if (order_.sort == LaneSort::kSlowestFirst) {
      std::stable_sort(groups.begin(), groups.end(), [this](const Group& a, const Group& b) {
        return compute_ns_[SlowestOf(a)] > compute_ns_[SlowestOf(b)];
      });
    }
    for (Group& group : groups) {
      const bool single = group.lanes.size() == 1;
      if (std::binary_search(order_.open.begin(), order_.open.end(), group.lowest) || single) {
        Sort(group.lanes);
        for (std::size_t i = 0; i < group.lanes.size(); ++i) {
          Add({.lane = group.lanes[i],
               .stands_for = ranks_[group.lanes[i]],
               .group = group.lowest,
               .heads = i == 0 && !single});
        }
        continue;
      }
      std::int64_t ranks = 0;
      for (const std::size_t lane : group.lanes) ranks += ranks_[lane];
      Add({.lane = SlowestOf(group), .stands_for = ranks, .group = group.lowest, .closed = true});
    }
  }

  const CompareModel& model_;
  const LaneOrder& order_;
  std::vector<std::int64_t> ranks_;       // by lane
  std::vector<std::int64_t> compute_ns_;  // by lane
  LaneList list_;
};

}  // namespace

LaneList ArrangeLanes(const CompareModel& model, const LaneOrder& order) {
  return Arranger(model, order).Arrange();
}

void ToggleGroup(int group, LaneOrder& order) {
  const auto at = std::lower_bound(order.open.begin(), order.open.end(), group);
  if (at != order.open.end() && *at == group) {
    order.open.erase(at);
  } else {
    order.open.insert(at, group);
  }
}

void TogglePin(int rank, LaneOrder& order) {
  if (std::erase(order.pinned, rank) == 0) order.pinned.push_back(rank);
}

void MoveRank(const CompareModel& model, const LaneList& list, int rank, std::size_t to,
              LaneOrder& order) {
  std::vector<int> pinned;
  for (std::size_t i = 0; i < std::min(to, list.rows.size()); ++i) {
    const int above = model.lanes[list.rows[i].lane].rank;
    if (above != rank) pinned.push_back(above);
  }
  pinned.push_back(rank);
  // Those that were pinned below stay pinned.
  for (const int other : order.pinned) {
    if (std::find(pinned.begin(), pinned.end(), other) == pinned.end()) pinned.push_back(other);
  }
  order.pinned = std::move(pinned);
}

std::vector<std::int64_t> ComputeNsByLane(const CompareModel& model) {
  std::vector<std::int64_t> compute_ns(model.lanes.size(), -1);
  const SideModel& shown = model.Of(model.Shown());
  if (!shown.IsPresent()) return compute_ns;
  const auto set = [&](int rank, std::int64_t ns) {
    const auto lane = LaneOfRank(model, rank);
    if (lane.has_value() && compute_ns[*lane] < 0) compute_ns[*lane] = ns;
  };
  for (const RankStep& of : shown.metrics->rank_steps) {
    if (of.step == shown.step) set(of.rank, of.classes.compute_ns);
  }
  for (const StepWindow& of : shown.run->timeline.steps) {
    if (of.step == shown.step) set(of.rank, of.end_ns - of.start_ns);
  }
  return compute_ns;
}

// With commas, from the right.
std::string RanksText(std::int64_t ranks) {
  std::string digits = std::to_string(ranks);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits + (ranks == 1 ? " rank" : " ranks");
}

std::string DescribeRow(const CompareModel& model, const LaneRow& row) {
  if (row.stands_for <= 1) return {};
  const Lane& lane = model.lanes[row.lane];
  return fmt::format("{} stands for {}{}{}", lane.name, RanksText(row.stands_for),
                     lane.detail.empty() ? "" : " of " + lane.detail,
                     row.closed ? ": it computes the longest" : "");
}

}  // namespace foretrain::ui
