#include "sim/search/evaluate/plan_family.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/hash.h"

namespace foretrain {
namespace {

// Bounds of a family are minima over its blocks and its state (bound_table.h). They hold for these
// fields, because nothing else of the cost reads them.
constexpr std::array<std::string_view, 7> kMayBeFree = {
    "zero_stage", "sequence_parallel", "vocab_parallel",     "tp_tiles",
    "recompute",  "offload_optimizer", "offload_activations"};

// Depth first over the fields; `plan` is changed in place, so a visit costs no copy.
void Descend(const PlanFamily& family, std::size_t level, Plan& plan,
             const std::function<void(const Plan&)>& visit) {
  if (level == family.free.size()) return visit(plan);
  for (const std::int64_t value : family.free[level].values) {
    family.free[level].field->set(plan, value);
    Descend(family, level + 1, plan, visit);
  }
}

}  // namespace

bool MayBeFree(const PlanField& field) {
  return std::find(kMayBeFree.begin(), kMayBeFree.end(), field.name) != kMayBeFree.end();
}

void SetKey(PlanFamily& family) {
  StableHash key;
  for (const SearchChoice& choice : family.free) {
    key.Add(choice.field->name).Add(choice.values.size());
    for (const std::int64_t value : choice.values) key.Add(value);
  }
  family.key = key.Value();
}

PlanFamily Restricted(const PlanFamily& family, const std::function<bool(std::string_view)>& reads,
                      Plan& plan) {
  PlanFamily out;
  for (const SearchChoice& choice : family.free) {
    if (reads(choice.field->name)) {
      out.free.push_back(choice);
    } else {
      choice.field->set(plan, choice.field->get(Plan{}));
    }
  }
  SetKey(out);
  return out;
}

void ForEach(const PlanFamily& family, Plan plan, const std::function<void(const Plan&)>& visit) {
  Descend(family, 0, plan, visit);
}

}  // namespace foretrain
