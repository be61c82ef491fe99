#include "sim/program/link/couplings.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace foretrain {
namespace {

std::size_t Index(std::int32_t i) { return static_cast<std::size_t>(i); }

// Ops that are matched by position: the sends of one rank with the receives of another, or one
// queue's collectives on all members of a group. `ops` lists each side's ops in issue order.
struct Stream {
  std::vector<std::int32_t>
      ranks;  // index into Program::ranks, by side; -1 if the rank is not in the program
  std::vector<std::vector<std::int32_t>> ops;
};

class Coupler {
 public:
  Coupler(const Program& program, std::span<const FlatStep> steps)
      : program_(program), steps_(steps) {
    for (std::size_t i = 0; i < program.ranks.size(); ++i) {
      index_of_rank_[program.ranks[i].rank] = static_cast<std::int32_t>(i);
    }
  }

  // First sorts every communication op into its stream, then matches the k-th ops of all sides of
  // each stream. O(ops) and independent of the order of ranks.
  Result<Couplings> Run() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      result_.of_op.emplace_back(Index(steps_[i].Ops()), -1);
      FT_TRY(Collect(static_cast<std::int32_t>(i)));
    }
    for (const auto& [key, stream] : transfers_) FT_TRY(Join(stream, &Coupler::CheckTransfer));
    for (const auto& [key, stream] : collectives_) FT_TRY(Join(stream, &Coupler::CheckCollective));
    result_.first.push_back(static_cast<std::int32_t>(result_.members.size()));
    return std::move(result_);
  }

 private:
  using Check = Result<void> (Coupler::*)(OpPlace, OpPlace) const;

  const RankProgram& RankAt(std::int32_t index) const { return program_.ranks[Index(index)]; }
  OpRef RefOf(OpPlace place) const {
    const std::int32_t instruction = steps_[Index(place.rank)].instruction[Index(place.op)];
    return {instruction, place.op - RankAt(place.rank).step[Index(instruction)].first_op};
  }
  const Op& OpOf(OpPlace place) const { return OpAt(program_, RankAt(place.rank), RefOf(place)); }
  const InstructionKey& KeyOf(OpPlace place) const {
    return RankAt(place.rank).step[Index(RefOf(place).instruction)].key;
  }
  std::string Text(OpPlace place) const {
    return DescribeOp(program_, RankAt(place.rank), steps_[Index(place.rank)], place.op);
  }
  std::int32_t IndexOfRank(int rank) const {
    const auto found = index_of_rank_.find(rank);
    return found == index_of_rank_.end() ? -1 : found->second;
  }

  // Index of the op's group in Program::groups. Errors if the rank is no member of it.
  Result<std::int32_t> GroupOf(OpPlace place) const {
    const RankProgram& rank = RankAt(place.rank);
    const GroupKind kind = OpOf(place).group;
    const std::int32_t group = rank.groups[static_cast<std::size_t>(kind)];
    if (kind == GroupKind::kNone || group < 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  Text(place) + ": the rank has no group " + std::string(Name(kind)));
    }
    const std::vector<int>& members = program_.groups[Index(group)];
    if (std::find(members.begin(), members.end(), rank.rank) == members.end()) {
      return Fail(ErrorCode::kInvalidArgument,
                  Text(place) + ": the rank is no member of its group " + std::string(Name(kind)));
    }
    return group;
  }

  Result<void> Collect(std::int32_t rank) {
    for (OpPlace place{rank, 0}; place.op < steps_[Index(rank)].Ops(); ++place.op) {
      const OpKind kind = OpOf(place).kind;
      if (IsCollective(kind)) {
        FT_TRY(CollectCollective(place));
      } else if (IsCommunication(kind)) {
        FT_TRY(CollectTransfer(place));
      }
    }
    return {};
  }

  // A stream has one side per member, including those that are not in the program; their lists stay
  // empty.
  Result<void> CollectCollective(OpPlace place) {
    FT_ASSIGN(const std::int32_t group, GroupOf(place));
    const Queue queue = steps_[Index(place.rank)].QueueOf(place.op);
    Stream& stream = collectives_[{group, queue}];
    const std::vector<int>& members = program_.groups[Index(group)];
    if (stream.ranks.empty()) {
      for (const int member : members) stream.ranks.push_back(IndexOfRank(member));
      stream.ops.resize(members.size());
    }
    const auto side = std::find(stream.ranks.begin(), stream.ranks.end(), place.rank);
    stream.ops[static_cast<std::size_t>(side - stream.ranks.begin())].push_back(place.op);
    return {};
  }

  // A stream has two sides, sender and receiver. Sends to the next stage and sends to the previous
  // one are separate streams, even if both neighbours are the same rank.
  Result<void> CollectTransfer(OpPlace place) {
    const Op& op = OpOf(place);
    if (op.group != GroupKind::kNext && op.group != GroupKind::kPrev) {
      return Fail(ErrorCode::kInvalidArgument,
                  Text(place) + ": its group is " + std::string(Name(op.group)) +
                      "; a send or receive has a neighbour, next or prev");
    }
    FT_ASSIGN(const std::int32_t group, GroupOf(place));
    const std::vector<int>& pair = program_.groups[Index(group)];
    if (pair.size() != 2) {
      return Fail(ErrorCode::kInvalidArgument, Text(place) + ": its group has " +
                                                   std::to_string(pair.size()) +
                                                   " members; neighbours are two");
    }
    // A send to the next rank and a receive from the previous one both move data down the pipeline.
    const bool sends = op.kind == OpKind::kSend;
    const int self = RankAt(place.rank).rank;
    const int peer = pair[0] == self ? pair[1] : pair[0];
    const bool down = sends == (op.group == GroupKind::kNext);
    Stream& stream = transfers_[{sends ? self : peer, sends ? peer : self, down}];
    if (stream.ranks.empty()) {
      stream.ranks = {IndexOfRank(sends ? self : peer), IndexOfRank(sends ? peer : self)};
      stream.ops.resize(2);
    }
    std::vector<std::int32_t>& ops = stream.ops[sends ? 0 : 1];
    const FlatStep& step = steps_[Index(place.rank)];
    // One queue per direction: two queues would allow either order, and sides could disagree.
    if (!ops.empty() && step.LaneOf(ops.back()) != step.LaneOf(place.op)) {
      return Mismatch({place.rank, ops.back()}, place,
                      "transfers of one direction on two queues have no order of their own");
    }
    ops.push_back(place.op);
    return {};
  }

  // Partners must both work for this step or both for the next one (Instruction::ahead): otherwise
  // one of them would be missing in the first and in the last round of a run.
  Result<void> CheckSteps(OpPlace a, OpPlace b) const {
    const auto is_for_next_step = [this](OpPlace place) {
      return RankAt(place.rank).step[Index(RefOf(place).instruction)].for_next_step;
    };
    if (is_for_next_step(a) == is_for_next_step(b)) return {};
    return Mismatch(a, b, "one works for the next step, the other does not");
  }

  // Couples the k-th ops of all sides. Every present side is compared with the first present one; a
  // stream with fewer than two present sides stays uncoupled.
  Result<void> Join(const Stream& stream, Check check) {
    std::size_t model = stream.ranks.size();
    std::size_t present = 0;
    for (std::size_t side = 0; side < stream.ranks.size(); ++side) {
      if (stream.ranks[side] < 0) continue;
      ++present;
      if (model == stream.ranks.size()) model = side;
    }
    for (std::size_t side = model + 1; side < stream.ranks.size(); ++side) {
      if (stream.ranks[side] >= 0) FT_TRY(CheckSides(stream, model, side, check));
    }
    if (present < 2) return {};
    for (std::size_t k = 0; k < stream.ops[model].size(); ++k) {
      const auto coupling = static_cast<std::int32_t>(result_.first.size());
      result_.first.push_back(static_cast<std::int32_t>(result_.members.size()));
      for (std::size_t side = 0; side < stream.ranks.size(); ++side) {
        const std::int32_t rank = stream.ranks[side];
        if (rank < 0) continue;
        result_.members.push_back({rank, stream.ops[side][k]});
        result_.of_op[Index(rank)][Index(stream.ops[side][k])] = coupling;
      }
    }
    return {};
  }

  // Compares op by op before it compares counts, so that the message names the first pair that
  // differs.
  Result<void> CheckSides(const Stream& stream, std::size_t a, std::size_t b, Check check) const {
    const std::size_t both = std::min(stream.ops[a].size(), stream.ops[b].size());
    for (std::size_t k = 0; k < both; ++k) {
      FT_TRY(
          (this->*check)({stream.ranks[a], stream.ops[a][k]}, {stream.ranks[b], stream.ops[b][k]}));
    }
    for (const auto& [side, other] : {std::pair(a, b), std::pair(b, a)}) {
      if (stream.ops[side].size() == both) continue;
      return Fail(ErrorCode::kInvalidArgument,
                  Text({stream.ranks[side], stream.ops[side][both]}) + " has no partner on rank " +
                      std::to_string(RankAt(stream.ranks[other]).rank) + ", which has " +
                      std::to_string(both) + " of its kind against " +
                      std::to_string(stream.ops[side].size()));
    }
    return {};
  }

  Result<void> Mismatch(OpPlace a, OpPlace b, const std::string& what) const {
    return Fail(ErrorCode::kInvalidArgument, Text(a) + " and " + Text(b) + ": " + what);
  }

  // Elements, and bytes of each operand, must be equal on both sides.
  Result<void> CheckBytes(OpPlace a, OpPlace b) const {
    const Op& op_a = OpOf(a);
    const Op& op_b = OpOf(b);
    if (op_a.shape.elements != op_b.shape.elements) {
      return Mismatch(a, b,
                      std::to_string(op_a.shape.elements) + " elements against " +
                          std::to_string(op_b.shape.elements));
    }
    const std::int32_t operands = std::max(op_a.operand_count, op_b.operand_count);
    for (std::int32_t i = 0; i < operands; ++i) {
      const auto bytes = [&](OpPlace place, const Op& op) -> std::int64_t {
        if (i >= op.operand_count) return 0;
        return OperandBinding(program_, RankAt(place.rank), RefOf(place), i).bytes;
      };
      if (bytes(a, op_a) != bytes(b, op_b)) {
        return Mismatch(
            a, b,
            std::to_string(bytes(a, op_a)) + " bytes against " + std::to_string(bytes(b, op_b)));
      }
    }
    return {};
  }

  // The keys of a send and its receive agree in all but the kind: same pass, block, micro-batch and
  // part.
  Result<void> CheckTransfer(OpPlace send, OpPlace recv) const {
    FT_TRY(CheckBytes(send, recv));
    InstructionKey sent = KeyOf(send);
    const InstructionKey& received = KeyOf(recv);
    sent.kind = received.kind;
    if (sent != received) return Mismatch(send, recv, "they move different tensors");
    return CheckSteps(send, recv);
  }

  // Members that run the same instructions (tensor and data parallelism) must also agree on the
  // instruction and op. Elsewhere equal kinds, bytes and groups are enough.
  Result<void> CheckCollective(OpPlace a, OpPlace b) const {
    const Op& op_a = OpOf(a);
    const Op& op_b = OpOf(b);
    if (op_a.kind != op_b.kind) {
      return Mismatch(a, b,
                      std::string(Name(op_a.kind)) + " against " + std::string(Name(op_b.kind)));
    }
    FT_TRY(CheckBytes(a, b));
    const bool alike = MembersAreAlike(op_a.group);
    const bool same = KeyOf(a) == KeyOf(b) && RefOf(a).op == RefOf(b).op;
    if (op_a.group != op_b.group || (alike && !same)) {
      return Mismatch(a, b, "the members issue their collectives in different order");
    }
    return CheckSteps(a, b);
  }

  const Program& program_;
  std::span<const FlatStep> steps_;
  std::map<int, std::int32_t> index_of_rank_;
  std::map<std::tuple<int, int, bool>, Stream> transfers_;  // sender, receiver, down
  std::map<std::pair<std::int32_t, Queue>, Stream> collectives_;
  Couplings result_;
};

}  // namespace

Result<Couplings> Couple(const Program& program, std::span<const FlatStep> steps) {
  return Coupler(program, steps).Run();
}

}  // namespace foretrain
