#include "sim/program/ir/rank_order.h"

namespace foretrain {
namespace {

// The coordinates of a rank in the order tp, cp, ep, dp, pp; their sizes likewise.
using Digits = std::array<int, kDegreeCount>;

// Number of data-parallel ranks that one expert-parallel group spans; 1 if the group fits inside
// context and tensor parallelism or does not divide evenly.
int ExpertShareOfDp(const Plan& plan) {
  const int inner = plan.cp * (plan.ExpertsSpanTp() ? plan.tp : 1);
  return plan.ep % inner == 0 ? plan.ep / inner : 1;
}

}  // namespace

std::array<int, kDegreeCount> DegreeSizes(const Plan& plan) {
  const int ep = ExpertShareOfDp(plan);
  return {plan.tp, plan.cp, ep, plan.dp / ep, plan.pp};
}

RankCoordinates CoordinatesOf(const Plan& plan, int rank) {
  RankCoordinates at;
  at.tp = rank % plan.tp;
  rank /= plan.tp;
  at.cp = rank % plan.cp;
  rank /= plan.cp;
  at.dp = rank % plan.dp;
  at.pp = rank / plan.dp;
  return at;
}

// A mixed-radix number: the digits of the rank, weighted in the order that the plan gives.
// RankOnDevice is its inverse.
int DeviceOf(const Plan& plan, int rank) {
  if (plan.rank_order == 0) return rank;
  const Digits sizes = DegreeSizes(plan);
  const RankCoordinates at = CoordinatesOf(plan, rank);
  const Digits digits = {at.tp, at.cp, at.dp % sizes[2], at.dp / sizes[2], at.pp};
  int device = 0, below = 1;
  for (const int degree : DegreesOf(plan.rank_order)) {
    device += digits[static_cast<std::size_t>(degree)] * below;
    below *= sizes[static_cast<std::size_t>(degree)];
  }
  return device;
}

int RankOnDevice(const Plan& plan, int device) {
  if (plan.rank_order == 0) return device;
  const Digits sizes = DegreeSizes(plan);
  Digits digits{};
  for (const int degree : DegreesOf(plan.rank_order)) {
    const int size = sizes[static_cast<std::size_t>(degree)];
    digits[static_cast<std::size_t>(degree)] = device % size;
    device /= size;
  }
  const auto [tp, cp, ep, dp, pp] = digits;
  return RankOf(plan, {.pp = pp, .dp = dp * sizes[2] + ep, .cp = cp, .tp = tp});
}

std::vector<int> DevicesOf(const Plan& plan, const std::vector<int>& ranks) {
  std::vector<int> devices = ranks;
  if (plan.rank_order == 0) return devices;
  for (int& device : devices) device = DeviceOf(plan, device);
  return devices;
}

}  // namespace foretrain
