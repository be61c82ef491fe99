// Casts of GEMM operands. Codes of 8 bits and their scales are one tensor, codes first, so that
// both are kept, moved and freed together; ops access them through two views.
#include <utility>

#include "base/checked.h"
#include "base/result.h"
#include "sim/program/blocks/block_builder.h"

namespace foretrain {
namespace {

constexpr std::int64_t Words(std::int64_t bytes) { return (bytes + 3) / 4 * 4; }

// Gradients use e5m2, with more range and less mantissa, if one scale serves a whole tensor
// (Micikevicius et al. 2022, s. 3). With a scale for each block, e4m3 is enough (DeepSeek-AI 2024,
// s. 3.3.2).
NumberFormat CodesOf(NumberFormat format, OperandRole role) {
  const bool gradient =
      role == OperandRole::kOutputGradient || role == OperandRole::kOutputGradientColumns;
  return gradient && format == NumberFormat::kFp8Tensor ? NumberFormat::kE5m2 : NumberFormat::kE4m3;
}

// Number of scales: one for 128 numbers of a row or a column, one for a tile of 128 x 128, or one
// for the tensor.
std::int64_t ScalesOf(NumberFormat format, std::int64_t rows, std::int64_t cols) {
  switch (format) {
    case NumberFormat::kFp8Block:
      return rows * CeilDiv(cols, kFp8Side);
    case NumberFormat::kFp8Columns:
      return CeilDiv(rows, kFp8Side) * cols;
    case NumberFormat::kFp8Tile:
      return CeilDiv(rows, kFp8Side) * CeilDiv(cols, kFp8Side);
    default:
      return 1;
  }
}

}  // namespace

// Scaling blocks run along the reduction dimension of each GEMM. That dimension is the row of x and
// dy in the forward and the input gradient, and the column of both in the weight gradient.
NumberFormat BlockBuilder::CastFormat(OperandRole role) const {
  if (formats_.products != NumberFormat::kFp8Block) return formats_.products;
  if (role == OperandRole::kWeight) return NumberFormat::kFp8Tile;
  const bool columns =
      role == OperandRole::kInputColumns || role == OperandRole::kOutputGradientColumns;
  return columns ? NumberFormat::kFp8Columns : NumberFormat::kFp8Block;
}

std::int16_t BlockBuilder::BytesOf(std::string name, std::int16_t of, NumberFormat format,
                                   std::int64_t offset, std::int64_t bytes) {
  TensorSlot slot = block_.slots[static_cast<std::size_t>(of)];
  FT_CHECK(offset + bytes <= slot.bytes);
  slot.name = std::move(name);
  slot.bytes = bytes;
  slot.role = SlotRole::kTemporary;
  slot.index = 0;
  slot.format = format;
  if (slot.base == kNoSlot) slot.base = of;
  slot.offset += offset;
  return Add(std::move(slot));
}

void BlockBuilder::MakeParts(std::int16_t tensor, NumberFormat codes) {
  const TensorSlot whole = block_.slots[static_cast<std::size_t>(tensor)];
  const std::int64_t elements = elements_.at(tensor), end = Words(elements);
  Parts parts{.format = whole.format};
  // The view of codes includes the padding before the scales, so that a reader of the whole tensor
  // reads no unwritten byte.
  parts.at.numbers = BytesOf(whole.name + ".codes", tensor, codes, 0, end);
  parts.at.scales =
      BytesOf(whole.name + ".scales", tensor, NumberFormat::kFp32, end, whole.bytes - end);
  parts_[parts.at.numbers] = parts;
  parts_[tensor] = std::move(parts);
}

ProductOperand BlockBuilder::PartsOf(std::int16_t tensor) {
  if (!parts_.contains(tensor)) MakeParts(tensor, NumberFormat::kE4m3);
  const Parts& parts = parts_.at(tensor);
  FT_CHECK(parts.firsts.empty());  // with several scales the caller must ask for a view
  return parts.at;
}

void BlockBuilder::CutAt(std::int16_t tensor, std::vector<std::int64_t> firsts) {
  if (tensor == kNoSlot || FormatOf(tensor) != NumberFormat::kFp8Tensor) return;
  TensorSlot& slot = block_.slots[static_cast<std::size_t>(tensor)];
  slot.bytes += static_cast<std::int64_t>(firsts.size() - 1) * kFloatBytes;
  MakeParts(tensor, NumberFormat::kE4m3);
  parts_.at(tensor).firsts = std::move(firsts);
}

// The scales of a view depend on the layout. After CutAt the part's own scale is picked. With
// blocks along rows the scales are a range too, if the view begins on a block; a single scale is
// shared. The last view takes the padding.
std::int16_t BlockBuilder::ViewOfCodes(std::string name, std::int16_t of, std::int64_t first,
                                       std::int64_t elements) {
  if (!parts_.contains(of)) MakeParts(of, NumberFormat::kE4m3);
  const Parts whole = parts_.at(of);
  Parts part{.at = whole.at, .format = whole.format};
  if (!whole.firsts.empty()) {
    std::size_t which = 0;
    while (which + 1 < whole.firsts.size() && whole.firsts[which + 1] <= first) ++which;
    part.at.scales = BytesOf(name + ".scales", whole.at.scales, NumberFormat::kFp32,
                             static_cast<std::int64_t>(which) * kFloatBytes, kFloatBytes);
  } else if (whole.format != NumberFormat::kFp8Tensor) {
    FT_CHECK(whole.format == NumberFormat::kFp8Block && first % kFp8Side == 0);
    part.at.scales = BytesOf(name + ".scales", whole.at.scales, NumberFormat::kFp32,
                             first / kFp8Side * kFloatBytes, elements / kFp8Side * kFloatBytes);
  }
  const auto all = elements_.find(of);
  const bool last = all != elements_.end() && first + elements == all->second;
  part.at.numbers = BytesOf(std::move(name), whole.at.numbers, FormatOf(whole.at.numbers), first,
                            last ? Words(all->second) - first : elements);
  parts_[part.at.numbers] = part;
  return part.at.numbers;
}

// Formats whose scales travel with the codes need one output, the others two. If the source has
// scales of its own, or if a counts tensor limits the rows, both are further operands.
void BlockBuilder::Cast(const std::string& name, std::int16_t from, std::int16_t to,
                        std::int64_t cols, std::int16_t counts) {
  const ProductOperand source = HasParts(from) ? PartsOf(from) : ProductOperand{from, kNoSlot};
  const std::int64_t elements = ElementsIn(
      FormatOf(source.numbers), block_.slots[static_cast<std::size_t>(source.numbers)].bytes);
  if (!HasParts(to)) {
    Op& op = Add(OpKind::kQuantize, name, {In(from), Out(to)});
    op.format = FormatOf(to);
    op.shape = {.rows = 1, .elements = elements};
    return;
  }
  const ProductOperand made = PartsOf(to);
  const bool plain = source.scales == kNoSlot && counts == kNoSlot;
  Op& op = plain ? Add(OpKind::kQuantize, name, {In(from), Out(made.numbers), Out(made.scales)})
                 : Add(OpKind::kQuantize, name,
                       {In(source.numbers), Out(made.numbers), Out(made.scales), In(source.scales),
                        In(counts)});
  op.format = parts_.at(to).format;
  op.shape = {.rows = 1, .cols = cols, .elements = elements};
}

// Three ops: this rank's scale, its maximum over the tp group (one number), then the codes. Formats
// with a scale for each block need no collective.
void BlockBuilder::CastTogether(const std::string& name, std::int16_t from, std::int16_t to,
                                std::int64_t cols) {
  if (FormatOf(to) != NumberFormat::kFp8Tensor) return Cast(name, from, to, cols);
  const ProductOperand made = PartsOf(to);
  const TensorSlot& source = block_.slots[static_cast<std::size_t>(from)];
  const std::int64_t elements = ElementsIn(source.format, source.bytes);
  const auto quantize = [&](const std::string& op_name, Operand codes, Operand scales) {
    Op& op = Add(OpKind::kQuantize, op_name, {In(from), codes, scales});
    op.format = NumberFormat::kFp8Tensor;
    op.shape = {.rows = 1, .cols = cols, .elements = elements};
  };
  quantize(name + ".scale", Out(kNoSlot), Out(made.scales));
  TpAllReduce(name + ".scale.most", made.scales, 1).maximum = true;
  quantize(name, Out(made.numbers), In(made.scales));
}

// The cast is recorded under the current half, so that later products of this half reuse it.
std::int16_t BlockBuilder::ForProduct(const std::string& name, std::int16_t tensor,
                                      Category category) {
  const TensorSlot source = block_.slots[static_cast<std::size_t>(tensor)];
  if (AreStoredAlike(source.format, formats_.products)) return tensor;
  if (const std::int16_t made = KnownCast(tensor, formats_.products); made != kNoSlot) return made;
  const std::int16_t cast = TemporaryIn(formats_.products, source.name + ".cast",
                                        ElementsIn(source.format, source.bytes), category);
  Cast(name + ".cast", tensor, cast);
  casts_[{tensor, formats_.products, half_ == Pass::kBackwardWeight}] = cast;
  return cast;
}

std::int16_t BlockBuilder::CastSlot(const CastRequest& request, std::int16_t tensor,
                                    OperandRole role) {
  const NumberFormat format = CastFormat(role);
  const std::int16_t numbers = HasParts(tensor) ? PartsOf(tensor).numbers : tensor;
  const TensorSlot source = block_.slots[static_cast<std::size_t>(numbers)];
  const std::int64_t elements = ElementsIn(source.format, source.bytes);
  const std::int64_t scales = ScalesOf(format, elements / request.cols, request.cols);
  const std::int16_t cast = SlotOfBytes(
      block_.slots[static_cast<std::size_t>(tensor)].name + ".cast",
      Words(elements) + scales * kFloatBytes, Category::kWorkspace, SlotRole::kTemporary);
  block_.slots.back().format = format;
  elements_[cast] = elements;
  MakeParts(cast, CodesOf(format, role));
  return cast;
}

// A tensor that is already in the wanted layout is read directly. Rows and columns need different
// layouts, so with block scales x and dy are cast twice, once for each GEMM that reads them.
ProductOperand BlockBuilder::ForProduct(const CastRequest& request, std::int16_t tensor,
                                        OperandRole role) {
  const NumberFormat wanted = CastFormat(role);
  if (!HasScalesApart(wanted)) return {ForProduct(request.name, tensor), kNoSlot};
  if (HasParts(tensor)) {
    const auto known = parts_.find(tensor);
    const NumberFormat has = known != parts_.end() ? known->second.format : FormatOf(tensor);
    if (has == wanted) return PartsOf(tensor);
  }
  if (const std::int16_t made = KnownCast(tensor, wanted); made != kNoSlot) return PartsOf(made);
  const std::int16_t cast = CastSlot(request, tensor, role);
  Cast(request.name + ".cast", tensor, cast, request.cols, request.counts);
  casts_[{tensor, wanted, half_ == Pass::kBackwardWeight}] = cast;
  return PartsOf(cast);
}

// The weight half may reuse casts of the input half, which runs first; the reverse would read bytes
// not yet written.
std::int16_t BlockBuilder::KnownCast(std::int16_t tensor, NumberFormat format) const {
  for (const bool in_weight_half : {false, true}) {
    const auto made = casts_.find({tensor, format, in_weight_half});
    const bool usable = half_ == Pass::kBackwardWeight || !in_weight_half;
    if (made != casts_.end() && usable) return made->second;
  }
  return kNoSlot;
}

// NF4 weights are dequantized to the products' format before their first use in a half (QLoRA,
// Dettmers et al. 2023). The wide copy is a temporary: the frozen base never exists in 16 bits as a
// whole.
ProductOperand BlockBuilder::WeightForProduct(const std::string& name, std::int16_t weight,
                                              std::int64_t out, std::int64_t in) {
  if (FormatOf(weight) != NumberFormat::kNf4) {
    return ForProduct({name, in}, weight, OperandRole::kWeight);
  }
  const std::int16_t known = KnownCast(weight, formats_.products);
  if (known != kNoSlot) return {known, kNoSlot};
  const std::string tensor = block_.slots[static_cast<std::size_t>(weight)].name;
  const std::int16_t wide = TemporaryIn(formats_.products, tensor + ".wide", out * in);
  const std::vector<PackedTensor>& parts = packed_.at(weight);
  std::int64_t first = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool alone = parts.size() == 1;
    const std::string number = alone ? "" : "." + std::to_string(i);
    const std::int16_t from = alone ? weight : PackedView(tensor + number, weight, parts[i]);
    const std::int16_t to =
        alone ? wide : View(tensor + ".wide" + number, wide, first, parts[i].elements);
    Op& op = Add(OpKind::kDequantize, name + ".dequantize" + number, {In(from), Out(to)});
    op.format = NumberFormat::kNf4;
    op.shape = {.rows = 1, .elements = parts[i].elements};
    first += parts[i].elements;
  }
  FT_CHECK(first == out * in);
  casts_[{weight, formats_.products, half_ == Pass::kBackwardWeight}] = wide;
  return {wide, kNoSlot};
}

}  // namespace foretrain
