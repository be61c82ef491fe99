// The search for the op that makes a step's gradient infinite or NaN: the outputs of each op are
// read back and looked through.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/numeric/number_formats.h"
#include "runtime/executor/worker.h"
#include "runtime/parameters/finite.h"
#include "sim/program/ops/op_kinds.h"

namespace foretrain {
namespace {

constexpr std::int64_t kPieceBytes = std::int64_t{16} << 20;  // copied to the host at a time

// Operands that hold integers, or that are infinite in a healthy run too: maxima over no value.
bool IsLeftOut(std::string_view operand) {
  static const std::set<std::string_view> kLeftOut = {
      "ids",    "targets", "chosen",         "places", "sources", "counts",
      "scores", "max",     "balance_counts", "mask",   "lse",     "terms"};
  return kLeftOut.contains(operand);
}

}  // namespace

// Values of a tensor that are infinite or NaN.
struct Worker::BadValues {
  std::int64_t count = 0;
  std::int64_t first = 0;  // index of the first of them
  std::int64_t of = 0;     // values looked through

  // With `clears`, bad values become 0.
  template <class Bits>
  void Add(std::byte* at, std::int64_t bytes, unsigned exponent, bool clears) {
    const std::span values(reinterpret_cast<Bits*>(at),
                           static_cast<std::size_t>(bytes) / sizeof(Bits));
    for (Bits& value : values) {
      if ((value & exponent) == exponent) {
        if (count++ == 0) first = of;
        if (clears) value = 0;
      }
      ++of;
    }
  }
};

// An op of the rank's step with what its operands are bound to.
struct Worker::CheckedOp {
  CheckedOp(const Program& the_program, const RankProgram& the_rank, std::int32_t number)
      : program(the_program),
        rank(the_rank),
        ref(OpRefs(program, rank)[static_cast<std::size_t>(number)]),
        op(OpAt(program, rank, ref)),
        block(program.blocks[static_cast<std::size_t>(
            rank.step[static_cast<std::size_t>(ref.instruction)].block)]),
        operands(OperandsOf(block, op)) {}

  // Operands that the op writes, or those that it only reads.
  std::vector<std::size_t> Operands(bool written) const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].slot == kNoSlot) continue;
      if ((operands[i].access != Access::kRead) == written) found.push_back(i);
    }
    return found;
  }
  const std::string& Name(std::size_t i) const {
    return block.slots[static_cast<std::size_t>(operands[i].slot)].name;
  }
  bool Searched() const;
  Binding Bound(std::size_t i) const {
    return OperandBinding(program, rank, ref, static_cast<int>(i));
  }

  const Program& program;
  const RankProgram& rank;
  const OpRef ref;
  const Op& op;
  const Block& block;
  const std::span<const Operand> operands;
};

// Copies piece by piece, through pinned memory on a GPU. With `clears`, bad values become 0.
Result<Worker::BadValues> Worker::LookThrough(const CheckedOp& checked, std::size_t operand,
                                              bool clears) {
  BadValues found;
  const Op& op = checked.op;
  const OperandSpecs& specs = SpecsOf(op.kind, op.inverse);
  const unsigned exponent = ExponentBits(op.formats[operand]);
  const Binding binding = checked.Bound(operand);
  std::byte* const at = binding.bytes > 0 ? rank_.arena_->At(binding) : nullptr;
  if (at == nullptr || exponent == 0) return found;
  if (operand < specs.count && IsLeftOut(specs.specs[operand].name)) return found;
  for (std::int64_t begin = 0; begin < binding.bytes; begin += kPieceBytes) {
    const std::int64_t piece = std::min(kPieceBytes, binding.bytes - begin);
    const std::int64_t before = found.count;
    FT_ASSIGN(std::byte* const room, Landing(piece));
    FT_TRY(CheckDevice(api_.copy(device_queue_.get(), room, at + begin, piece)));
    FT_TRY(Settle());
    if (exponent > 0xffffU) {
      found.Add<std::uint32_t>(room, piece, exponent, clears);
    } else {
      found.Add<std::uint16_t>(room, piece, exponent, clears);
    }
    if (!clears || found.count == before) continue;
    FT_TRY(CheckDevice(api_.copy(device_queue_.get(), at + begin, room, piece)));
    FT_TRY(Settle());
  }
  return found;
}

// Communication only moves values, also those that no op reads. Targets are integers.
bool Worker::CheckedOp::Searched() const {
  return !IsCommunication(op.kind) && op.kind != OpKind::kShiftTargets;
}

// Before the op: many ops write a part of a tensor, and the rest may hold anything, as may a result
// of an earlier step.
Result<void> Worker::ClearOutputs(std::int32_t number) {
  if (!rank_.call_->searches) return {};
  const CheckedOp checked(*rank_.shared_.program, rank_.program_, number);
  if (!checked.Searched()) return {};
  for (const std::size_t i : checked.Operands(/*written=*/true)) {
    FT_TRY(LookThrough(checked, i, /*clears=*/true));
  }
  return {};
}

// An op whose outputs are bad made them so, because the outputs of all ops before it were checked,
// on other ranks too.
Result<void> Worker::CheckOutputs(std::int32_t number) {
  if (!rank_.call_->searches) return {};
  const CheckedOp checked(*rank_.shared_.program, rank_.program_, number);
  if (!checked.Searched()) return {};
  for (const std::size_t i : checked.Operands(/*written=*/true)) {
    FT_ASSIGN(const BadValues out, LookThrough(checked, i, /*clears=*/false));
    if (out.count == 0) continue;
    std::string text = std::to_string(out.count) + " of the " + std::to_string(out.of) +
                       " values of " + checked.Name(i) +
                       " are infinite or NaN, the first at index " + std::to_string(out.first);
    for (const std::size_t j : checked.Operands(/*written=*/false)) {
      FT_ASSIGN(const BadValues in, LookThrough(checked, j, /*clears=*/false));
      if (in.count == 0) continue;
      text += "; so are " + std::to_string(in.count) + " of its input " + checked.Name(j);
    }
    return Fail(ErrorCode::kNotFinite, std::move(text));
  }
  return {};
}

// Tests only: changes a value that the op has written.
Result<void> Worker::Spoil(std::int32_t number) {
  const Fault fault = rank_.shared_.options.faults->At(rank_.plan_.rank, values_.step, number);
  if (fault.kind != Fault::Kind::kValue) return {};
  const CheckedOp checked(*rank_.shared_.program, rank_.program_, number);
  const std::size_t output = checked.Operands(/*written=*/true).front();
  const bool is_short = BytesIn(checked.op.formats[output], 1) == 2;
  FT_ASSIGN(std::byte* const room, Landing(sizeof(float)));
  const std::uint32_t bits = BitsOfFloat(fault.value) >> (is_short ? 16 : 0);  // short: bf16
  std::memcpy(room, &bits, sizeof bits);
  FT_TRY(CheckDevice(api_.copy(device_queue_.get(), rank_.arena_->At(checked.Bound(output)), room,
                               is_short ? 2 : 4)));
  return Settle();
}

}  // namespace foretrain
