// The functions that the table of ops (op_kinds.def) names: one for rows that say all themselves,
// and one for each family whose work depends on more than its sizes.
#include "sim/program/ops/op_work.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/text.h"
#include "sim/program/ops/attention_work.h"
#include "sim/program/ops/op_kinds.h"

namespace foretrain {
namespace {

constexpr double kWord = 4;  // bytes: fp32, i32

// Sizes of an op as doubles: products of five counts may pass 2^63.
struct Sizes {
  explicit Sizes(const Op& op)
      : rows(static_cast<double>(op.shape.rows)),
        cols(static_cast<double>(op.shape.cols)),
        inner(static_cast<double>(op.shape.inner)),
        vocab(static_cast<double>(op.shape.vocab)),
        elements(static_cast<double>(op.shape.elements)),
        matrix(rows * cols),
        output_passes(op.accumulate ? 2 : 1),
        vectors(op.rms ? 1 : 2) {}

  double rows;
  double cols;
  double inner;
  double vocab;
  double elements;
  double matrix;         // rows x cols
  double output_passes;  // an output that is added to is read as well
  double vectors;        // LayerNorm has a mean next to rstd and a bias next to the weight
};

double Each(const Op& op, OperandName name) { return BytesEach(FormatOf(op, name)); }

// Bytes of a number of a product's operand, with its share of the scales. Under kFp8Block weights
// have one scale each 128 x 128; they are `b`, except in a weight's gradient.
double EachScaled(const Op& op, OperandName name) {
  if (op.format != NumberFormat::kFp8Block || !IsCodes(FormatOf(op, name))) return Each(op, name);
  const bool weight = name.text == "b" && !op.trans_a;
  return BytesEach(weight ? NumberFormat::kFp8Tile : NumberFormat::kFp8Block);
}

OpWork GemmWork(const Op& op) {
  const Sizes s(op);
  double bytes = s.rows * s.inner * EachScaled(op, "a") + s.inner * s.cols * EachScaled(op, "b") +
                 s.output_passes * s.matrix * Each(op, "c");
  if (op.kind == OpKind::kGemmActivationKept) bytes += s.matrix * Each(op, "y");
  if (op.kind == OpKind::kGemmActivationBackward) bytes += s.matrix * Each(op, "x");
  if (op.kind == OpKind::kGemmBiasGrad) bytes += s.output_passes * s.rows * Each(op, "grad");
  return {2 * s.rows * s.cols * s.inner, bytes};
}

// Each tensor once: the input, the residual if there is one, the result and the mask.
OpWork DropoutWork(const Op& op) {
  const Sizes s(op);
  const double mask = FormatOf(op, "mask") == NumberFormat::kMask ? Each(op, "mask") : 0;
  const double residual = op.accumulate ? Each(op, "residual") : 0;
  return {3 * s.matrix, s.matrix * (Each(op, "x") + residual + Each(op, "out") + mask)};
}

// Columns that are copied are read and written.
OpWork CopyWork(const Op& op) {
  const OpShape& s = op.shape;
  const double heads = op.kind == OpKind::kKeyColumns ? 0.0 : s.heads;
  return {0, (Each(op, "from") + Each(op, "to")) * static_cast<double>(s.rows) *
                 (heads * s.head_dim + static_cast<double>(s.kv_heads) *
                                           (static_cast<double>(s.head_dim) + s.ValueDim()))};
}

// The table's gradient is read and written, and one addition a distance goes into it.
OpWork RelativeBiasWork(const Op& op) {
  const OpShape& s = op.shape;
  const double heads = s.heads, distances = static_cast<double>(s.rows + s.inner - 1);
  const bool forward = op.kind == OpKind::kRelativeBias;
  const double table = forward ? Each(op, "table") : Each(op, "dy") + Each(op, "dx");
  return {forward ? 0 : heads * distances, heads * (s.buckets * table + 4 * distances)};
}

// Each number of the parts and of the whole is read or written once. The rotated key goes to all
// heads, or is their sum.
OpWork LatentWork(const Op& op) {
  const OpShape& s = op.shape;
  const auto rows = static_cast<double>(s.rows);
  if (op.kind == OpKind::kSplitColumns) {
    return {0,
            rows * static_cast<double>(s.cols + s.inner) * (Each(op, "whole") + Each(op, "left"))};
  }
  const double heads = s.heads, plain = s.head_dim - s.rotary;
  const double parts = heads * (s.head_dim + plain + s.value_dim) + s.rotary;
  const double whole = heads * (2.0 * s.head_dim + s.value_dim);
  const double each = Each(op, "qkv") + Each(op, "q");
  return {op.inverse ? rows * heads * s.rotary : 0, rows * (parts + whole) * each / 2};
}

// Query and key heads are read and written.
OpWork RopeWork(const Op& op) {
  const double rotated = static_cast<double>(op.shape.rows) *
                         (static_cast<double>(op.shape.heads) + op.shape.kv_heads) *
                         (op.shape.rotary > 0 ? op.shape.rotary : op.shape.head_dim);
  return {3 * rotated, 2 * rotated * Each(op, "qkv")};
}

// Flops of the memory-bound kinds count the multiplications, additions, divisions and exponentials
// of one element.
OpWork EmbeddingWork(const Op& op) {
  const Sizes s(op);
  // Rows that are added to; a table that starts at 0 is filled first.
  const double table = Each(op, "table_grad");
  return {s.matrix, s.rows * kWord + s.matrix * (Each(op, "dy") + 2 * table) +
                        (op.accumulate ? 0 : s.vocab * s.cols * table)};
}

OpWork NormWork(const Op& op) {
  const Sizes s(op);
  if (op.kind == OpKind::kNormForward) {
    return {(op.rms ? 4 : 8) * s.matrix,
            s.matrix * (Each(op, "x") + Each(op, "y")) +
                s.vectors * (s.cols * Each(op, "weight") + s.rows * Each(op, "rstd"))};
  }
  if (op.kind == OpKind::kNormBackwardInput) {  // with the residual's gradient
    return {(op.rms ? 8 : 11) * s.matrix,
            s.matrix * (Each(op, "dy") + Each(op, "x") + 2 * Each(op, "dx")) +
                s.cols * Each(op, "weight") + s.vectors * s.rows * Each(op, "rstd")};
  }
  return {(op.rms ? 3 : 5) * s.matrix,
          s.matrix * (Each(op, "dy") + Each(op, "x")) +
              s.vectors *
                  (s.rows * Each(op, "rstd") + s.output_passes * s.cols * Each(op, "weight_grad"))};
}

OpWork AddNormWork(const Op& op) {
  const Sizes s(op);
  return {(op.rms ? 5 : 9) * s.matrix,
          s.matrix * (Each(op, "a") + Each(op, "b") + Each(op, "sum") + Each(op, "y")) +
              s.vectors * (s.cols * Each(op, "weight") + s.rows * Each(op, "rstd"))};
}

// Each head of q and k is a row of a norm whose weight is one of two; `whole`: all heads of a kind
// are. The forward keeps the heads before the norm, and the backward their gradient.
OpWork HeadNormWork(const Op& op) {
  const Sizes s(op);
  const double heads = static_cast<double>(op.shape.heads) + op.shape.kv_heads;
  const double rows = s.rows * (op.whole ? 2 : heads), matrix = s.rows * heads * op.shape.head_dim;
  // Mean of the weights of queries and keys.
  const double weight = (op.whole ? heads / 2 : 1) * op.shape.head_dim;
  if (op.kind == OpKind::kHeadNormForward) {
    return {4 * matrix, matrix * (2 * Each(op, "qkv") + Each(op, "kept")) +
                            rows * Each(op, "rstd") +
                            weight * (Each(op, "q_weight") + Each(op, "k_weight"))};
  }
  if (op.kind == OpKind::kHeadNormBackwardInput) {
    return {8 * matrix, matrix * (2 * Each(op, "dqkv") + Each(op, "kept") + Each(op, "kept_grad")) +
                            rows * Each(op, "rstd") +
                            weight * (Each(op, "q_weight") + Each(op, "k_weight"))};
  }
  return {3 * matrix,
          matrix * (Each(op, "kept_grad") + Each(op, "kept")) + rows * Each(op, "rstd") +
              s.output_passes * weight * (Each(op, "q_weight_grad") + Each(op, "k_weight_grad"))};
}

// All rows, and each expert's weights once.
OpWork GroupedGemmWork(const Op& op) {
  const Sizes s(op);
  const double a = EachScaled(op, "a"), b = EachScaled(op, "b"), c = Each(op, "c");
  const double weights = op.trans_a ? s.output_passes * s.matrix * c : s.inner * s.cols * b;
  const double rows =
      op.trans_a ? s.inner * (s.rows * a + s.cols * b) : s.rows * (s.inner * a + s.cols * c);
  return {2 * s.rows * s.cols * s.inner, rows + op.shape.experts * weights};
}

// Parameters and moments are read and written, the gradient is read, a shorter copy is written.
// Flop: the products, sums, roots, divisions and signs of one element.
OpWork UpdateWork(const Op& op) {
  const Sizes s(op);
  double flop = 0, moment_count = 0;
  switch (op.kind) {
    case OpKind::kAdamW:
      flop = 14, moment_count = 2;
      break;
    case OpKind::kMomentum:
      flop = 7, moment_count = 1;
      break;
    case OpKind::kLion:
      flop = 12, moment_count = 1;
      break;
    case OpKind::kAdafactor:  // its moments are few
      flop = 9;
      break;
    default:
      flop = 4;
  }
  const NumberFormat copy = FormatOf(op, "weights");
  const double moments =
      moment_count == 0 ? 0 : moment_count * 2 * static_cast<double>(LayoutOf(op.format).bits) / 8;
  const double each = 2 * Each(op, "param") + Each(op, "grad") + moments +
                      (copy == NumberFormat::kFp32 ? 0 : BytesEach(copy));
  return {flop * s.elements, each * s.elements};
}
// Numbers of the long side, and their bytes in the other format: read once for the maximum of each
// block and once to convert. Rows that follow counts count as expected (`inner` rows of `cols`),
// not as the room for them.
OpWork QuantizeWork(const Op& op) {
  const std::int64_t pieces = op.shape.rows;
  const std::int64_t all =
      op.shape.members > 0 ? op.shape.inner * op.shape.cols : op.shape.elements;
  const double bytes = pieces == 0 ? 0
                                   : static_cast<double>(pieces) *
                                         static_cast<double>(BytesIn(op.format, all / pieces));
  const auto elements = static_cast<double>(all);
  if (HasScalesApart(op.format) && !IsCodes(FormatOf(op, "out"))) {  // scales alone
    return {elements, elements * Each(op, "x") + kWord};
  }
  const bool shortens = op.kind == OpKind::kQuantize;
  return {2 * elements, elements * (shortens ? Each(op, "x") : Each(op, "out")) + bytes};
}

// A product of numbers and sizes: 2 * rows * cols.
struct Term {
  double number = 1;
  std::vector<std::int64_t (*)(const OpShape& shape)> sizes = {};
};
using Sum = std::vector<Term>;

Term ParseTerm(std::string_view text) {
  Term term;
  for (const std::string_view factor : Split(text, '*')) {
    if (factor.front() >= '0' && factor.front() <= '9') {
      term.number *= std::stod(std::string(factor));
      continue;
    }
    const auto fields = ShapeFields();
    const auto field = std::find_if(fields.begin(), fields.end(),
                                    [&](const ShapeField& f) { return f.name == factor; });
    FT_CHECK(field != fields.end());
    term.sizes.push_back(field->value);
  }
  return term;
}

Sum ParseSum(std::string_view text) {
  Sum sum;
  if (text.empty()) return sum;
  for (const std::string_view term : Split(text, '+')) sum.push_back(ParseTerm(term));
  return sum;
}

double ValueOf(const Sum& sum, const OpShape& shape) {
  double total = 0;
  for (const Term& term : sum) {
    double product = term.number;
    for (const auto size : term.sizes) product *= static_cast<double>(size(shape));
    total += product;
  }
  return total;
}

// A row's flop and, for each operand, its numbers. Parsed once: costs ask for them millions of
// times.
struct RowWork {
  Sum flop;
  std::vector<Sum> counts;
};

const RowWork& RowWorkOf(OpKind kind) {
  static const std::vector<RowWork> all = [] {
    std::vector<RowWork> rows;
    for (const OpKindRow& row : kOpKinds) {
      RowWork& work = rows.emplace_back(RowWork{ParseSum(row.flop), {}});
      for (const OperandSpec& spec : SpecsOf(row.kind, false)) {
        work.counts.push_back(ParseSum(spec.count));
      }
    }
    return rows;
  }();
  return all[static_cast<std::size_t>(kind)];
}

// The work that the row states. An operand that is read and written counts twice.
OpWork OperandsWork(const Op& op) {
  const RowWork& row = RowWorkOf(op.kind);
  const OperandSpecs& specs = SpecsOf(op.kind, false);
  double bytes = 0;
  for (std::size_t i = 0; i < specs.count; ++i) {
    if (row.counts[i].empty()) continue;
    const char access = specs.specs[i].access;
    const bool twice = access == '~' || (access == '+' && op.accumulate);
    bytes += (twice ? 2 : 1) * ValueOf(row.counts[i], op.shape) * BytesEach(op.formats[i]);
  }
  return {ValueOf(row.flop, op.shape), bytes};
}

using WorkFunction = OpWork (*)(const Op& op);
constexpr WorkFunction kWorkFunctions[] = {
#define FT_OP(kind, family, work, ...) &work,
#include "sim/program/ops/op_kinds.def"
};

}  // namespace

OpWork WorkOf(const Op& op) { return kWorkFunctions[static_cast<std::size_t>(op.kind)](op); }

}  // namespace foretrain
