// Command-line refinements of a cluster: each option is a text as people write it.
#pragma once

#include <string>

#include "base/result.h"
#include "sim/config/cluster/cluster_spec.h"

namespace foretrain {

// Texts of the options; if empty, the cluster keeps its value.
struct ClusterOptions {
  std::string nic = {};  // "8x400Gb": adapters per node and rate of each; "400Gb": one per device
  std::string oversubscription = {};  // "2": for traffic that leaves a node; "2@32,7@384": for
                                      // traffic that leaves units of 32 and 384 nodes
  std::string host_memory = {};       // "64GiB", per node
  std::string cpu_cores = {};         // "16", per node
  std::string pcie = {};              // "4x16": generation and lanes per device
  std::string collectives = {};       // "auto", "ring", "tree", ...
};

// Applies `options` to `cluster`, which is valid, and notes assumptions that they imply.
//
// PCIe: 1, 2, 4, 8 GB/s per lane and direction in generations 3 to 6, nominal, as in data sheets
// and the catalogue. Adapters: the devices of a node share the sum of their rates.
//
// Errors: kInvalidArgument, naming option, text and remedy; also if ValidateCluster refuses the
// result. O(1); safe from any thread.
Result<void> RefineCluster(const ClusterOptions& options, ClusterSpec& cluster);

}  // namespace foretrain
