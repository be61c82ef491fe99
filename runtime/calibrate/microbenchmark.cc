#include "runtime/calibrate/microbenchmark.h"

#include <algorithm>

namespace foretrain {
namespace {

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

// Key of the point that the op measures on this rank.
ProfilePoint KeyOf(const Op& op, const Program& program, const RankProgram& rank, int concurrency) {
  int group = 1;
  if (IsCommunication(op.kind)) {
    const std::int32_t number = rank.groups[static_cast<std::size_t>(op.group)];
    group = number < 0 ? 1 : static_cast<int>(program.groups[At(number)].size());
  }
  return PointOf(op, group, 1, concurrency);
}

// Host reads have no size, and opaque ops no time of their own, so neither becomes a point.
bool IsTimed(const Op& op) {
  return op.kind != OpKind::kHostRead && op.kind != OpKind::kReadCounts &&
         op.kind != OpKind::kOpaque;
}

}  // namespace

BenchmarkWriter::BenchmarkWriter(std::string name, int concurrency, SampleTable& table)
    : name_(std::move(name)), concurrency_(concurrency), table_(table) {}

int BenchmarkWriter::AddRank(const RankProgram& like) {
  RankProgram rank;
  rank.rank = static_cast<int>(program_.ranks.size());
  rank.dp = like.dp;
  rank.cp = like.cp;
  rank.tp = like.tp;
  rank.pp = like.pp;
  rank.groups = like.groups;
  program_.ranks.push_back(std::move(rank));
  series_.emplace_back();
  return static_cast<int>(program_.ranks.size()) - 1;
}

// Copies the block and rebinds its slots. Offsets within buffers are kept, because they decide
// alignment and cache conflicts.
void BenchmarkWriter::Append(int rank, int source_number, const Program& source,
                             const RankProgram& from, const Instruction& instruction, bool alone) {
  const std::int32_t block = CopyBlock(source_number, source, instruction.block, alone);
  const auto slots = source.blocks[At(instruction.block)].slots.size();
  RankProgram& to = program_.ranks[At(rank)];
  const auto first_binding = static_cast<std::int32_t>(to.bindings.size());
  for (std::size_t i = 0; i < slots; ++i) {
    Binding binding = from.bindings[At(instruction.first_binding) + i];
    if (binding.bytes > 0) binding.buffer = CopyBuffer(rank, source_number, from, binding.buffer);
    to.bindings.push_back(binding);
  }
  Finish(rank, instruction.key, block, first_binding);
}

// Copies a block once and remembers it, with and without communication apart.
std::int32_t BenchmarkWriter::CopyBlock(int source_number, const Program& source,
                                        std::int32_t block, bool alone) {
  const auto [found, is_new] = blocks_.try_emplace(
      {source_number, {block, alone}}, static_cast<std::int32_t>(program_.blocks.size()));
  if (!is_new) return found->second;
  Block copy = source.blocks[At(block)];
  if (alone) {
    std::erase_if(copy.ops, [](const Op& op) { return IsCommunication(op.kind); });
  }
  std::vector<bool>& timed = timed_.emplace_back();
  for (const Op& op : copy.ops) timed.push_back(IsTimed(op));
  program_.blocks.push_back(std::move(copy));
  return found->second;
}

// Maps a source buffer to one of this rank's, so that ops that shared memory in the plan share it
// here. Lifetimes are dropped: Link computes them anew.
std::int32_t BenchmarkWriter::CopyBuffer(int rank, int source_number, const RankProgram& from,
                                         std::int32_t buffer) {
  RankProgram& to = program_.ranks[At(rank)];
  const auto [found, is_new] = buffers_.try_emplace({{rank, source_number}, {from.rank, buffer}},
                                                    static_cast<std::int32_t>(to.buffers.size()));
  if (!is_new) return found->second;
  const foretrain::Buffer& source = from.buffers[At(buffer)];
  foretrain::Buffer copy;
  copy.bytes = source.bytes;
  copy.category = source.category;
  copy.space = source.space;
  copy.persistent = source.persistent;
  to.buffers.push_back(copy);
  return found->second;
}

std::int32_t BenchmarkWriter::Buffer(int rank, std::int64_t floats, bool persistent, Space space) {
  foretrain::Buffer buffer;
  buffer.space = space;
  buffer.bytes = floats * std::int64_t{sizeof(float)};
  buffer.persistent = persistent;
  std::vector<foretrain::Buffer>& buffers = program_.ranks[At(rank)].buffers;
  buffers.push_back(buffer);
  return static_cast<std::int32_t>(buffers.size()) - 1;
}

// Each single op gets its own block with one slot for each tensor.
void BenchmarkWriter::AppendOp(int rank, Op op, const std::vector<Tensor>& tensors, bool timed) {
  RankProgram& to = program_.ranks[At(rank)];
  const auto first_binding = static_cast<std::int32_t>(to.bindings.size());
  Block block;
  op.first_operand = 0;
  op.operand_count = static_cast<std::int32_t>(tensors.size());
  if (op.name.empty()) op.name = std::string(Name(op.kind));
  block.name = op.name;
  for (const Tensor& tensor : tensors) {
    if (tensor.buffer < 0) {
      block.operands.push_back({kNoSlot, Access::kRead});
      continue;
    }
    const foretrain::Buffer& buffer = to.buffers[At(tensor.buffer)];
    const std::int64_t bytes =
        tensor.size == 0 ? buffer.bytes : tensor.size * std::int64_t{sizeof(float)};
    block.operands.push_back({static_cast<std::int16_t>(block.slots.size()), tensor.access});
    block.slots.push_back(
        {"t" + std::to_string(block.slots.size()), bytes, buffer.category, SlotRole::kOther, 0});
    to.bindings.push_back({tensor.buffer, tensor.begin * std::int64_t{sizeof(float)}, bytes});
  }
  block.ops.push_back(std::move(op));
  program_.blocks.push_back(std::move(block));
  timed_.push_back({timed});
  Finish(rank, {}, static_cast<std::int32_t>(program_.blocks.size()) - 1, first_binding);
}

// Numbers the instruction by its position, because an excerpt may contain the same one several
// times.
void BenchmarkWriter::Finish(int rank, const InstructionKey& key, std::int32_t block,
                             std::int32_t first_binding) {
  RankProgram& to = program_.ranks[At(rank)];
  Instruction instruction;
  instruction.key = {key.kind, key.pass, key.block, static_cast<int>(to.step.size()), 0};
  instruction.block = block;
  instruction.first_binding = first_binding;
  to.step.push_back(instruction);
  const std::vector<Op>& ops = program_.blocks[At(block)].ops;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (!timed_[At(block)][i]) continue;
    AddSeries(rank, ops[i], PackId(instruction.key, static_cast<int>(i)));
  }
}

