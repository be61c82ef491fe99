#include "runtime/executor/rank_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/units.h"
#include "kernels/cpu/cpu_device.h"
#include "sim/program/graphs/graph_stretches.h"
#include "sim/program/ir/row_counts.h"

namespace foretrain {
namespace {

std::size_t Index(std::int64_t index) { return static_cast<std::size_t>(index); }

// Builds one rank's plan op by op: everything that does not change between steps is resolved here,
// so that the loop only reads arrays.
class Planner {
 public:
  Planner(const Program& program, const RankProgram& rank, const RankArena& arena,
          CommunicatorSet& communicators, const OptimizerSettings& optimizer, std::uint64_t seed)
      : program_(program),
        rank_(rank),
        arena_(arena),
        communicators_(communicators),
        optimizer_(optimizer),
        seed_(seed),
        refs_(OpRefs(program, rank)) {
    plan_.rank = rank.rank;
    plan_.dp = rank.dp;
    plan_.cp = rank.cp;
    plan_.tp = rank.tp;
    plan_.expert_headroom = program.plan.expert_headroom;
    plan_.accessors.assign(rank.buffers.size(), 0);
  }

  // Waits refer to ops by number, so all ops must exist before AddWaits.
  Result<RankPlan> Run(bool guarded) {
    for (const OpRef ref : refs_) FT_TRY(AddOp(ref));
    AddWaits();
    const std::vector<std::int16_t> together = GraphStretches(program_, rank_);
    for (std::size_t op = 0; op < together.size(); ++op) {
      plan_.ops[op].together = std::max<std::int16_t>(together[op], 1);
    }
    if (guarded) FT_TRY(AddGuard());
    return std::move(plan_);
  }

 private:
  // Ops keep the order of issue, and
  // each queue gets their numbers.
  Result<void> AddOp(OpRef ref) {
    const Op& op = OpAt(program_, rank_, ref);
    PlannedOp planned;
    planned.id = IdOf(rank_, ref);
    planned.queue = op.queue;
    planned.for_next_step = rank_.step[Index(ref.instruction)].for_next_step;
    planned.op_class = op.op_class;
    planned.bytes = MovedBytes(op, ref);
    AddTouched(op, ref, planned);
    std::vector<std::byte*> at;
    std::vector<std::int64_t> bytes;
    for (int i = 0; i < op.operand_count; ++i) {
      const Binding binding = OperandBinding(program_, rank_, ref, i);
      at.push_back(arena_.At(binding));
      bytes.push_back(binding.bytes);
    }
    if (IsCommunication(op.kind)) {
      FT_TRY(AddComm(op, ref, at, planned));
    } else if (op.kind == OpKind::kCopy) {
      FT_TRY(AddCopy(ref, planned));
    } else if (op.kind == OpKind::kLoadBatch) {
      AddLoad(ref, at, planned);
    } else if (op.kind == OpKind::kHostRead) {
      const float scale = op.Get(Attribute::kLossScale);
      SetWork(Work::kHostRead,
              {!at.empty() ? at[0] : nullptr, at.size() > 1 ? at[1] : nullptr,
               1.0F / (scale * scale), at.size() > 2 ? at[2] : nullptr, scale},
              plan_.reads, planned);
    } else if (op.kind == OpKind::kReadCounts) {
      SetWork(Work::kReadCounts, {at[0], op.shape, RouterOf(op.name)}, plan_.counts, planned);
    } else if (op.kind == OpKind::kOpaque) {
      SetWork(Work::kOpaque, NsFromSeconds(op.duration_s), plan_.durations_ns, planned);
    } else {
      const Block& block = program_.blocks[Index(rank_.step[Index(ref.instruction)].block)];
      const auto operands =
          std::span(block.operands).subspan(Index(op.first_operand), Index(op.operand_count));
      const InstructionKey& key = rank_.step[Index(ref.instruction)].key;
      const RandomPlace random = RandomPlaceOf(op, seed_, key, program_.plan, rank_.dp);
      FT_ASSIGN(KernelCall call,
                MakeKernelCall({op, operands, at, rank_.tp, key.micro_batch, rank_.cp, RunsOf(op),
                                random, ExpertMember(), bytes, optimizer_}));
      // Kernels that read row counts on the host cannot be in a CUDA graph.
      FT_CHECK(call.counts == nullptr || !WhyNotInGraph(op).empty());
      SetWork(Work::kKernel, call, plan_.calls, planned);
    }
    plan_.queues[static_cast<std::size_t>(op.queue)].push_back(
        static_cast<std::int32_t>(plan_.ops.size()));
    plan_.ops.push_back(planned);
    return {};
  }

