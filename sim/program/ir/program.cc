#include "sim/program/ir/program.h"

#include <algorithm>
#include <cstddef>
#include <span>

namespace foretrain {
namespace {

template <class T>
const T& At(const std::vector<T>& items, std::int64_t index) {
  FT_CHECK(index >= 0 && index < static_cast<std::int64_t>(items.size()));
  return items[static_cast<std::size_t>(index)];
}

const Block& BlockOf(const Program& program, const RankProgram& rank, OpRef ref) {
  return At(program.blocks, At(rank.step, ref.instruction).block);
}

std::string_view Sign(Access access) {
  if (access == Access::kRead) return "<";
  return access == Access::kWrite ? ">" : "<>";
}

// "mlp.up <x[b3+0:4096] >y[b4+0:4096]"
std::string OperandText(const Program& program, const RankProgram& rank, OpRef ref) {
  const Block& block = BlockOf(program, rank, ref);
  const Op& op = At(block.ops, ref.op);
  std::string text;
  for (int i = 0; i < op.operand_count; ++i) {
    const Binding binding = OperandBinding(program, rank, ref, i);
    if (binding.bytes == 0) continue;
    const Operand operand = OperandsOf(block, op)[static_cast<std::size_t>(i)];
    text += ' ';
    text += Sign(operand.access);
    text += At(block.slots, operand.slot).name;
    text += "[b" + std::to_string(binding.buffer) + "+" + std::to_string(binding.offset) + ":" +
            std::to_string(binding.bytes) + "]";
  }
  return text;
}

// " waits 12 14 87'": source ops of the edges; a prime marks the step before.
std::string WaitText(std::span<const Edge> edges) {
  if (edges.empty()) return "";
  std::string text = " waits";
  for (const Edge& edge : edges) {
    text += ' ' + std::to_string(edge.from) + (edge.distance == 0 ? "" : "'");
  }
  return text;
}

// Edges are sorted by target, so each op takes its own from the front of `edges`.
void AppendOps(const Program& program, const RankProgram& rank, std::int32_t instruction,
               std::span<const Edge>& edges, std::string& out) {
  const Block& block = BlockOf(program, rank, {instruction, 0});
  const std::int32_t first_op = At(rank.step, instruction).first_op;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(block.ops.size()); ++i) {
    const Op& op = At(block.ops, i);
    const std::int32_t number = first_op + i;
    const auto last = std::find_if(edges.begin(), edges.end(),
                                   [number](const Edge& edge) { return edge.to > number; });
    const auto count = static_cast<std::size_t>(last - edges.begin());
    out += "    " + std::to_string(number) + " " + std::string(Name(op.queue)) + " " + op.name +
           " (" + std::string(Name(op.kind)) + ")";
    out += OperandText(program, rank, {instruction, i});
    out += WaitText(edges.first(count)) + "\n";
    edges = edges.subspan(count);
  }
}

}  // namespace

bool RankProgram::WorksForNextStep() const {
  return std::any_of(step.begin(), step.end(),
                     [](const Instruction& i) { return i.for_next_step; });
}

bool StepsOverlap(const Program& program) {
  return std::any_of(program.ranks.begin(), program.ranks.end(),
                     [](const RankProgram& rank) { return rank.WorksForNextStep(); });
}

Instruction& AppendInstruction(RankProgram& rank, const InstructionKey& key, std::int32_t block,
                               const std::vector<Binding>& bindings) {
  Instruction instruction;
  instruction.key = key;
  instruction.block = block;
  instruction.first_binding = static_cast<std::int32_t>(rank.bindings.size());
  rank.bindings.insert(rank.bindings.end(), bindings.begin(), bindings.end());
  return rank.step.emplace_back(instruction);
}

const Op& OpAt(const Program& program, const RankProgram& rank, OpRef ref) {
  return At(BlockOf(program, rank, ref).ops, ref.op);
}

// Checks on the way that op numbers are consecutive, which every walker relies on.
std::vector<OpRef> OpRefs(const Program& program, const RankProgram& rank) {
  std::vector<OpRef> refs;
  refs.reserve(static_cast<std::size_t>(rank.op_count));
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(rank.step.size()); ++i) {
    const Instruction& instruction = At(rank.step, i);
    FT_CHECK(instruction.first_op == static_cast<std::int32_t>(refs.size()));
    const auto ops = static_cast<std::int32_t>(At(program.blocks, instruction.block).ops.size());
    for (std::int32_t op = 0; op < ops; ++op) refs.push_back({i, op});
  }
  return refs;
}

Binding OperandBinding(const Program& program, const RankProgram& rank, OpRef ref, int i) {
  const Block& block = BlockOf(program, rank, ref);
  const Op& op = At(block.ops, ref.op);
  FT_CHECK(i >= 0 && i < op.operand_count);
  const Operand operand = OperandsOf(block, op)[static_cast<std::size_t>(i)];
  if (operand.slot == kNoSlot) return {};
  return At(rank.bindings, At(rank.step, ref.instruction).first_binding + operand.slot);
}

OpId IdOf(const RankProgram& rank, OpRef ref) {
  return PackId(At(rank.step, ref.instruction).key, ref.op);
}

// The text format is described in docs/program.md with worked examples.
std::string Listing(const Program& program, int rank_index, bool ops) {
  const RankProgram& rank = At(program.ranks, rank_index);
  std::string out = "rank " + std::to_string(rank.rank) + " (dp " + std::to_string(rank.dp) +
                    (program.plan.cp > 1 ? ", cp " + std::to_string(rank.cp) : "") + ", tp " +
                    std::to_string(rank.tp) + ", pp " + std::to_string(rank.pp) +
                    "): " + std::to_string(rank.step.size()) + " instructions, " +
                    std::to_string(rank.op_count) + " ops";
  for (std::size_t space = 0; space < rank.arena_bytes.size(); ++space) {
    if (rank.arena_bytes[space] == 0) continue;
    out += ", " + std::string(Name(static_cast<Space>(space))) + " " +
           std::to_string(rank.arena_bytes[space]) + " bytes";
  }
  out += '\n';
  std::span<const Edge> edges = rank.edges;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(rank.step.size()); ++i) {
    const Instruction& instruction = At(rank.step, i);
    out += "  " + std::to_string(instruction.first_op) + " " + Describe(PackId(instruction.key)) +
           ": " + At(program.blocks, instruction.block).name;
    if (instruction.for_next_step) out += " next-step";
    if (instruction.after >= 0)
      out += " after " + Describe(PackId(At(rank.step, instruction.after).key));
    out += '\n';
    if (ops) AppendOps(program, rank, i, edges, out);
  }
  return out;
}

}  // namespace foretrain