void BenchmarkWriter::AddSeries(int rank, const Op& op, OpId id) {
  const RankProgram& to = program_.ranks[At(rank)];
  series_[At(rank)][id] = table_.SeriesOf(KeyOf(op, program_, to, concurrency_));
}

void BenchmarkWriter::AfterPrevious(int rank) {
  std::vector<Instruction>& step = program_.ranks[At(rank)].step;
  if (step.size() > 1) step.back().after = static_cast<std::int32_t>(step.size()) - 2;
}

bool BenchmarkWriter::empty() const {
  return std::all_of(program_.ranks.begin(), program_.ranks.end(),
                     [](const RankProgram& rank) { return rank.step.empty(); });
}

// Marks buffers that are read before they are written as persistent. Their writer is in a part of
// the step that the excerpt dropped, so FillState must give them values.
void BenchmarkWriter::FindState(RankProgram& rank) const {
  std::vector<bool> seen(rank.buffers.size(), false);
  for (const Instruction& instruction : rank.step) {
    const Block& block = program_.blocks[At(instruction.block)];
    for (const Op& op : block.ops) {
      for (std::int32_t i = 0; i < op.operand_count; ++i) {
        const Operand& operand = block.operands[At(op.first_operand + i)];
        if (operand.slot == kNoSlot) continue;
        const Binding& binding = rank.bindings[At(instruction.first_binding + operand.slot)];
        if (binding.bytes == 0 || seen[At(binding.buffer)]) continue;
        seen[At(binding.buffer)] = true;
        if (operand.access != Access::kWrite) rank.buffers[At(binding.buffer)].persistent = true;
      }
    }
  }
}

// Links the program, which places buffers and finds the edges between queues, as for a compiled
// plan.
Microbenchmark BenchmarkWriter::Take(std::int64_t tokens) {
  Microbenchmark benchmark;
  benchmark.name = std::move(name_);
  benchmark.concurrency = concurrency_;
  benchmark.tokens = tokens;
  for (RankProgram& rank : program_.ranks) FindState(rank);
  Link(program_);
  benchmark.program = std::make_shared<const Program>(std::move(program_));
  benchmark.series = std::move(series_);
  return benchmark;
}

}  // namespace foretrain
