// Groups ops that do the same in every layer and micro-batch into one row of a table: their time
// against the forecast, and their part in the step's error.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ui/view_model/runs/sides.h"

namespace foretrain::ui {

struct OpGroup {
  std::string name;  // "mlp.up", "reduce_scatter"
  Pass pass = Pass::kNone;
  OpClass op_class = OpClass::kMemoryBound;
  bool named = false;  // named in Timeline::op_names; otherwise `name` comes from the id

  // Sums over all ranks in the chosen steps.
  std::array<std::int64_t, 2> ops{};      // by side
  std::array<std::int64_t, 2> busy_ns{};  // by side: sum of op times, waiting for peers included
  std::array<std::int64_t, 2> bytes{};    // by side: bytes moved by communication and copies
  std::array<double, 2> flops{};  // by side: NaN if an op's are unknown; 0 for non-compute ops
  std::int64_t paired_ns = 0;     // of both sides: time of ops with a counterpart

  // Measured minus predicted.
  std::int64_t ErrorNs() const { return busy_ns[1] - busy_ns[0]; }
  // Share of the ops' time that has a counterpart, in [0, 1].
  double Coverage() const;
  // Achieved FLOP/s of compute, bytes/s of other ops; nullopt if unknown.
  std::optional<double> Rate(Side side) const;
  bool IsCompute() const { return foretrain::IsCompute(op_class); }
};

struct OpGroups {
  std::vector<OpGroup> groups;
  std::vector<std::uint32_t> group_of;  // group of each pair
  std::int64_t ranks = 0;               // number of ranks that mean times divide by
  std::array<std::int64_t, 2> step_ns{};

  // Mean over ranks.
  double Seconds(const OpGroup& group, Side side) const;
  // The group's error as a share of the step's error; nullopt if both steps are equally long. Ops
  // overlap, so shares need not sum to 1.
  std::optional<double> ShareOfError(const OpGroup& group) const;
};

// "mlp.up  forward": name and pass.
std::string TitleOf(const OpGroup& group);

// Groups of `pairs` (as PairsOf returns them) by descending |error|; for a single run by descending
// time. `flops`: FLOPs of one op by NameKey of its id; unknown if missing. O(n log n).
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

// Indices of the groups sorted by `column`, ascending or `falling`; the sort is stable. kShare
// sorts by size regardless of sign. O(n log n).
std::vector<std::uint32_t> OrderOf(const OpGroups& groups, GroupColumn column, bool falling);

// Distribution of durations among the ops of a group. Bin i holds [start + i * width, start + (i +
// 1) * width); the last bin includes its end.
struct Histogram {
  double start_ns = 0.0;
  double width_ns = 0.0;                              // 0 if there are no ops
  std::array<std::vector<std::int64_t>, 2> counts{};  // by side and bin
  std::array<std::int64_t, 2> median_ns{};            // by side: the lower of the two middle values

  std::int64_t Highest() const;
};
Histogram HistogramOf(const OpGroups& groups, const std::vector<PairedOp>& pairs,
                      std::uint32_t group, int bins);

}  // namespace foretrain::ui
