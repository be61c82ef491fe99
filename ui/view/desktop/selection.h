// The choices that one view makes for others: a plan put aside, and the ops that are highlighted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "sim/config/cluster/cluster_spec.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "ui/view_model/planning/hardware.h"
#include "ui/view_model/runs/search.h"

namespace foretrain::ui {

// A plan put aside to compare others with, or to run.
struct PinnedPlan {
  std::string title{};
  ModelSpec model{};
  ClusterSpec cluster{};
  Plan plan{};
  std::optional<MachineRates> machine{};  // its rates; derived from the cluster if absent
};

// Invariant: pin_number() grows with each pin, so that a view sees whether it has taken the newest.
class Selection {
 public:
  void Pin(PinnedPlan plan) {
    pinned_ = std::move(plan);
    ++pin_number_;
  }
  const std::optional<PinnedPlan>& pinned() const { return pinned_; }
  std::uint64_t pin_number() const { return pin_number_; }

  // The compare view highlights the ops that match; `nullopt` highlights all.
  void FilterOps(std::optional<OpFilter> filter) { op_filter_ = std::move(filter); }
  const std::optional<OpFilter>& op_filter() const { return op_filter_; }

 private:
  std::optional<PinnedPlan> pinned_;
  std::uint64_t pin_number_ = 0;
  std::optional<OpFilter> op_filter_;
};

}  // namespace foretrain::ui
