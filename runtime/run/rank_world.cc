#include "runtime/run/rank_world.h"

#include <algorithm>
#include <set>
#include <utility>

namespace foretrain {
namespace {}  // namespace

std::string ChannelKey::Text(const std::string& carrier) const {
  std::string text = carrier + " " + std::string(Name(queue)) + " of ranks";
  for (const int member : members) text += " " + std::to_string(member);
  return text;
}

int ChannelKey::MemberOf(int rank) const {
  const auto place = std::find(members.begin(), members.end(), rank);
  return place == members.end() ? -1 : static_cast<int>(place - members.begin());
}

Result<ChannelKey> KeyOf(int rank, std::vector<int> members, GroupKind group, Queue queue,
                         OpKind kind) {
  ChannelKey key{std::move(members), queue};
  if (IsTransfer(kind)) {
    if (key.members.size() != 2) {
      return Fail(ErrorCode::kInvalidArgument, "rank " + std::to_string(rank) + ": a " +
                                                   std::string(Name(kind)) + " to a group of " +
                                                   std::to_string(key.members.size()) +
                                                   " ranks; it joins two");
    }
    // Sender first. If both neighbours are the same rank, the direction around the ring tells the
    // two transfers apart.
    const bool sends = kind == OpKind::kSend;
    const bool up = sends == (group == GroupKind::kNext);
    key.queue = up ? Queue::kSendNext : Queue::kSendPrev;
    if ((key.members[0] == rank) != sends) std::swap(key.members[0], key.members[1]);
  }
  if (key.MemberOf(rank) >= 0) return key;
  return Fail(ErrorCode::kInvalidArgument, "rank " + std::to_string(rank) +
                                               " is not a member of the group " +
                                               std::string(Name(group)) + " that it calls");
}

// The set sorts the keys, so all ranks see common keys in the same order. Invalid calls are left
// out here, because opening them reports the error with its op.
std::vector<ChannelKey> KeysOf(const Program& program, const RankProgram& rank) {
  std::set<ChannelKey> keys;
  for (const OpRef ref : OpRefs(program, rank)) {
    const Op& op = OpAt(program, rank, ref);
    if (!IsCommunication(op.kind)) continue;
    const std::int32_t group = rank.groups[static_cast<std::size_t>(op.group)];
    if (group < 0) continue;  // reported by PlanRank
    auto key = KeyOf(rank.rank, program.groups[static_cast<std::size_t>(group)], op.group, op.queue,
                     op.kind);
    if (key.has_value()) keys.insert(*std::move(key));
  }
  return {keys.begin(), keys.end()};
}

}  // namespace foretrain
