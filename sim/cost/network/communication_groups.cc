#include "sim/cost/network/communication_groups.h"

#include <cstddef>
#include <vector>

#include "sim/program/ir/groups.h"
#include "sim/program/ir/rank_order.h"

namespace foretrain {
namespace {

// Identifies each rank's group by its first member; -1 if it has none.
std::vector<int> FirstMembers(const Plan& plan, GroupKind kind) {
  std::vector<int> first;
  for (int rank = 0; rank < plan.World(); ++rank) {
    const std::vector<int> members = GroupMembers(plan, CoordinatesOf(plan, rank), kind);
    first.push_back(members.empty() ? -1 : members.front());
  }
  return first;
}

}  // namespace

CommunicationGroups CommunicationGroupsOf(const Plan& plan) {
  CommunicationGroups groups;
  const auto set = [&groups](Queue queue, const std::vector<int>& of) {
    groups.of[static_cast<std::size_t>(queue)] = of;
  };
  if (plan.tp > 1) set(Queue::kTp, FirstMembers(plan, GroupKind::kTp));
  if (plan.cp > 1) set(Queue::kCp, FirstMembers(plan, GroupKind::kCp));
  if (plan.ep > 1) set(Queue::kEp, FirstMembers(plan, GroupKind::kEp));
  // Expert gradients are reduced over other ranks than the rest, on the same queues.
  if (plan.replicas == 1 && plan.ep == 1 && plan.StageCopies() == 1) {
    const std::vector<int> data = FirstMembers(plan, GroupKind::kDp);
    set(Queue::kGather, data);
    set(Queue::kReduce, data);
  }
  std::vector<int> pipelines;
  for (int rank = 0; rank < plan.World(); ++rank) {
    RankCoordinates at = CoordinatesOf(plan, rank);
    at.pp = 0;
    pipelines.push_back(RankOf(plan, at));
  }
  for (const Queue queue :
       {Queue::kSendNext, Queue::kSendPrev, Queue::kRecvNext, Queue::kRecvPrev}) {
    if (plan.pp > 1) set(queue, pipelines);
  }
  return groups;
}

}  // namespace foretrain
