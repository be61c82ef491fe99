// The plans of a search and the order in which they are visited: what cannot be is cut as early as
// it shows, and counted without being visited. Leaves out how fast a plan is and what it needs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/search/plan_family.h"
#include "sim/search/plan_key.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"
#include "sim/spec/plan_fields.h"

namespace foretrain {

// `base` with every combination of the choices' values laid over it; every plan trains the same
// batch of the same samples.
struct SearchSpace {
  Plan base;
  std::vector<SearchChoice> choices;
  std::function<void(Plan&)> complete = {};  // sets what follows from the choices; may be empty

  // Replaces the field's values.
  void Choose(std::string_view field, std::vector<std::int64_t> values);
};

// Why plans were not ranked.
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
  std::string example;  // the message of the first; empty where there is nothing to say of one
};
// By reason, in the order in which they first came.
class Rejections {
 public:
  void Add(std::string_view reason, std::int64_t count, const std::string& example);
  void Add(const Rejections& others);
  const std::vector<Rejection>& list() const { return list_; }
  std::int64_t count() const;

 private:
  std::vector<Rejection> list_;
};

// Some plans of the space, spread over the choices that matter most to time: few values of each
// field, none that save memory alone but recomputation and ZeRO. Its fields are those of `space`.
SearchSpace CoarseSpace(const SearchSpace& space);

// All combinations of a space that use `ranks` ranks. They fall into parts, one for each split of
// the ranks into dp, cp, tp and pp, that may be visited side by side.
class SpaceWalk {
 public:
  // Borrows both.
  SpaceWalk(const ModelSpec& model, const SearchSpace& space, int ranks);

  std::size_t parts() const { return splits_.size(); }
  int TpOf(std::size_t part) const { return splits_[part].tp; }
  // Parts that share most of their blocks, for one thread each: those of equal tp and cp.
  std::vector<std::vector<std::size_t>> Units() const;
  // Of all parts together; beyond 2^62 that.
  std::int64_t size() const;
  // Fields that differ between plans.
  VaryingFields varying() const;

  // Calls `visit` for each plan of a part that passes every rule, in the order of the choices'
  // values, and adds what is left out to `rejected`: calls and rejections add up to the part's
  // size. `visit` says whether the plan fits: where it does, plans that differ in what they
  // offload alone are left out. `stop` ends the visit. A plan in a smaller form (schedules of one
  // stage, ZeRO without peers, ...) stands for all that say the same.
  // `leaves_out` is asked, with a plan of each, of families of plans that are about to be visited;
  // it gives a reason for which all of a family are left out, or none. Only plans whose fields
  // follow from nothing but the choices come in families.
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
  std::vector<Plan> splits_;          // base with a split
  std::vector<SearchChoice> levels_;  // the other choices, in the order of the walk
  std::vector<std::int64_t> below_;   // combinations of the levels from one on
  std::size_t first_free_ = 0;        // level from which on all fields may be free
};

}  // namespace foretrain
