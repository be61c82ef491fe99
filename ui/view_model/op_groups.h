// Ops that do the same in every layer and micro-batch, as one row of a table: how long they take
// against the forecast, and what they add to the step's error. Leaves out drawing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ui/view_model/sides.h"

namespace foretrain::ui {

struct OpGroup {
  std::string name;  // "mlp.up", "reduce_scatter"
  Pass pass = Pass::kNone;
  OpClass op_class = OpClass::kMemoryBound;
  bool named = false;  // in Timeline::op_names; else `name` is what the id says

  // Of all ranks in the chosen steps.
  std::array<std::int64_t, 2> ops{};      // [side]
  std::array<std::int64_t, 2> busy_ns{};  // [side]: sum of op times, waiting for peers included
  std::array<std::int64_t, 2> bytes{};    // [side]: moved by communication and copies
  std::array<double, 2> flops{};          // [side]: 0 where an op's are not known
  std::int64_t paired_ns = 0;             // of both sides, of ops with a twin

  // Measured less predicted.
  std::int64_t ErrorNs() const { return busy_ns[1] - busy_ns[0]; }
  // The share of the ops' time that has a twin, in [0, 1].
  double Coverage() const;
  // What the ops reach: FLOP/s of compute, bytes/s of the rest; nothing where it is not known.
  std::optional<double> Rate(Side side) const;
  bool IsCompute() const { return foretrain::IsCompute(op_class); }
};

struct OpGroups {
  std::vector<OpGroup> groups;
  std::vector<std::uint32_t> group_of;  // beside the pairs they were made from
  std::int64_t ranks = 0;               // that op times are means over
  std::array<std::int64_t, 2> step_ns{};

  // Mean over ranks.
  double Seconds(const OpGroup& group, Side side) const;
  // What the group takes longer than forecast, as a share of what the step does; nothing where the
  // steps are equally long. Ops run beside one another, so shares need not sum to 1.
  std::optional<double> ShareOfError(const OpGroup& group) const;
};

// "mlp.up  forward": name and pass.
std::string TitleOf(const OpGroup& group);

// The groups of `pairs` (as PairsOf returns them) by falling |error|, or, of one run alone, by
// falling time. `flops`: of one op, under NameKey of its id; ops that are not there have none
// known. O(n log n).
OpGroups GroupOps(const SidePair& sides, const std::vector<PairedOp>& pairs,
                  const std::map<OpId, double>& flops = {});

enum class GroupColumn : std::uint8_t {
  kName,
  kClass,
  kCount,
  kPredicted,
  kMeasured,
  kError,
  kShare,
  kCoverage,
  kRate,
};
inline constexpr int kGroupColumnCount = 9;

// Indices of the groups in the order of `column`: rising or falling, equal ones as they stand.
// kShare orders by size, whatever the sign. O(n log n).
std::vector<std::uint32_t> OrderOf(const OpGroups& groups, GroupColumn column, bool falling);

// How often each duration occurs among the ops of a group. Bin i holds [start + i * width, +
// width), the last one its end too.
struct Histogram {
  double start_ns = 0.0;
  double width_ns = 0.0;                              // 0: no ops
  std::array<std::vector<std::int64_t>, 2> counts{};  // [side][bin]
  std::array<std::int64_t, 2> median_ns{};            // the lower of the middle two

  std::int64_t Highest() const;
};
Histogram HistogramOf(const OpGroups& groups, const std::vector<PairedOp>& pairs,
                      std::uint32_t group, int bins);

}  // namespace foretrain::ui