  // Sets the op's kind of work, with `detail` as the last of its list.
  template <class Detail>
  static void SetWork(Work work, std::type_identity_t<Detail> detail, std::vector<Detail>& details,
                      PlannedOp& planned) {
    planned.work = work;
    planned.detail = static_cast<std::int32_t>(details.size());
    details.push_back(std::move(detail));
  }

  // This rank's index in its expert-parallel group.
  int ExpertMember() const {
    const std::int32_t group = rank_.groups[static_cast<std::size_t>(GroupKind::kEp)];
    if (group < 0) return 0;
    const std::vector<int>& members = program_.groups[Index(group)];
    return static_cast<int>(std::find(members.begin(), members.end(), rank_.rank) -
                            members.begin());
  }

  // Positions of the op's rows under context parallelism, shared by all ops of a size; null without
  // it.
  const SequenceRuns* RunsOf(const Op& op) {
    const OpShape& s = op.shape;
    if (s.cp == 0) return nullptr;
    const auto [found, is_new] =
        runs_.try_emplace(std::tuple(s.cp, s.batch, s.sequence), plan_.runs.size());
    if (is_new) plan_.runs.push_back(std::make_unique<const SequenceRuns>(s));
    return plan_.runs[found->second].get();
  }

  // Bytes as in a predicted timeline: the first tensor of a collective, transfer or copy; all
  // tensors of a load.
  std::int64_t MovedBytes(const Op& op, OpRef ref) const {
    const bool copies = op.op_class == OpClass::kCopy && op.kind != OpKind::kCopy;
    if (op.op_class != OpClass::kCopy && !IsCommunication(op.kind)) return 0;
    if (op.kind == OpKind::kAllToAllV) return BytesIn(MovedFormat(op), op.shape.elements);
    std::int64_t bytes = 0;
    for (int i = 0; i < op.operand_count; ++i) {
      bytes += OperandBinding(program_, rank_, ref, i).bytes;
      if (!copies && bytes > 0) break;
    }
    return bytes;
  }

  // Persistent buffers are always live and not counted. Each buffer counts once an op, however many
  // operands it has in it.
  void AddTouched(const Op& op, OpRef ref, PlannedOp& planned) {
    std::set<std::int32_t> buffers;
    for (int i = 0; i < op.operand_count; ++i) {
      const Binding binding = OperandBinding(program_, rank_, ref, i);
      if (binding.bytes == 0 || rank_.buffers[Index(binding.buffer)].persistent) continue;
      buffers.insert(binding.buffer);
    }
    planned.first_buffer = static_cast<std::int32_t>(plan_.touched.size());
    planned.buffer_count = static_cast<std::int32_t>(buffers.size());
    for (const std::int32_t buffer : buffers) {
      plan_.touched.push_back(buffer);
      ++plan_.accessors[Index(buffer)];
    }
  }

  Result<void> AddComm(const Op& op, OpRef ref, const std::vector<std::byte*>& at,
                       PlannedOp& planned) {
    const std::int32_t group = rank_.groups[static_cast<std::size_t>(op.group)];
    if (group < 0 || Index(group) >= program_.groups.size()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "rank " + std::to_string(rank_.rank) + ": " +
                      OpText(program_, rank_, planned.id) + " joins the group " +
                      std::string(Name(op.group)) + ", of which this rank is no member");
    }
    PlannedComm comm;
    FT_ASSIGN(comm.communicator,
              communicators_.Open(program_.groups[Index(group)], op.group, op.queue, op.kind));
    comm.call.kind = op.kind;
    FT_CHECK(DtypeOf(MovedFormat(op)));  // WhyUnsupported
    comm.call.dtype = *DtypeOf(MovedFormat(op));
    comm.call.elements = op.shape.elements;
    comm.call.accumulate = op.accumulate;
    comm.call.maximum = op.maximum;
    comm.call.site = {rank_.rank, 0, planned.id, op.name};
    if (op.kind == OpKind::kAllToAllV) {
      comm.counts = at[2];
      comm.shape = op.shape;
      comm.is_return = op.inverse;
      comm.member = ExpertMember();
      comm.each = BytesIn(MovedFormat(op), 1);
      comm.out_room = OperandBinding(program_, rank_, ref, 1).bytes / comm.each;
    }
    // Members of these groups run the same instructions, so ids must agree; in other groups each
    // has its own.
    if (MembersAreAlike(op.group)) comm.call.tag = planned.id;
    std::byte* const first = !at.empty() ? at[0] : nullptr;
    comm.call.in = op.kind == OpKind::kRecv ? nullptr : first;
    comm.call.out = op.kind == OpKind::kRecv   ? first
                    : at.size() > 1            ? at[1]
                    : op.kind == OpKind::kSend ? nullptr
                                               : first;
    SetWork(Work::kCommunication, comm, plan_.comm_calls, planned);
    return CheckExtent(op, ref, planned.id);
  }

