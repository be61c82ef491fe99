// Seconds of every op of one program on one machine: what the simulator plays. Leaves out where the
// seconds come from (sim/cost/cost_model.h); tests fill it by hand.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/cost/provenance.h"

namespace foretrain {

// What ops of one rank share beside threads: a device's connections, each way.
enum class SharedWire : std::uint8_t {
  kLinkOut,
  kLinkIn,
  kNetworkOut,
  kNetworkIn,
  kPcieOut,
  kPcieIn,
};
inline constexpr int kSharedWireCount = 6;
// Share of its time alone in which an op keeps each connection busy; from 0 to 1.
using WireDemand = std::array<double, kSharedWireCount>;

// Ops that cost the same share a row. An op that runs while its domain (the ranks that share a
// machine) has `n` busy threads progresses at the rate of its cost at concurrency `n`, which is
// interpolated between `levels` and, beyond the cores, shared out among the threads (contention.h).
struct ProgramCosts {
  std::vector<double> levels{1.0};       // concurrency, ascending, the first is 1
  std::vector<double> seconds;           // [row * levels.size() + level]; >= 0
  std::vector<double> launch_s;          // [row]: host time that issues the op
  std::vector<double> load;              // [row]: threads it keeps busy; 0: none
  std::vector<double> measured_threads;  // [row]: busy threads at the highest level
  std::vector<WireDemand> demand;        // [row]; empty: none has any
  std::vector<Provenance> provenance;    // [row]
  std::vector<double> error;             // [row]: relative, one standard deviation

  // [rank index of Program::ranks][op number of the rank's step]
  std::vector<std::vector<std::int32_t>> row_of;

  // Machine. domain[rank index] numbers the machines that ranks share; weight[rank index] is how
  // many ranks of the domain the rank stands for.
  std::vector<std::int32_t> domain;
  std::vector<double> weight;
  int cores = 0;        // threads a domain runs at full speed; 0: no limit
  double wake_s = 0.0;  // from the last input of an op to its start where its queue had gone idle
  double gap_s = 0.0;   // from the end of an op to the start of the next on its queue

  bool contended() const { return levels.size() > 1 || cores > 0 || !demand.empty(); }
  double Alone(std::int32_t row) const {
    return seconds[static_cast<std::size_t>(row) * levels.size()];
  }
};

// How far a sum of op costs is to be trusted.
struct CostQuality {
  std::array<double, kProvenanceCount> share{};  // of the seconds of all ops alone; they sum to 1
  double error = 0;  // mean of the ops' errors by seconds: as if all erred the same way
};

// Over all ops of all ranks, without launches. No ops: all zero. O(ops).
CostQuality QualityOf(const ProgramCosts& costs);

}  // namespace foretrain
