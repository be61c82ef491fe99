#include "sim/program/link/hash.h"

#include <vector>

#include "base/hash.h"

namespace foretrain {
namespace {

// Every field that changes what an op does, its operands or its cost goes into the hash; a field
// added to Op belongs here.
void AddOp(const Op& op, StableHash& hash) {
  hash.Add(op.kind).Add(op.queue).Add(op.op_class).Add(op.group);
  hash.Add(op.accumulate).Add(op.trans_a).Add(op.trans_b).Add(op.rms).Add(op.inverse);
  hash.Add(op.activation).Add(op.delayed).Add(op.state).Add(op.from).Add(op.to);
  hash.Add(op.format).Add(op.maximum).Add(op.own_rows).Add(op.softmax_first).Add(op.updates);
  hash.Add(op.sigmoid)
      .Add(op.whole)
      .Add(static_cast<double>(op.attributes[2]))
      .Add(op.stretch.kind);
  if (op.undivided) hash.Add("undivided");
  if (op.bidirectional) hash.Add("bidirectional");
  for (const float value : {op.stretch.factor, op.stretch.low, op.stretch.high, op.stretch.original,
                            op.stretch.magnitude}) {
    hash.Add(static_cast<double>(value));
  }
  hash.Add(static_cast<double>(op.attributes[0])).Add(static_cast<double>(op.attributes[1]));
  hash.Add(static_cast<double>(op.dropout)).Add(op.dropout_site);
  hash.Add(op.duration_s).Add(op.first_operand).Add(op.operand_count).Add(op.name);
  for (const NumberFormat format : op.formats) hash.Add(format);
  hash.Add(op.covers.size());
  for (const std::string& name : op.covers) hash.Add(name);
  const OpShape& shape = op.shape;
  for (const std::int64_t size : {shape.rows, shape.cols, shape.inner, shape.batch, shape.sequence,
                                  shape.vocab, shape.elements, shape.decayed, shape.vocab_total}) {
    hash.Add(size);
  }
  hash.Add(shape.heads).Add(shape.kv_heads).Add(shape.head_dim).Add(shape.rotary);
  hash.Add(shape.rotary_first).Add(shape.value_dim).Add(shape.alibi_heads).Add(shape.group_top);
  hash.Add(shape.cp).Add(shape.turn).Add(shape.tensors).Add(shape.window);
  hash.Add(shape.experts).Add(shape.per_token).Add(shape.capacity).Add(shape.balance_rows);
  hash.Add(shape.expert_groups).Add(shape.group_limit).Add(shape.members).Add(shape.all_experts);
  hash.Add(shape.pieces).Add(shape.piece);
  if (shape.buckets > 0) hash.Add(shape.buckets).Add(shape.max_distance);
}

std::uint64_t HashOfBlock(const Block& block) {
  StableHash hash;
  hash.Add(block.name).Add(block.slots.size()).Add(block.ops.size()).Add(block.operands.size());
  for (const TensorSlot& slot : block.slots) {
    hash.Add(slot.name).Add(slot.bytes).Add(slot.category).Add(slot.role).Add(slot.index);
    hash.Add(slot.base).Add(slot.offset).Add(slot.rank_offset).Add(slot.format);
  }
  for (const Op& op : block.ops) AddOp(op, hash);
  for (const Operand& operand : block.operands) hash.Add(operand.slot).Add(operand.access);
  return hash.Value();
}

// The members of each of the rank's groups: their number and identity are part of a collective's
// identity.
void AddGroups(const Program& program, const RankProgram& rank, StableHash& hash) {
  for (const std::int32_t group : rank.groups) {
    hash.Add(group >= 0);
    if (group < 0) continue;
    const std::vector<int>& members = program.groups[static_cast<std::size_t>(group)];
    hash.Add(members.size());
    for (const int member : members) hash.Add(member);
  }
}

// Edges are left out: Link derives them from the fields that are hashed.
void AddRank(const RankProgram& rank, const std::vector<std::uint64_t>& blocks, StableHash& hash) {
  hash.Add(rank.pp).Add(rank.step.size()).Add(rank.bindings.size()).Add(rank.buffers.size());
  for (const Instruction& instruction : rank.step) {
    hash.Add(PackId(instruction.key)).Add(blocks[static_cast<std::size_t>(instruction.block)]);
    hash.Add(instruction.first_binding).Add(instruction.after).Add(instruction.for_next_step);
  }
  for (const Binding& binding : rank.bindings) {
    hash.Add(binding.buffer).Add(binding.offset).Add(binding.bytes);
  }
  for (const Buffer& buffer : rank.buffers) {
    hash.Add(buffer.bytes).Add(buffer.category).Add(buffer.space).Add(buffer.persistent);
    hash.Add(buffer.holds).Add(buffer.offset);
  }
  for (const std::int64_t bytes : rank.arena_bytes) hash.Add(bytes);
}

}  // namespace

// Only the first rank of each stage is hashed, so that programs of all ranks and of representatives
// agree. Blocks enter by content, because their numbers depend on the order of compilation.
std::uint64_t HashOf(const Program& program) {
  std::vector<std::uint64_t> blocks;
  for (const Block& block : program.blocks) blocks.push_back(HashOfBlock(block));
  StableHash hash;
  for (const RankProgram& rank : program.ranks) {
    if (!rank.Coordinates().FirstOfStage()) continue;
    AddGroups(program, rank, hash);
    AddRank(rank, blocks, hash);
  }
  return hash.Value();
}

}  // namespace foretrain
