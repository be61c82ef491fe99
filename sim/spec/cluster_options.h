// The command line's refinements of a cluster: each option a text, as people write it. Leaves out
// which command takes them.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "sim/spec/cluster_spec.h"

namespace foretrain {

// Texts of options; empty: as the cluster has it.
struct ClusterOptions {
  std::string nic = {};  // "8x400Gb": adapters of a node and the rate of each; "400Gb": one
                         // a device
  std::string oversubscription = {};  // "2": of all that leaves a node; "2@32,7@384": of what
                                      // leaves units of so many nodes
  std::string host_memory = {};  // "64GiB", of a node
  std::string cpu_cores = {};    // "16", of a node
  std::string pcie = {};         // "4x16": generation and lanes of a device
  std::string collectives = {};  // "auto", "ring", "tree", ...
};

// Lays `options` over `cluster`, which is valid, and says in its assumptions what they leave open.
//
// PCIe: 1, 2, 4, 8 GB/s a lane and direction in generations 3 to 6, nominal, as data sheets and the
// catalogue count. Adapters: their rates together are shared out among the devices of a node.
//
// Errors: kInvalidArgument, naming option, text and remedy; also a result that ValidateCluster
// refuses. O(1); safe from any thread.
Result<void> RefineCluster(const ClusterOptions& options, ClusterSpec& cluster);

}  // namespace foretrain
