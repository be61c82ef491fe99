#include "ui/view_model/dock/op_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "ui/view_model/timeline/ticks.h"

namespace foretrain::ui {
namespace {

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

bool Overlap(const Binding& a, const Binding& b) {
  return a.buffer == b.buffer && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

// One operand of one op.
struct Use {
  Binding binding{};
  Access access = Access::kRead;
  std::string name{};

  bool Reads() const { return access != Access::kWrite; }
  bool Writes() const { return access != Access::kRead; }
};

// The step of one rank, op by op in issue order: a tensor's writer is the last one before.
class StepOps {
 public:
  StepOps(const Program& program, const RankProgram& rank)
      : program_(program), rank_(rank), refs_(OpRefs(program, rank)) {}

  // Numbers of the first op of `op` and of the op after its last; equal if there is none.
  std::pair<std::int32_t, std::int32_t> RangeOf(OpId op) const {
    const InstructionKey key = UnpackId(op);
    for (const Instruction& instruction : rank_.step) {
      if (!(instruction.key == key)) continue;
      const auto ops = static_cast<std::int32_t>(program_.blocks[At(instruction.block)].ops.size());
      const int number = OpNumber(op);
      if (number == kWholeInstruction) return {instruction.first_op, instruction.first_op + ops};
      if (number >= ops) return {0, 0};
      return {instruction.first_op + number, instruction.first_op + number + 1};
    }
    return {0, 0};
  }

  std::vector<Use> UsesOf(std::int32_t number) const {
    const OpRef ref = refs_[At(number)];
    const Block& block = program_.blocks[At(rank_.step[At(ref.instruction)].block)];
    const Op& op = block.ops[At(ref.op)];
    std::vector<Use> uses;
    for (int i = 0; i < op.operand_count; ++i) {
      const Operand operand = OperandsOf(block, op)[At(i)];
      const Binding binding = OperandBinding(program_, rank_, ref, i);
      if (binding.bytes <= 0 || binding.buffer < 0) continue;
      const Category category = rank_.buffers[At(binding.buffer)].category;
      uses.push_back(
          {binding, operand.access,
           fmt::format("{} ({})", block.slots[At(operand.slot)].name, InWords(Name(category)))});
    }
    return uses;
  }

  std::string TitleOf(std::int32_t number) const {
    const OpRef ref = refs_[At(number)];
    return fmt::format("{} of {}", OpAt(program_, rank_, ref).name,
                       Describe(PackId(rank_.step[At(ref.instruction)].key),
                                static_cast<int>(program_.model.AllLayers())));
  }

  // The last op before `first` that wrote a part of the tensor; -1 if none of this step did.
  std::int32_t WriterBefore(std::int32_t first, const Binding& binding) const {
    for (std::int32_t number = first; number-- > 0;) {
      if (Touches(number, binding, /*writes=*/true)) return number;
    }
    return -1;
  }

  // The next op from `end` on that reads a part of the tensor; -1 if none of this step does.
  std::int32_t ReaderFrom(std::int32_t end, const Binding& binding) const {
    for (std::int32_t number = end; number < std::ssize(refs_); ++number) {
      if (Touches(number, binding, /*writes=*/false)) return number;
      if (Touches(number, binding, /*writes=*/true)) return -1;
    }
    return -1;
  }

  bool IsState(const Binding& binding) const {
    return rank_.buffers[At(binding.buffer)].persistent;
  }

  std::vector<std::string> WaitsOf(std::int32_t first, std::int32_t end) const {
    std::set<std::int32_t> from;
    for (const Edge& edge : rank_.edges) {
      if (edge.to < first || edge.to >= end || edge.distance != 0) continue;
      if (edge.from < first || edge.from >= end) from.insert(edge.from);
    }
    std::vector<std::string> titles;
    for (const std::int32_t number : from) titles.push_back(TitleOf(number));
    return titles;
  }

 private:
  // Names are not needed here, so bindings are compared directly.
  bool Touches(std::int32_t number, const Binding& binding, bool writes) const {
    const OpRef ref = refs_[At(number)];
    const Block& block = program_.blocks[At(rank_.step[At(ref.instruction)].block)];
    const Op& op = block.ops[At(ref.op)];
    const std::span<const Operand> operands = OperandsOf(block, op);
    for (int i = 0; i < op.operand_count; ++i) {
      const Access access = operands[At(i)].access;
      const bool wanted = writes ? access != Access::kRead : access != Access::kWrite;
      if (wanted && Overlap(OperandBinding(program_, rank_, ref, i), binding)) return true;
    }
    return false;
  }

  const Program& program_;
  const RankProgram& rank_;
  std::vector<OpRef> refs_;
};

bool IsKnown(const std::vector<Use>& uses, const Binding& binding) {
  return std::any_of(uses.begin(), uses.end(),
                     [&](const Use& use) { return Overlap(use.binding, binding); });
}

}  // namespace

Result<std::shared_ptr<const ProgramOps>> ProgramOps::Make(const RunSetting& setting) {
  FT_ASSIGN(Program program, Compile(setting.model, setting.plan, {.ranks = RankChoice::kClasses}));
  return std::make_shared<const ProgramOps>(std::move(program));
}

// An input is read before anything inside has written it. Of an instruction, an output is a tensor
// that something after it reads, or state.
std::optional<OpTensors> ProgramOps::Of(int rank, OpId op) const {
  if (!IsValidId(op) || rank < 0) return std::nullopt;
  const auto place = static_cast<std::size_t>(rank);
  const int wanted = place < program_.stands_for.size() ? program_.stands_for[place] : rank;
  const auto of = std::find_if(program_.ranks.begin(), program_.ranks.end(),
                               [wanted](const RankProgram& r) { return r.rank == wanted; });
  if (of == program_.ranks.end()) return std::nullopt;
  const StepOps step(program_, *of);
  const auto [first, end] = step.RangeOf(op);
  if (first == end) return std::nullopt;
  std::vector<Use> read, written;
  for (std::int32_t number = first; number < end; ++number) {
    const std::vector<Use> uses = step.UsesOf(number);
    for (const Use& use : uses) {
      if (use.Reads() && !IsKnown(written, use.binding) && !IsKnown(read, use.binding)) {
        read.push_back(use);
      }
    }
    for (const Use& use : uses) {
      if (use.Writes() && !IsKnown(written, use.binding)) written.push_back(use);
    }
  }
  OpTensors tensors;
  for (const Use& use : read) {
    const std::int32_t writer = step.WriterBefore(first, use.binding);
    tensors.inputs.push_back({use.name, use.binding.bytes,
                              writer >= 0                 ? "from " + step.TitleOf(writer)
                              : step.IsState(use.binding) ? "state from before the step"
                                                          : "from outside the step"});
  }
  const bool whole = end - first > 1;
  for (const Use& use : written) {
    const std::int32_t reader = step.ReaderFrom(end, use.binding);
    const bool state = step.IsState(use.binding);
    if (reader < 0 && !state && whole) continue;  // lives inside the instruction only
    tensors.outputs.push_back({use.name, use.binding.bytes,
                               reader >= 0 ? "to " + step.TitleOf(reader)
                               : state     ? "state for the next step"
                                           : "not read in this step"});
  }
  tensors.waits_for = step.WaitsOf(first, end);
  return tensors;
}

}  // namespace foretrain::ui
