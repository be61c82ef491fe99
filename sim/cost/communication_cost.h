// Assumed seconds of collectives and transfers from latencies and rates, for what was not measured.
// Leaves out measured tables (cost_model.h).
#pragma once

#include <vector>

#include "sim/cost/device_profile.h"
#include "sim/program/op.h"
#include "sim/spec/cluster_spec.h"

namespace foretrain {

// How the members of a group lie on the machines.
struct GroupPlace {
  int members = 1;
  int nodes = 1;     // that they lie on
  int per_node = 1;  // members on the node that has fewest

  bool operator==(const GroupPlace&) const = default;
};

// Ranks fill one node after the other in order of their number.
GroupPlace PlaceOf(const ClusterSpec& cluster, const std::vector<int>& members);

// Seconds from the last arrival.
//
//   kind   a collective, kSend or kRecv
//   bytes  of the whole tensor: what all-reduce sums, reduce-scatter takes in, all-gather ends with
//   shared members are threads of one machine that work on each other's memory
//
// n members, m nodes, k members a node, hop latencies a (links) and b (network), base latency of
// the slowest tier, B bytes. Rate R: that of a link in one node, else the smaller of a link's and k
// times a device's network rate, since k devices of a node carry k rings [1].
//   all-gather, reduce-scatter   base + (n - m) a + m b + (n - 1) / n B / R      (one node: (n-1)
//   a) all-reduce                   the smaller of twice that ring, base once, and a tree:
//                                base + 2 ((k - 1) a + log2(m) b) + 2 B / R
//   all-to-all                   base + a or b + the longer of (k - 1) / n B / a link's rate and
//                                (n - k) / n B / a device's network rate: all pairs at once
//   rotate                       base + B / R, k = 1: one member of a node sends to the next node
//   p2p                          base + B / R, k = 1
// Shared: base + the bytes that one member reads and writes / link rate, the sum taken in parts:
//   all-reduce B (1 + 1/n) + 2 B (n - 1) / n, reduce-scatter B (1 + 1/n),
//   all-gather 2 B (n - 1) / n, all-to-all, rotate and p2p 2 B
//
// [1] Thakur et al. 2005, s. 3 and 4; Hu et al. 2025, "Demystifying NCCL", s. V
double CommunicationSeconds(const ProfileRates& rates, OpKind kind, double bytes,
                            const GroupPlace& place, bool shared);

}  // namespace foretrain