  // A collective moves what its shape says, so each operand must have room for it.
  Result<void> CheckExtent(const Op& op, OpRef ref, OpId id) const {
    if (op.kind == OpKind::kAllToAllV) return {};  // checked before each call
    const std::int64_t whole = BytesIn(MovedFormat(op), op.shape.elements);
    const auto members = static_cast<std::int64_t>(
        program_.groups[Index(rank_.groups[static_cast<std::size_t>(op.group)])].size());
    const auto needs = [&](int i) {
      const bool sharded = (op.kind == OpKind::kReduceScatter && i == 1) ||
                           (op.kind == OpKind::kAllGather && i == 0);
      return sharded ? whole / members : whole;
    };
    for (int i = 0; i < op.operand_count; ++i) {
      const std::int64_t bytes = OperandBinding(program_, rank_, ref, i).bytes;
      if (bytes >= needs(i)) continue;
      return Fail(ErrorCode::kInvalidArgument,
                  "rank " + std::to_string(rank_.rank) + ": " + OpText(program_, rank_, id) +
                      " needs " + std::to_string(needs(i)) + " bytes of operand " +
                      std::to_string(i) + ", which has " + std::to_string(bytes));
    }
    return {};
  }

  Result<void> AddCopy(OpRef ref, PlannedOp& planned) {
    const Binding from = OperandBinding(program_, rank_, ref, 0);
    const Binding to = OperandBinding(program_, rank_, ref, 1);
    PlannedCopy copy{arena_.At(to), arena_.At(from), -1, from.bytes};
    if (copy.to == nullptr) copy.file_offset = arena_.FileOffset(to);
    if (copy.from == nullptr) copy.file_offset = arena_.FileOffset(from);
    if (from.bytes != to.bytes || from.bytes == 0 || (copy.to == nullptr && copy.from == nullptr)) {
      return Fail(ErrorCode::kInvalidArgument, "rank " + std::to_string(rank_.rank) + ": " +
                                                   OpText(program_, rank_, planned.id) +
                                                   " copies " + std::to_string(from.bytes) +
                                                   " bytes to " + std::to_string(to.bytes) +
                                                   "; the program is malformed");
    }
    SetWork(Work::kCopy, copy, plan_.copies, planned);
    return {};
  }

  // A missing or empty operand has count 0.
  void AddLoad(OpRef ref, const std::vector<std::byte*>& at, PlannedOp& planned) {
    const auto count = [&](std::size_t i) {
      if (i >= at.size()) return std::int64_t{0};
      return OperandBinding(program_, rank_, ref, static_cast<int>(i)).bytes /
             std::int64_t{sizeof(std::int32_t)};
    };
    const auto address = [&](std::size_t i) { return i < at.size() ? at[i] : nullptr; };
    SetWork(Work::kLoadBatch,
            {rank_.step[Index(ref.instruction)].key.micro_batch, address(0), address(1), address(2),
             count(0), count(1), count(2)},
            plan_.loads, planned);
  }

  // For each queue that an op waits for, only the latest op is kept: queues are FIFO, so it implies
  // the others.
  void AddWaits() {
    for (const QueueWait& wait : WaitsAcrossQueues(program_, rank_)) {
      PlannedOp& to = plan_.ops[Index(wait.to)];
      if (to.wait_count++ == 0) to.first_wait = static_cast<std::int32_t>(plan_.waits.size());
      plan_.waits.push_back({wait.from, wait.distance});
      plan_.ops[Index(wait.from)].wakes |=
          static_cast<std::uint16_t>(1U << static_cast<int>(to.queue));
    }
  }

