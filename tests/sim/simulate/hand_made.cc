#include "tests/sim/simulate/hand_made.h"

#include <algorithm>
#include <cstddef>

namespace foretrain {
namespace {

std::size_t At(int index) { return static_cast<std::size_t>(index); }

}  // namespace

HandMade::HandMade(int ranks) {
  program.plan.pp = ranks;
  for (int r = 0; r < ranks; ++r) {
    RankProgram rank;
    rank.rank = r;
    rank.pp = r;
    rank.groups.fill(-1);
    program.ranks.push_back(rank);
  }
  costs.row_of.resize(At(ranks));
  costs.domain.assign(At(ranks), 0);
  costs.weight.assign(At(ranks), 1.0);
}

int HandMade::Append(int rank, const Op& op, double seconds) {
  RankProgram& to = program.ranks[At(rank)];
  const int number = to.op_count++;
  Block block;
  block.name = op.name;
  block.ops.push_back(op);
  Instruction instruction;
  instruction.key = {InstructionKind::kBlock, Pass::kForward, rank, number, 0};
  instruction.block = static_cast<std::int32_t>(program.blocks.size());
  instruction.first_binding = static_cast<std::int32_t>(to.bindings.size());
  instruction.first_op = number;
  program.blocks.push_back(block);
  to.step.push_back(instruction);
  costs.row_of[At(rank)].push_back(static_cast<std::int32_t>(costs.launch_s.size()));
  costs.seconds.push_back(seconds);
  costs.launch_s.push_back(0.0);
  costs.load.push_back(1.0);
  costs.measured_threads.push_back(1.0);
  costs.provenance.push_back(Provenance::kMeasured);
  costs.error.push_back(0.0);
  return number;
}

int HandMade::Add(int rank, Queue queue, double seconds, const std::string& name,
                  OpClass op_class) {
  Op op;
  op.queue = queue;
  op.op_class = op_class;
  op.name = name;
  return Append(rank, op, seconds);
}

int HandMade::AddCollective(int rank, Queue queue, double seconds, const std::vector<int>& members,
                            const std::string& name) {
  program.ranks[At(rank)].groups[static_cast<std::size_t>(GroupKind::kDp)] = Group(members);
  Op op;
  op.kind = OpKind::kAllReduce;
  op.queue = queue;
  op.op_class = OpClass::kDpComm;
  op.group = GroupKind::kDp;
  op.name = name;
  return Append(rank, op, seconds);
}

int HandMade::AddSend(int rank, bool up, double seconds) {
  Op op;
  op.kind = OpKind::kSend;
  op.queue = up ? Queue::kSendNext : Queue::kSendPrev;
  op.op_class = OpClass::kPpComm;
  op.group = up ? GroupKind::kNext : GroupKind::kPrev;
  op.name = "send";
  program.ranks[At(rank)].groups[static_cast<std::size_t>(op.group)] =
      up ? Group({rank, rank + 1}) : Group({rank - 1, rank});
  return Append(rank, op, seconds);
}

int HandMade::AddRecv(int rank, bool up, double seconds) {
  Op op;
  op.kind = OpKind::kRecv;
  op.queue = up ? Queue::kRecvPrev : Queue::kRecvNext;
  op.op_class = OpClass::kPpComm;
  op.group = up ? GroupKind::kPrev : GroupKind::kNext;
  op.name = "recv";
  program.ranks[At(rank)].groups[static_cast<std::size_t>(op.group)] =
      up ? Group({rank - 1, rank}) : Group({rank, rank + 1});
  return Append(rank, op, seconds);
}

int HandMade::Group(const std::vector<int>& members) {
  const auto found = std::find(program.groups.begin(), program.groups.end(), members);
  if (found == program.groups.end()) {
    program.groups.push_back(members);
    return static_cast<int>(program.groups.size()) - 1;
  }
  return static_cast<int>(found - program.groups.begin());
}

void HandMade::Edge(int rank, int from, int to, int distance) {
  std::vector<foretrain::Edge>& edges = program.ranks[At(rank)].edges;
  edges.push_back({from, to, distance});
  std::sort(edges.begin(), edges.end(), [](const foretrain::Edge& a, const foretrain::Edge& b) {
    return a.to != b.to ? a.to < b.to : a.from < b.from;
  });
}

int HandMade::AddBuffer(int rank, std::int64_t bytes, Category category,
                        const std::vector<int>& ops, bool persistent) {
  RankProgram& to = program.ranks[At(rank)];
  const int buffer = static_cast<int>(to.buffers.size());
  Buffer made;
  made.bytes = bytes;
  made.category = category;
  made.persistent = persistent;
  made.first_op = ops.empty() ? -1 : *std::min_element(ops.begin(), ops.end());
  made.last_op = ops.empty() ? -1 : *std::max_element(ops.begin(), ops.end());
  to.buffers.push_back(made);
  for (const int number : ops) {
    // Each op has its own instruction. Its bindings move to the end of the list, where one can be
    // added.
    Instruction& instruction = to.step[At(number)];
    Block& block = program.blocks[At(instruction.block)];
    const auto first = static_cast<std::int32_t>(to.bindings.size());
    for (std::size_t i = 0; i < block.slots.size(); ++i) {
      to.bindings.push_back(to.bindings[At(instruction.first_binding) + i]);
    }
    to.bindings.push_back({buffer, 0, bytes});
    instruction.first_binding = first;
    block.operands.push_back({static_cast<std::int16_t>(block.slots.size()), Access::kReadWrite});
    block.slots.emplace_back();
    ++block.ops[0].operand_count;
  }
  return buffer;
}

void HandMade::SetLevels(const std::vector<double>& levels, const std::vector<double>& slowdown) {
  std::vector<double> seconds;
  for (std::size_t row = 0; row < costs.launch_s.size(); ++row) {
    const double alone = costs.seconds[row * costs.levels.size()];
    for (const double factor : slowdown) seconds.push_back(alone * factor);
  }
  costs.seconds = seconds;
  costs.levels = levels;
  for (double& threads : costs.measured_threads) threads = levels.back();
}

std::int32_t HandMade::Row(int rank, int op) const { return costs.row_of[At(rank)][At(op)]; }

}  // namespace foretrain
