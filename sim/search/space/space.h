// The plans of a search and the order in which they are visited. Invalid combinations are cut as
// early as possible and counted without being visited. Leaves out time and memory of plans.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/search/evaluate/plan_family.h"
#include "sim/search/evaluate/plan_key.h"

namespace foretrain {

// All combinations of the choices' values applied to `base`. Every plan trains the same batch of
// the same samples.
struct SearchSpace {
  Plan base;
  std::vector<SearchChoice> choices;
  std::function<void(Plan&)> complete = {};  // sets fields that follow; may be empty
  // Why a valid plan is none of the space; an empty text if it is one. May be empty.
  std::function<std::string(const Plan&)> refuses = {};
  // Each plan takes the rank order that probably suits its degrees (rank_orders.h), and the fastest
  // ones also try the others. false: all plans have the order of `base`, or of a choice.
  bool orders_ranks = false;
  std::vector<int> rank_orders = {};  // that plans may take with `orders_ranks`; empty: all
  // Plan::expert_headroom of dropless plans with ep above 1; 0: that of `base`.
  double expert_headroom = 0.0;
  // The fastest plans are also tried with gathers of their own (tune_gathers.h).
  bool tunes_gathers = true;
  // The fastest plans are also tried with layers dealt to stages by time (Plan::stage_layers).
  bool balances_layers = true;

  // Sets the values of a field, replacing earlier ones.
  void Choose(std::string_view field, std::vector<std::int64_t> values);
};

// Reasons why plans were not ranked.
inline constexpr std::string_view kBreaksRule = "breaks a rule of plans";
inline constexpr std::string_view kNeedsMemory = "needs more memory than a device has";
inline constexpr std::string_view kNeedsHostMemory = "needs more memory than a host has";
inline constexpr std::string_view kIsSlower = "cannot be as fast as others that are no larger";
inline constexpr std::string_view kIsBehind =
    "cannot be among the fastest, and is too long to simulate for its memory alone";
inline constexpr std::string_view kIsMuchSlower = "takes over twice as long as others";
inline constexpr std::string_view kIsSame = "is the same as another plan";
inline constexpr std::string_view kDeadlocks = "deadlocks";
inline constexpr std::string_view kFitsAnyhow = "moves off the device what fits on it";

// Plans that were not ranked for one reason.
struct Rejection {
  std::string reason;
  std::int64_t count = 0;
  std::string example;  // message of the first one; may be empty
};
// Rejections by reason, in the order of first occurrence.
class Rejections {
 public:
  void Add(std::string_view reason, std::int64_t count, const std::string& example);
  void Add(const Rejections& others);
  const std::vector<Rejection>& list() const { return list_; }
  std::int64_t count() const;

 private:
  std::vector<Rejection> list_;
};

// A small part of the space, spread over the choices that affect time most: few values per field,
// and of those that save memory only recomputation and ZeRO. It has the same fields as `space`.
SearchSpace CoarseSpace(const SearchSpace& space);

// All combinations of a space that use `ranks` ranks. They fall into parts, one for each split of
// the ranks into dp, cp, tp and pp; parts may be visited in parallel.
class SpaceWalk {
 public:
  // The rank order of plans with the degrees of a plan: dp, cp, tp, pp, ep, expert_tp.
  using RankOrderOf = std::function<int(const Plan&)>;
  // Borrows both; they must outlive this object. `order_of`: for a space that orders ranks, else
  // not called.
  SpaceWalk(const ModelSpec& model, const SearchSpace& space, int ranks, RankOrderOf order_of = {});

  std::size_t parts() const { return splits_.size(); }
  int TpOf(std::size_t part) const { return splits_[part].tp; }
  // Groups of parts that share most of their blocks, those with equal tp and cp; one thread should
  // visit a group.
  std::vector<std::vector<std::size_t>> Units() const;
  // Number of combinations of all parts together, at most 2^62.
  std::int64_t size() const;
  // Fields that may differ between plans.
  VaryingFields varying() const;

  // Calls `visit` for each valid plan of a part, in the order of the choices' values, and adds all
  // others to `rejected`: calls and rejections add up to the part's size. `visit` returns whether
  // the plan fits; if so, plans that differ from it only by more offload are left out. If `stop`
  // returns true, the visit ends. Among plans that say the same (schedules of one stage, ZeRO
  // without peers, ...) one represents all.
  // `leaves_out` is called for families of plans that are about to be visited, with one plan of
  // each. It returns a reason to skip the family, or an empty reason. Not called if the space has
  // `complete`, since other fields then depend on the choices.
  struct Reason {
    std::string_view reason;
    std::string example = {};
  };
  using LeavesOut = std::function<Reason(const Plan&, const PlanFamily&)>;
  void VisitPart(std::size_t part, const std::function<bool(const Plan&)>& visit,
                 const std::function<bool()>& stop, Rejections& rejected,
                 const LeavesOut& leaves_out = {}) const;

 private:
  struct Visit;
  bool Descend(Plan& plan, std::size_t level, Visit& visit) const;
  bool Leaf(const Plan& plan, Visit& visit) const;
  std::string BrokenEarly(const Plan& plan, const PlanField& field) const;
  bool IsLeftOut(const Plan& plan, std::size_t level, Visit& visit) const;
  PlanFamily FamilyBelow(const Plan& plan, std::size_t level) const;
  std::int64_t Below(std::size_t level) const { return below_[level]; }

  const ModelSpec& model_;
  const SearchSpace& space_;
  PlanKey all_fields_;
  std::vector<Plan> splits_;          // base with each split
  std::vector<SearchChoice> levels_;  // the other choices, in the order of the walk
  std::vector<std::int64_t> below_;   // number of combinations of all levels from this one on
  std::size_t first_free_ = 0;        // from this level on, all fields may be free
  RankOrderOf order_of_;              // empty: plans keep their order
  std::size_t ordered_ = 0;           // level at which all degrees are chosen
};

}  // namespace foretrain
