// Whether a system's host issues ops faster than the device executes them.
#pragma once

#include "sim/config/cluster/cluster_spec.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/config/plan/system_options.h"

namespace foretrain {

// True if a layer's ops, forward and backward, take the device longer than the host needs to issue
// them. The host then runs ahead until its launch queue is full, so memory that another queue used
// is free late (SystemOptions::late_free_ops). Otherwise the device waits for the host, and memory
// is free at once.
//
//   system  host time of an op; cluster.member_launch_s adds the time of a collective's members
//
// Times are those of the profile derived for the cluster. Collectives of tensor and context
// parallelism count one after the other with compute. O(ops of a layer); safe from any thread.
bool HostRunsAhead(const ModelSpec& model, const Plan& plan, const ClusterSpec& cluster,
                   const SystemOptions& system);

}  // namespace foretrain