  // The last op before `end` that writes at this address; -1: none.
  std::int32_t LastWriter(const std::byte* address, std::int32_t end) const {
    for (std::int32_t number = end - 1; number >= 0; --number) {
      const OpRef ref = refs_[Index(number)];
      const Block& block = program_.blocks[Index(rank_.step[Index(ref.instruction)].block)];
      const std::span<const Operand> operands = OperandsOf(block, OpAt(program_, rank_, ref));
      for (std::size_t i = 0; i < operands.size(); ++i) {
        if (operands[i].slot == kNoSlot || operands[i].access == Access::kRead) continue;
        const Binding binding = OperandBinding(program_, rank_, ref, static_cast<int>(i));
        if (binding.bytes > 0 && arena_.At(binding) == address) return number;
      }
    }
    return -1;
  }

  // The op that completes the norm is guarded: updates wait for it. It also waits for the loss, and
  // runs outside of graphs.
  Result<void> AddGuard() {
    const auto read = std::find_if(plan_.ops.begin(), plan_.ops.end(),
                                   [](const PlannedOp& op) { return op.work == Work::kHostRead; });
    const PlannedRead* const scalars =
        read != plan_.ops.end() ? &plan_.reads[Index(read->detail)] : nullptr;
    if (scalars == nullptr || scalars->loss == nullptr || scalars->squared_norm == nullptr) {
      return Fail(ErrorCode::kInvalidArgument,
                  "rank " + std::to_string(rank_.rank) +
                      ": no step can be skipped, because its host reads no gradient norm");
    }
    const auto end = static_cast<std::int32_t>(read - plan_.ops.begin());
    const std::int32_t norm = LastWriter(scalars->squared_norm, end);
    const std::int32_t loss = LastWriter(scalars->loss, end);
    FT_CHECK(loss >= 0 && norm > loss);  // the order of lowerings
    plan_.guard = {norm, scalars->loss, const_cast<std::byte*>(scalars->squared_norm)};
    PlannedOp& guarded = plan_.ops[Index(norm)];
    PlannedOp& known = plan_.ops[Index(loss)];
    if (known.queue != guarded.queue) {
      const auto first = static_cast<std::int32_t>(plan_.waits.size());
      for (std::int32_t i = 0; i < guarded.wait_count; ++i) {
        plan_.waits.push_back(plan_.waits[Index(guarded.first_wait + i)]);
      }
      plan_.waits.push_back({loss, 0});
      guarded.first_wait = first;
      ++guarded.wait_count;
      known.wakes |= static_cast<std::uint16_t>(1U << static_cast<int>(guarded.queue));
    }
    const std::vector<std::int32_t>& queue = plan_.queues[static_cast<std::size_t>(guarded.queue)];
    const auto place = std::lower_bound(queue.begin(), queue.end(), norm) - queue.begin();
    for (std::ptrdiff_t i = 0; i <= place; ++i) {
      PlannedOp& op = plan_.ops[Index(queue[Index(i)])];
      if (i + op.together > place) op.together = 1;
    }
    return {};
  }

  const Program& program_;
  const RankProgram& rank_;
  const RankArena& arena_;
  CommunicatorSet& communicators_;
  const OptimizerSettings& optimizer_;
  const std::uint64_t seed_;
  const std::vector<OpRef> refs_;
  std::map<std::tuple<std::int32_t, std::int64_t, std::int64_t>, std::size_t> runs_;
  RankPlan plan_;
};

}  // namespace

// A synchronous device computes in host memory, so it can run CPU ops itself.
const FtDeviceApi& HostApi(const FtDeviceApi& device) {
  return device.asynchronous != 0 ? CpuDeviceApi() : device;
}

Result<RankPlan> PlanRank(const Program& program, int rank_index, const RankArena& arena,
                          CommunicatorSet& communicators, const OptimizerSettings& optimizer,
                          std::uint64_t seed, bool guarded) {
  const RankProgram& rank = program.ranks[Index(rank_index)];
  return Planner(program, rank, arena, communicators, optimizer, seed).Run(guarded);
}

// A linear search over the step: only messages need it. If the op is not found, the text names its
// instruction.
std::string OpText(const Program& program, const RankProgram& rank, OpId op) {
  if (!IsValidId(op)) return Describe(op);
  const int layers = static_cast<int>(program.model.AllLayers());
  const OpId whole = InstructionOf(op);
  const std::string text = layers > 0 ? Describe(whole, layers) : Describe(whole);
  for (const Instruction& instruction : rank.step) {
    if (PackId(instruction.key) != whole) continue;
    const std::vector<Op>& ops = program.blocks[Index(instruction.block)].ops;
    if (Index(OpNumber(op)) < ops.size()) return text + ", " + ops[Index(OpNumber(op))].name;
  }
  return text;
}

}  // namespace foretrain
