// The ranks of a run, those that differ most from the others first: where each runs, what the
// forecast says, and why it differs. Leaves out single steps (ui/view_model/panels/rank_map.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ui/view_model/panels/rank_map.h"
#include "ui/view_model/runs/compare_model.h"

namespace foretrain::ui {

struct RankEntry {
  int rank = 0;
  std::string stage{};               // "stage 1"; empty without a pipeline
  std::string place{};               // "node 0, GPU 3"; empty if the cluster is unknown
  std::int64_t stands_for = 1;       // ranks, in a forecast of representatives
  double median = 0.0;               // of the map's metric
  double others = 0.0;               // median of the other ranks' medians; 0 if it is the only rank
  std::optional<double> forecast{};  // the other run's value of the same rank
  // Means over counted steps; absent if no step's spans are read.
  std::optional<double> compute_ns{};
  std::optional<double> wait_ns{};  // for inputs and peers
  bool straggler = false;
  std::string cause{};  // "attention 1.20 ms longer, clock 1.41 GHz against 1.98 GHz"

  double Excess() const { return others > 0.0 ? median / others - 1.0 : 0.0; }
};

// Every rank with a value, the largest excess over the others first.
//
//   map  of the shown run
//   min  as in StragglersOf
//
// Causes are told for the first `told` entries. O(ranks log ranks + told * ranks).
std::vector<RankEntry> RankTableOf(const CompareModel& model, const RankMap& map, double min,
                                   std::size_t told);

// Communication of one class in the chosen step, means over the ranks that take part.
struct LinkRow {
  OpClass op_class = OpClass::kTpComm;
  std::string reach{};  // "inside a node", "between nodes"; empty if the groups are unknown
  double bytes = 0.0;
  std::array<double, 2> busy_ns{};  // by side; 0 if the run is missing or has none
  std::array<std::optional<double>, 2> bytes_per_s{};  // by side
  std::optional<int> slowest{};                        // rank of the shown run with the lowest rate
  double slowest_bytes_per_s = 0.0;
};

// In the order of the classes; those without bytes are left out. O(spans of the step).
std::vector<LinkRow> LinkTableOf(const CompareModel& model);

// One metric over the steps of the map.
struct RankSeries {
  std::vector<double> chosen;   // of one rank; NaN where it is unknown
  std::vector<double> medians;  // over ranks, by step
  std::vector<double> highest;
  double low = 0.0;  // range of all three, over counted steps
  double high = 1.0;
};
RankSeries RankSeriesOf(const RankMap& map, int rank);

}  // namespace foretrain::ui
