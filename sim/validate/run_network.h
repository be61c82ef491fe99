// The network of a published run, from the bus bandwidths that the job itself measured.
#pragma once

#include "sim/config/cluster/cluster_spec.h"
#include "sim/validate/families.h"
#include "sim/validate/run_table.h"

namespace foretrain {

// Sets the cluster's rates of collectives between nodes as the job measured them over all its
// nodes. Groups on two nodes are taken to reach the network's usual rate. If the job's gathers are
// slower than `kSlowShare` of the family's undisturbed ones, its collectives also lose
// `slow_launch_s` for each further member. Does nothing for a row without such measurements.
void SetMeasuredNetwork(const PublishedRun& run, const RunFamily& family, ClusterSpec& cluster);

}  // namespace foretrain
