// The table of ops, read: each kind's name, operands, attributes, shape fields and kernel. Programs
// are built, checked, costed and executed from these rows. Leaves out flop and bytes (op_work.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "base/device_api.h"
#include "base/result.h"
#include "sim/program/ir/op.h"
#include "sim/program/ops/op_kind.h"

namespace foretrain {

class AttributeSet {
 public:
  constexpr AttributeSet(std::initializer_list<Attribute> attributes) {
    for (const Attribute attribute : attributes) bits_ |= Bit(attribute);
  }
  constexpr bool Has(Attribute attribute) const { return (bits_ & Bit(attribute)) != 0; }

 private:
  static constexpr unsigned Bit(Attribute attribute) {
    return 1U << static_cast<unsigned>(attribute);
  }
  unsigned bits_ = 0;
};

// A row as op_kinds.def writes it; that file explains the strings.
struct OpKindRow {
  OpKind kind;
  std::string_view name;
  std::string_view operands;
  std::string_view inverse_operands = {};  // of an inverse op, if they differ
  std::string_view flop = {};              // "3*rows*cols+rows"; OperandsWork alone reads it
  std::string_view shape;                  // fields of OpShape that count; others must be 0
  AttributeSet attributes = {};
  FtKernel kernel = FT_KERNEL_COUNT;  // FT_KERNEL_COUNT: the op is no kernel
};

inline constexpr std::array kOpKinds = {
#define FT_OP(kind_, family_, work_, ...) OpKindRow{.kind = OpKind::k##kind_, __VA_ARGS__},
#include "sim/program/ops/op_kinds.def"
};

constexpr const OpKindRow& RowOf(OpKind kind) { return kOpKinds[static_cast<std::size_t>(kind)]; }

// A named operand of a kind. `access` is the letter before its name in the table, 'r' if none;
// `count` the product of numbers and sizes behind its @, "" if none.
struct OperandSpec {
  std::string_view name;
  std::string_view count = {};
  char access = 'r';
  bool optional = false;
};
struct OperandSpecs {
  std::array<OperandSpec, kMaxOperands> specs{};
  std::size_t count = 0;

  constexpr const OperandSpec* begin() const { return specs.data(); }
  constexpr const OperandSpec* end() const { return specs.data() + count; }
  // Place of the operand among the op's; -1 if the kind has none of this name.
  constexpr int Find(std::string_view name) const {
    for (std::size_t i = 0; i < count; ++i) {
      if (specs[i].name == name) return static_cast<int>(i);
    }
    return -1;
  }
};

constexpr OperandSpecs ParseOperands(std::string_view text) {
  OperandSpecs parsed;
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    std::string_view word = text.substr(0, space);
    text = space == std::string_view::npos ? std::string_view{} : text.substr(space + 1);
    OperandSpec& spec = parsed.specs[parsed.count++];
    if (std::string_view("=~+*").find(word.front()) != std::string_view::npos) {
      spec.access = word.front();
      word.remove_prefix(1);
    }
    spec.optional = word.back() == '?';
    if (spec.optional) word.remove_suffix(1);
    const std::size_t at = word.find('@');
    spec.name = word.substr(0, at);
    if (at != std::string_view::npos) spec.count = word.substr(at + 1);
  }
  return parsed;
}

// Operands of each kind; [1] are those of an inverse op.
inline constexpr auto kOperandSpecs = [] {
  std::array<std::array<OperandSpecs, 2>, kOpKinds.size()> all{};
  for (std::size_t i = 0; i < kOpKinds.size(); ++i) {
    const OpKindRow& row = kOpKinds[i];
    all[i][0] = ParseOperands(row.operands);
    all[i][1] = row.inverse_operands.empty() ? all[i][0] : ParseOperands(row.inverse_operands);
  }
  return all;
}();

constexpr const OperandSpecs& SpecsOf(OpKind kind, bool inverse) {
  return kOperandSpecs[static_cast<std::size_t>(kind)][inverse ? 1 : 0];
}

// A field of OpShape by its name.
struct ShapeField {
  std::string_view name;
  std::int64_t (*value)(const OpShape& shape);
};
std::span<const ShapeField> ShapeFields();

// The name of an operand. One that no kind has does not compile.
struct OperandName {
  // NOLINTNEXTLINE(google-explicit-constructor): call sites give a string literal.
  consteval OperandName(const char* name) : text(name) {
    bool known = false;
    for (const auto& of_kind : kOperandSpecs) {
      known = known || of_kind[0].Find(text) >= 0 || of_kind[1].Find(text) >= 0;
    }
    if (!known) throw "no op has an operand of this name";  // does not compile
  }
  std::string_view text;
};

// Place of an operand among the op's, which its kind must have (FT_CHECK).
std::size_t PositionOf(const Op& op, OperandName name);

// Format of an operand, fp32 if it is absent.
inline NumberFormat FormatOf(const Op& op, OperandName name) {
  return op.formats[PositionOf(op, name)];
}
inline void SetFormat(Op& op, OperandName name, NumberFormat format) {
  op.formats[PositionOf(op, name)] = format;
}

// Format of the numbers that communication, a copy or a load moves.
inline NumberFormat MovedFormat(const Op& op) { return op.formats[0]; }

// How an op of this kind uses an operand: one that it may add to is read as well if `accumulate`.
Access UsualAccess(const Op& op, OperandName name);

// Operand of an op of the block; one with kNoSlot if it is absent.
Operand OperandOf(const Block& block, const Op& op, OperandName name);

// The class of a kind that is arithmetic (FT_CHECK): others have that of their traffic.
OpClass ClassOf(OpKind kind);

// Compares an op with its row: the number, presence and access of its operands, and the fields of
// its shape and the attributes that its kind does not have, which must be left alone.
//
// Errors: kInvalidArgument with the block, the op and the operand or field.
Result<void> CheckOp(const Block& block, const Op& op);

}  // namespace foretrain
