// Seconds of every op of a program on one machine, the simulator's input. sim/cost/cost_model.h
// fills it; tests fill it by hand.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/cost/profile/provenance.h"

namespace foretrain {

// Connections that the ops of one rank share, in each direction.
enum class SharedWire : std::uint8_t {
  kLinkOut,
  kLinkIn,
  kNetworkOut,
  kNetworkIn,
  kPcieOut,
  kPcieIn,
};
inline constexpr int kSharedWireCount = 6;
// Share of its uncontended time for which an op keeps each connection busy, from 0 to 1.
using WireDemand = std::array<double, kSharedWireCount>;

// Ops with equal cost share a row. A domain is the set of ranks on one machine. While it has `n`
// busy threads, an op progresses at the rate of its cost at concurrency `n`. That cost is
// interpolated between `levels`; beyond the cores, threads share them (contention.h).
struct ProgramCosts {
  std::vector<double> levels{1.0};       // concurrencies, ascending; the first is 1
  std::vector<double> seconds;           // [row * levels.size() + level]; >= 0
  std::vector<double> launch_s;          // [row]: host time to issue the op
  std::vector<double> load;              // [row]: threads kept busy; 0: none
  std::vector<double> measured_threads;  // [row]: busy threads at the highest level
  std::vector<WireDemand> demand;        // [row]; empty: no op uses a connection
  std::vector<Provenance> provenance;    // [row]
  std::vector<double> error;             // [row]: relative, one standard deviation

  // [rank index of Program::ranks][op number of the rank's step]
  std::vector<std::vector<std::int32_t>> row_of;

  // Machines. domain[rank index] numbers the machine of a rank. weight[rank index] is the number of
  // the domain's ranks that it represents.
  std::vector<std::int32_t> domain;
  std::vector<double> weight;
  int cores = 0;        // threads that a domain runs at full speed; 0: no limit
  double wake_s = 0.0;  // from the last input of an op to its start, if its queue was idle
  double gap_s = 0.0;   // from the end of an op to the start of the next on its queue

  bool contended() const { return levels.size() > 1 || cores > 0 || !demand.empty(); }
  double Alone(std::int32_t row) const {
    return seconds[static_cast<std::size_t>(row) * levels.size()];
  }
};

// Trustworthiness of a sum of op costs.
struct CostQuality {
  // Shares of the seconds of all ops alone; they sum to 1.
  std::array<double, kProvenanceCount> share{};
  double error = 0;  // mean error of the ops by seconds: as if all erred in the same direction
};

// Quality over all ops of all ranks, without launches. All zero if there are no ops. O(ops).
CostQuality QualityOf(const ProgramCosts& costs);

}  // namespace foretrain
