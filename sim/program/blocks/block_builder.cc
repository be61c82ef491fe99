#include "sim/program/blocks/block_builder.h"

#include <utility>

#include "base/result.h"
#include "sim/program/ops/op_kinds.h"

namespace foretrain {

std::int16_t BlockBuilder::Slot(std::string name, std::int64_t elements, Category category,
                                SlotRole role, int index) {
  const bool words = role == SlotRole::kIds || role == SlotRole::kTargets ||
                     role == SlotRole::kDocumentStarts || role == SlotRole::kLoss ||
                     role == SlotRole::kLossScale || role == SlotRole::kLoads;
  return SlotIn(words ? NumberFormat::kFp32 : formats_.activations, std::move(name), elements,
                category, role, index);
}

// Formats with separate scales remember their element count: bytes alone do not tell codes from
// scales.
std::int16_t BlockBuilder::SlotIn(NumberFormat format, std::string name, std::int64_t elements,
                                  Category category, SlotRole role, int index) {
  const std::int64_t bytes = BytesIn(format, elements);
  const std::int16_t slot = SlotOfBytes(std::move(name), bytes, category, role, index);
  if (slot == kNoSlot) return slot;
  block_.slots.back().format = format;
  if (HasScalesApart(format)) elements_[slot] = elements;
  return slot;
}

std::int16_t BlockBuilder::SlotOfBytes(std::string name, std::int64_t bytes, Category category,
                                       SlotRole role, int index) {
  if (bytes == 0) return kNoSlot;
  TensorSlot& slot = block_.slots.emplace_back();
  slot.name = std::move(name);
  slot.bytes = bytes;
  slot.category = category;
  slot.role = role;
  slot.index = index;
  return static_cast<std::int16_t>(block_.slots.size() - 1);
}

std::int16_t BlockBuilder::Add(TensorSlot slot) {
  block_.slots.push_back(std::move(slot));
  return static_cast<std::int16_t>(block_.slots.size() - 1);
}

std::int16_t BlockBuilder::PackedSlot(std::string name, std::vector<PackedTensor> tensors,
                                      Category category, SlotRole role, int index) {
  const std::int64_t bytes = tensors.back().offset + tensors.back().bytes;
  const std::int16_t slot = SlotOfBytes(std::move(name), bytes, category, role, index);
  block_.slots.back().format = NumberFormat::kNf4;
  packed_[slot] = std::move(tensors);
  return slot;
}

// A view keeps the category and the format of its parameter, so that memory accounting and kernels
// treat both alike.
std::int16_t BlockBuilder::PackedView(std::string name, std::int16_t of,
                                      const PackedTensor& tensor) {
  TensorSlot slot = block_.slots[static_cast<std::size_t>(of)];
  slot.name = std::move(name);
  slot.bytes = tensor.bytes;
  slot.role = SlotRole::kTemporary;
  slot.index = 0;
  slot.base = of;
  slot.offset = tensor.offset;
  return Add(std::move(slot));
}

// A view of a view is stored as a view of the tensor: base chains have one link, which Overlap and
// lowering rely on.
std::int16_t BlockBuilder::View(std::string name, std::int16_t of, std::int64_t first,
                                std::int64_t elements, std::int64_t per_rank) {
  const TensorSlot whole = block_.slots[static_cast<std::size_t>(of)];
  if (HasParts(of)) {
    FT_CHECK(per_rank == 0);
    return ViewOfCodes(std::move(name), of, first, elements);
  }
  TensorSlot& slot = block_.slots.emplace_back();
  slot.name = std::move(name);
  slot.bytes = BytesIn(whole.format, elements);
  slot.category = whole.category;
  slot.format = whole.format;
  slot.base = whole.base == kNoSlot ? of : whole.base;
  slot.offset = whole.offset + BytesIn(whole.format, first);
  slot.rank_offset = whole.rank_offset + BytesIn(whole.format, per_rank);
  return static_cast<std::int16_t>(block_.slots.size() - 1);
}

// The op takes its format from the block's defaults. Writing a slot makes casts of the old values
// stale, so they are forgotten here and the next product casts again.
Op& BlockBuilder::Add(OpKind kind, OpClass op_class, std::string name,
                      std::initializer_list<Operand> operands) {
  Op op;
  op.kind = kind;
  op.op_class = op_class;
  op.name = std::move(name);
  op.first_operand = static_cast<std::int32_t>(block_.operands.size());
  op.operand_count = static_cast<std::int32_t>(operands.size());
  block_.operands.insert(block_.operands.end(), operands.begin(), operands.end());
  op.formats = FormatsOf(block_, op);
  if (IsProduct(kind)) op.format = formats_.products;
  if (op_class == OpClass::kAttention) op.format = formats_.attention;
  for (const Operand& operand : operands) {
    if (operand.access == Access::kRead) continue;
    std::erase_if(casts_,
                  [&](const auto& made) { return std::get<0>(made.first) == operand.slot; });
  }
  block_.ops.push_back(std::move(op));
  halves_.push_back(half_);
  FT_CHECK(block_.ops.size() < static_cast<std::size_t>(kWholeInstruction));
  return block_.ops.back();
}

Op& BlockBuilder::Add(OpKind kind, std::string name, std::initializer_list<Operand> operands) {
  return Add(kind, ClassOf(kind), std::move(name), operands);
}

// The last op's operands end the list, so that one more extends them.
void BlockBuilder::AlsoReads(std::int16_t slot) {
  if (slot == kNoSlot) return;
  block_.operands.push_back(In(slot));
  Op& op = block_.ops.back();
  ++op.operand_count;
  op.formats = FormatsOf(block_, op);
}

// Scale operands are left out if neither side has any, so that plain GEMMs have four operands.
Op& BlockBuilder::Gemm(const std::string& name, const ProductOperand& a, const ProductOperand& b,
                       std::int16_t bias, Operand c) {
  if (a.scales == kNoSlot && b.scales == kNoSlot) {
    return Add(OpKind::kGemm, name, {In(a.numbers), In(b.numbers), In(bias), c});
  }
  return Add(OpKind::kGemm, name,
             {In(a.numbers), In(b.numbers), In(bias), c, In(a.scales), In(b.scales)});
}

// The three GEMMs of a linear: forward 2 * rows * out * in FLOPs, and as many for each of the two
// gradients. Every operand passes through a cast first, which is free if the formats agree.
void BlockBuilder::Linear(const std::string& name, std::int16_t x, std::int16_t weight,
                          std::int16_t bias, std::int16_t y, std::int64_t rows, std::int64_t out,
                          std::int64_t in, bool adds, double factor) {
  const ProductOperand of_x = ForProduct({name + ".input", in}, x, OperandRole::kInput);
  const ProductOperand of_weight = WeightForProduct(name + ".weight", weight, out, in);
  Op& op = Gemm(name, of_x, of_weight, bias, adds ? InOut(y) : Out(y));
  op.trans_b = true;
  op.accumulate = adds;
  op.Set(Attribute::kFactor, factor);
  op.shape = {.rows = rows, .cols = out, .inner = in};
}

void BlockBuilder::LinearInputGradient(const std::string& name, std::int16_t dy,
                                       std::int16_t weight, std::int16_t dx, std::int64_t rows,
                                       std::int64_t out, std::int64_t in, bool adds,
                                       double factor) {
  const ProductOperand of_dy =
      ForProduct({name + ".output_grad", out}, dy, OperandRole::kOutputGradient);
  const ProductOperand of_weight = WeightForProduct(name + ".weight", weight, out, in);
  Op& op = Gemm(name, of_dy, of_weight, kNoSlot, adds ? InOut(dx) : Out(dx));
  op.accumulate = adds;
  op.Set(Attribute::kFactor, factor);
  op.shape = {.rows = rows, .cols = in, .inner = out};
}

// dw = dy^T x reduces over rows, hence the Columns roles. Either gradient is skipped if its
// parameter is absent or frozen.
void BlockBuilder::LinearWeightGradient(const std::string& name, std::int16_t dy, std::int16_t x,
                                        std::int16_t weight_grad, std::int16_t bias_grad,
                                        std::int64_t rows, std::int64_t out, std::int64_t in,
                                        bool accumulate, double factor) {
  if (weight_grad != kNoSlot) {
    const ProductOperand of_dy = ForProduct({name + ".weight_grad.output_grad", out}, dy,
                                            OperandRole::kOutputGradientColumns);
    const ProductOperand of_x =
        ForProduct({name + ".weight_grad.input", in}, x, OperandRole::kInputColumns);
    Op& op = Gemm(name + ".weight_grad", of_dy, of_x, kNoSlot,
                  accumulate ? InOut(weight_grad) : Out(weight_grad));
    op.trans_a = true;
    op.accumulate = accumulate;
    op.Set(Attribute::kFactor, factor);
    op.shape = {.rows = out, .cols = in, .inner = rows};
  }
  BiasGradient(name, dy, bias_grad, rows, out, accumulate);
}

void BlockBuilder::BiasGradient(const std::string& name, std::int16_t dy, std::int16_t bias_grad,
                                std::int64_t rows, std::int64_t out, bool accumulate) {
  if (bias_grad == kNoSlot) return;
  Op& sum = Add(OpKind::kBiasGrad, name + ".bias_grad",
                {In(dy), accumulate ? InOut(bias_grad) : Out(bias_grad)});
  sum.accumulate = accumulate;
  sum.shape = {.rows = rows, .cols = out};
}

// Collectives run on the tp queue, not the compute queue: compute continues until an op reads the
// result.
Op& BlockBuilder::TpCollective(OpKind kind, const std::string& name, Operand in, Operand out,
                               std::int64_t elements) {
  Op& op = Add(kind, OpClass::kTpComm, name, {in, out});
  op.queue = Queue::kTp;
  op.group = GroupKind::kTp;
  op.shape = {.elements = elements};
  return op;
}

Op& BlockBuilder::TpAllReduce(const std::string& name, std::int16_t tensor, std::int64_t elements) {
  return TpCollective(OpKind::kAllReduce, name, InOut(tensor), InOut(tensor), elements);
}

void BlockBuilder::TpReduceScatter(const std::string& name, std::int16_t whole, std::int16_t shard,
                                   std::int64_t elements) {
  TpCollective(OpKind::kReduceScatter, name, In(whole), Out(shard), elements);
}

void BlockBuilder::TpAllGather(const std::string& name, std::int16_t shard, std::int16_t whole,
                               std::int64_t elements) {
  TpCollective(OpKind::kAllGather, name, In(shard), Out(whole), elements);
}

// Codes are gathered instead of numbers: a half or less of the bytes. A per-tensor scale is already
// the same on all ranks (CastTogether) and stays where it is. Scales of blocks are gathered by a
// second collective.
std::int16_t BlockBuilder::TpGathered(const std::string& name, std::int16_t own,
                                      std::int64_t elements) {
  const NumberFormat format = FormatOf(own);
  if (!HasScalesApart(format)) {
    const std::int16_t whole = TemporaryIn(format, name, elements);
    TpAllGather(name, own, whole, elements);
    return whole;
  }
  const ProductOperand from = PartsOf(own);
  if (format == NumberFormat::kFp8Tensor) {  // the scale is that of all ranks' rows
    const NumberFormat codes = FormatOf(from.numbers);
    const std::int64_t here = elements_.at(own);
    const bool exact = block_.slots[static_cast<std::size_t>(from.numbers)].bytes == here;
    const std::int16_t part =
        exact ? from.numbers : BytesOf(name + ".own", from.numbers, codes, 0, here);
    const std::int16_t whole = TemporaryIn(codes, name, elements);
    TpAllGather(name, part, whole, elements);
    parts_[whole] = {{whole, from.scales}, format};
    return whole;
  }
  const std::int16_t whole = TemporaryIn(format, name, elements);
  const ProductOperand to = PartsOf(whole);
  TpAllGather(name, from.numbers, to.numbers, elements);
  TpAllGather(name + ".scales", from.scales, to.scales, elements / kFp8Side);
  return whole;
}

// Bases come before their views in `part`, so one pass renumbers all slots. The cast tables are
// cleared because their keys no longer describe which half wrote a cast.
void BlockBuilder::Splice(const BlockBuilder& part, const std::string& prefix,
                          const std::function<std::int16_t(TensorSlot&)>& place) {
  std::vector<std::int16_t> placed;
  for (const TensorSlot& slot : part.block_.slots) {
    TensorSlot own = slot;
    std::int16_t here = slot.base == kNoSlot ? place(own) : kNoSlot;
    if (here == kNoSlot) {
      own.name = prefix + slot.name;
      if (own.base != kNoSlot) {
        const std::int16_t base = placed[static_cast<std::size_t>(slot.base)];
        const TensorSlot& whole = block_.slots[static_cast<std::size_t>(base)];
        own.base = whole.base == kNoSlot ? base : whole.base;
        own.offset += whole.offset;
        own.rank_offset += whole.rank_offset;
        own.category = whole.category;
      }
      here = Add(std::move(own));
    }
    placed.push_back(here);
  }
  for (std::size_t i = 0; i < part.block_.ops.size(); ++i) {
    Op op = part.block_.ops[i];
    const auto first = static_cast<std::int32_t>(block_.operands.size());
    for (Operand operand : OperandsOf(part.block_, op)) {
      if (operand.slot != kNoSlot) operand.slot = placed[static_cast<std::size_t>(operand.slot)];
      block_.operands.push_back(operand);
    }
    op.first_operand = first;
    op.name = prefix + op.name;
    block_.ops.push_back(std::move(op));
    halves_.push_back(part.halves_[i]);
    FT_CHECK(block_.ops.size() < static_cast<std::size_t>(kWholeInstruction));
  }
  casts_.clear();
  parts_.clear();
  elements_.clear();
}

namespace {

bool IsHalf(Pass pass) { return pass == Pass::kBackwardInput || pass == Pass::kBackwardWeight; }

}  // namespace

Block BlockBuilder::Take(Pass half) { return IsHalf(half) ? Copy(half) : std::move(block_); }

Block BlockBuilder::Copy(Pass half) const {
  if (!IsHalf(half)) return block_;
  // A slot counts as touched if an op uses it or a view of it. A temporary touched by both halves
  // must outlive the first one, so it becomes a saved tensor.
  std::vector<bool> in_half(block_.slots.size()), in_other(block_.slots.size());
  for (std::size_t i = 0; i < block_.ops.size(); ++i) {
    const Op& op = block_.ops[i];
    std::vector<bool>& touched = halves_[i] == half ? in_half : in_other;
    for (const Operand& operand : OperandsOf(block_, op)) {
      if (operand.slot == kNoSlot) continue;
      touched[static_cast<std::size_t>(operand.slot)] = true;
      const std::int16_t base = block_.slots[static_cast<std::size_t>(operand.slot)].base;
      if (base != kNoSlot) touched[static_cast<std::size_t>(base)] = true;
    }
  }
  Block out;
  out.name = block_.name + (half == Pass::kBackwardInput ? ".input" : ".weight");
  std::vector<std::int16_t> renumbered(block_.slots.size(), kNoSlot);
  for (std::size_t s = 0; s < block_.slots.size(); ++s) {
    if (!in_half[s]) continue;
    TensorSlot slot = block_.slots[s];
    if (slot.base != kNoSlot) {
      slot.base = renumbered[static_cast<std::size_t>(slot.base)];
    } else if (slot.role == SlotRole::kTemporary && in_other[s]) {
      slot.role = SlotRole::kSaved;
      slot.index = kFirstHeld + static_cast<int>(s);
    }
    renumbered[s] = static_cast<std::int16_t>(out.slots.size());
    out.slots.push_back(std::move(slot));
  }
  for (std::size_t i = 0; i < block_.ops.size(); ++i) {
    if (halves_[i] != half) continue;
    Op op = block_.ops[i];
    const auto first = out.operands.size();
    for (Operand operand : OperandsOf(block_, op)) {
      if (operand.slot != kNoSlot)
        operand.slot = renumbered[static_cast<std::size_t>(operand.slot)];
      out.operands.push_back(operand);
    }
    op.first_operand = static_cast<std::int32_t>(first);
    out.ops.push_back(std::move(op));
  }
  return out;
}

}  // namespace foretrain
