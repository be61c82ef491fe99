// Fills the arguments of a kernel from an op by name: the table of ops and base/device_api.h call
// an operand, a size and an attribute the same. A kind whose arguments all have such names needs no
// code of its own; for others a maker (kernel_makers.h) sets the rest.
#pragma once

#include <string_view>
#include <type_traits>

#include "runtime/ops/kernel_call.h"
#include "runtime/ops/kernel_makers.h"
#include "runtime/ops/qkv_columns.h"
#include "runtime/ops/sequence_runs.h"

namespace foretrain {

// Format of the first operand of numbers: the `dtype` of most arguments.
inline FtDtype MainDtype(const BoundOp& op) {
  for (const OperandSpec& spec : SpecsOf(op.op.kind, op.op.inverse)) {
    if (const FtDtype dtype = op.DtypeOf(spec.name); dtype != FT_U8) return dtype;
  }
  return FT_F32;
}
// Format of the first operand that is a gradient of parameters.
inline FtDtype GradientDtype(const BoundOp& op) {
  for (const OperandSpec& spec : SpecsOf(op.op.kind, op.op.inverse)) {
    if (spec.name.ends_with("grad")) return op.DtypeOf(spec.name);
  }
  return FT_F32;
}

// Addresses and formats of the operands: `<operand>_dtype` is an operand's format.
template <class Arguments>
void BindOperands(const BoundOp& op, Arguments& g) {
#define FT_OPERAND(name)                                         \
  if constexpr (requires { g.name = nullptr; }) {                \
    g.name = static_cast<decltype(g.name)>(op.AddressOf(#name)); \
  }                                                              \
  if constexpr (requires { g.name##_dtype; }) g.name##_dtype = op.DtypeOf(#name);
#include "sim/program/ops/op_kinds.def"
  if constexpr (requires { g.grad_dtype; }) g.grad_dtype = GradientDtype(op);
  if constexpr (requires { g.dtype; }) g.dtype = MainDtype(op);
}

// Sizes, and attributes that the kind has.
template <class Arguments>
void BindNumbers(const BoundOp& op, Arguments& g) {
#define FT_SIZE(name)                                         \
  if constexpr (requires { g.name = op.op.shape.name; }) {    \
    g.name = static_cast<decltype(g.name)>(op.op.shape.name); \
  }
#define FT_ATTRIBUTE(name, member, place)                                          \
  if constexpr (requires { requires std::is_arithmetic_v<decltype(g.member)>; }) { \
    if (RowOf(op.op.kind).attributes.Has(Attribute::k##name)) {                    \
      g.member = static_cast<decltype(g.member)>(op.op.Get(Attribute::k##name));   \
    }                                                                              \
  }
#include "sim/program/ops/op_kinds.def"
}

// Settings of the op, and what follows from its place: the rank's share of vocabulary, heads, rows
// and positions.
template <class Arguments>
void BindSettings(const BoundOp& op, Arguments& g) {
  const Op& of = op.op;
#define FT_SET(member, value) \
  if constexpr (requires { g.member; }) g.member = value
  FT_SET(accumulate, of.accumulate);
  FT_SET(rms, of.rms);
  FT_SET(whole, of.whole);
  FT_SET(inverse, of.inverse);
  FT_SET(trans_a, of.trans_a);
  FT_SET(trans_b, of.trans_b);
  FT_SET(softmax_first, of.softmax_first);
  FT_SET(sigmoid, of.sigmoid ? (of.undivided ? 2 : 1) : 0);
  FT_SET(compute, ComputeOf(of));
  FT_SET(a_scaling, ScalingOf(of).a);
  FT_SET(b_scaling, ScalingOf(of).b);
  FT_SET(activation, PlainActivationOf(of.activation));
  FT_SET(row_stride, QkvColumns(of.shape).stride);
  FT_SET(vocabulary, of.shape.vocab_total > 0 ? of.shape.vocab_total : of.shape.vocab);
  FT_SET(all_ids, of.shape.vocab_total);
  FT_SET(first_id, op.FirstId());
  FT_SET(first_head, FirstHead(op));
  FT_SET(first_row, of.own_rows ? op.tp * of.shape.rows : 0);
  FT_SET(runs, op.runs != nullptr ? op.runs->OfRank(op.cp) : nullptr);
  FT_SET(run_count, op.runs != nullptr ? SequenceRuns::kOfRank : 0);
  FT_SET(random, RandomMaskOf(op));
  FT_SET(probability, of.dropout);
#undef FT_SET
}

template <class Arguments>
Arguments BindArguments(const BoundOp& op) {
  Arguments g{};
  BindOperands(op, g);
  BindNumbers(op, g);
  BindSettings(op, g);
  return g;
}

template <auto entry>
KernelCall CallByName(const BoundOp& op) {
  return Call<entry>(BindArguments<ArgumentsOf<entry>>(op));
}

}  // namespace foretrain
