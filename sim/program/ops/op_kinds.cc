#include "sim/program/ops/op_kinds.h"

#include <string>

namespace foretrain {
namespace {

static_assert(kOpKinds.size() <= 256, "OpKind is a byte");

constexpr ShapeField kShapeFields[] = {
#define FT_SIZE(name) {#name, [](const OpShape& shape) -> std::int64_t { return shape.name; }},
#include "sim/program/ops/op_kinds.def"
};

// Whether `word` is one of the words of `text`.
bool HasWord(std::string_view text, std::string_view word) {
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    if (text.substr(0, space) == word) return true;
    if (space == std::string_view::npos) return false;
    text.remove_prefix(space + 1);
  }
  return false;
}

bool IsAllowed(char spec, Access access) {
  switch (spec) {
    case 'r':
      return access == Access::kRead;
    case '=':
      return access == Access::kWrite;
    case '~':
      return access == Access::kReadWrite;
    case '+':
      return access != Access::kRead;
    default:
      return true;
  }
}

// Whether a place holds a number although none of the kind's attributes lies there.
bool SetsOthers(const Op& op) {
  std::array<bool, kAttributePlaces> has{};
  for (std::size_t i = 0; i < kAttributeCount; ++i) {
    const auto attribute = static_cast<Attribute>(i);
    if (RowOf(op.kind).attributes.Has(attribute)) has[PlaceOf(attribute)] = true;
  }
  for (std::size_t place = 0; place < has.size(); ++place) {
    if (!has[place] && op.attributes[place] != kUnsetAttributes[place]) return true;
  }
  return false;
}

}  // namespace

std::span<const ShapeField> ShapeFields() { return kShapeFields; }

std::string_view Name(OpKind kind) {
  FT_CHECK(static_cast<std::size_t>(kind) < kOpKinds.size());
  return RowOf(kind).name;
}

float Op::Get(Attribute attribute) const {
  FT_CHECK(RowOf(kind).attributes.Has(attribute));
  return attributes[PlaceOf(attribute)];
}

void Op::Set(Attribute attribute, double value) {
  FT_CHECK(RowOf(kind).attributes.Has(attribute));
  attributes[PlaceOf(attribute)] = static_cast<float>(value);
}

std::size_t PositionOf(const Op& op, OperandName name) {
  const int position = SpecsOf(op.kind, op.inverse).Find(name.text);
  FT_CHECK(position >= 0);
  return static_cast<std::size_t>(position);
}

Access UsualAccess(const Op& op, OperandName name) {
  switch (SpecsOf(op.kind, op.inverse).specs[PositionOf(op, name)].access) {
    case '=':
      return Access::kWrite;
    case '~':
      return Access::kReadWrite;
    case '+':
      return op.accumulate ? Access::kReadWrite : Access::kWrite;
    default:
      return Access::kRead;
  }
}

Operand OperandOf(const Block& block, const Op& op, OperandName name) {
  const std::size_t position = PositionOf(op, name);
  const std::span<const Operand> operands = OperandsOf(block, op);
  return position < operands.size() ? operands[position] : Operand{};
}

OpClass ClassOf(OpKind kind) {
  if (IsProduct(kind)) return OpClass::kGemm;
  if (IsAttention(kind)) return OpClass::kAttention;
  const OpFamily family = FamilyOf(kind);
  FT_CHECK(family == OpFamily::kMemory || family == OpFamily::kUpdate || family == OpFamily::kFill);
  return OpClass::kMemoryBound;
}

Result<void> CheckOp(const Block& block, const Op& op) {
  const OpKindRow& row = RowOf(op.kind);
  const auto bad = [&](const std::string& problem) {
    return Fail(ErrorCode::kInvalidArgument, "block " + block.name + ": " + std::string(row.name) +
                                                 " " + op.name + " " + problem);
  };
  if (op.kind == OpKind::kOpaque) return {};
  const OperandSpecs& specs = SpecsOf(op.kind, op.inverse);
  const std::span<const Operand> operands = OperandsOf(block, op);
  if (operands.size() > specs.count) {
    return bad("has " + std::to_string(operands.size()) + " operands; its kind has " +
               std::to_string(specs.count));
  }
  for (std::size_t i = 0; i < specs.count; ++i) {
    const OperandSpec& spec = specs.specs[i];
    const std::string name(spec.name);
    if (i >= operands.size() || operands[i].slot == kNoSlot) {
      if (!spec.optional) return bad("lacks operand " + name);
    } else if (!IsAllowed(spec.access, operands[i].access)) {
      constexpr const char* kAccess[] = {"reads", "writes", "reads and writes"};
      return bad(kAccess[static_cast<std::size_t>(operands[i].access)] + (" operand " + name) +
                 ", which its kind does not");
    }
  }
  for (const ShapeField& field : kShapeFields) {
    if (field.value(op.shape) != 0 && !HasWord(row.shape, field.name)) {
      return bad("has a size " + std::string(field.name) + ", which its kind does not");
    }
  }
  if (SetsOthers(op)) return bad("has an attribute that its kind does not");
  return {};
}

}  // namespace foretrain
