#include "sim/program/meetings.h"

#include <map>
#include <tuple>

namespace foretrain {
namespace {

// Where members meet: the two ends of a transfer use different queues, one lane each way.
int LaneOf(Queue queue) {
  switch (queue) {
    case Queue::kSendNext:
    case Queue::kRecvPrev:
      return static_cast<int>(Queue::kSendNext);
    case Queue::kSendPrev:
    case Queue::kRecvNext:
      return static_cast<int>(Queue::kSendPrev);
    default:
      return static_cast<int>(queue);
  }
}

}  // namespace

std::vector<Meeting> MeetingsOf(const Program& program) {
  std::map<std::tuple<int, int, int>, Meeting> meetings;  // by group, lane and turn
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const RankProgram& rank = program.ranks[r];
    std::map<std::pair<int, int>, int> turns;
    for (const Instruction& instruction : rank.step) {
      const Block& block = program.blocks[static_cast<std::size_t>(instruction.block)];
      for (std::size_t i = 0; i < block.ops.size(); ++i) {
        const Op& op = block.ops[i];
        if (!IsCommunication(op.kind)) continue;
        const int group = rank.groups[static_cast<std::size_t>(op.group)];
        const int lane = LaneOf(op.queue);
        const int turn = turns[{group, lane}]++;
        meetings[{group, lane, turn}].push_back(
            {static_cast<std::int32_t>(r), instruction.first_op + static_cast<std::int32_t>(i)});
      }
    }
  }
  std::vector<Meeting> out;
  out.reserve(meetings.size());
  for (auto& [key, meeting] : meetings) out.push_back(std::move(meeting));
  return out;
}

}  // namespace foretrain
