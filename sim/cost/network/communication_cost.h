// Modelled seconds of collectives and transfers from latencies and rates, for sizes that were not
// measured. cost_model.h uses measured tables first.
#pragma once

#include <array>

#include "sim/cost/network/fabric.h"
#include "sim/cost/network/group_place.h"
#include "sim/program/ir/op.h"

namespace foretrain {

// Time of a collective or transfer, from the arrival of its last member.
struct CommunicationTime {
  double seconds = 0;
  // Time for which each wire of a device is busy at its full rate; indexed by Wire.
  std::array<double, kWireCount> busy_s{};
  // kAuto for all-to-all, rotations and transfers, which have a single algorithm.
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;
};

// Time of a collective or transfer by the cheapest algorithm of `fabric`, or by the one it asks
// for. If that one does not support the kind, a ring is used.
//
//   kind   a collective, kSend or kRecv
//   bytes  size B of the whole tensor: the input of all-reduce and reduce-scatter, the output of
//          all-gather
//
// A group has n members and crosses levels (CrossingsOf), from the innermost outwards. A level
// joins u units below into v above, f = ceil(u / v) of them in one unit above, at rate R = carriers
// x a device's rate. h is a hop and b the start of a pattern and protocol (network_constants.h).
// Each algorithm takes its fastest protocol, which reaches a share s of the rates.
//
//   ring          b + sum (u - v) h + (n - 1) / n B / (s min R): all-gather, reduce-scatter;
//                 all-reduce twice all but b [1, 2]
//   tree          all-reduce: b + 2 (sum of (f - 1) h inside nodes, of ceil(log2 f) h between) +
//                 2 B / (s min R) [2]
//   hierarchical  a reduce-scatter at each level, an all-reduce at the outermost, then all-gathers,
//                 one after the other; each phase is a ring of f units with B / carriers; gathers
//                 and scatters need one direction only. Used for groups with several members on
//                 each of several nodes, and only if the fabric asks for it, as libraries do.
//   in-network    all-reduce in a node whose switches reduce:
//                 b + 2 h + B (1 + 1 / n) / (link_sums R);
//                 between nodes whose network reduces: b + sum of 2 (f - 1) h below, 2 h there +
//                 the longest of 2 (f - 1) / f B / (s R) below and B / (s R) there [2]
//   parameter server  all-reduce: twice b + h + max(B / a device's rate, n B / all servers' rate):
//                 push, then pull; scatters and gathers one of the two [3]
//   all-to-all    b + sum over levels of ceil(peers beyond it / 8) h + the longest of (bytes sent
//                 beyond it) / rate: each member sends B / n to each other one, 8 at a time
//   rotate, p2p   b + sum h + B / (s R) with one carrier; transfers between nodes share the node's
//                 adapters among `senders`
//
// On a torus each axis is a ring in both directions if the group spans it, else a line:
//   gathers       b + hops + (n - 1) / n B / sum of the axes' rates; all-reduce twice
//   all-to-all    the longest axis: B e / 8 over a link, a line B e / 4, e its extent
//
// O(levels); safe from any thread.
//
// [1] Thakur et al. 2005, s. 3 and 4   [2] NVIDIA/nccl src/graph/tuning.cc; Hu et al. 2025,
// "Demystifying NCCL", s. V   [3] Li et al., OSDI 2014; Jiang et al., OSDI 2020 (BytePS), s. 2
CommunicationTime TimeOfCommunication(const Fabric& fabric, OpKind kind, double bytes,
                                      const GroupPlace& place);

// Seconds for members that are threads of one machine and access each other's memory. The time is
// the start plus the bytes that one of them reads and writes, over the link's rate:
// all-reduce B (1 + 1/n) + 2 B (n - 1) / n, reduce-scatter B (1 + 1/n), all-gather 2 B (n - 1) / n,
// all-to-all, rotate and p2p 2 B.
double SharedMemorySeconds(const ProfileRates& rates, OpKind kind, double bytes, int members);

}  // namespace foretrain
