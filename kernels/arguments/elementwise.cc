// Arguments of ops on single elements or rows: activations, sums, dropout, gates, copies.
#include "kernels/arguments/describe.h"
#include "kernels/arguments/tensors.h"

namespace foretrain {
namespace {

// The enums are checked by range, because callers in C may pass any integer.
void Known(ArgumentReader& reader, const char* name, int value, int last) {
  if (value < 0 || value > last) reader.Refuse(FT_UNSUPPORTED, "%s %d", name, value);
}

bool Is(const ArgumentReader& reader, FtKernel kernel) { return reader.kernel() == kernel; }

}  // namespace

void Describe(ArgumentReader& reader, FtGelu& g) {
  reader.Float("dtype", g.dtype).Size("elements", g.elements);
  Known(reader, "activation", static_cast<int>(g.activation), FT_SQUARED_RELU);
  const Extent all = Row(g.elements);
  reader.Tensors({Read("x", g.x, g.dtype, all),
                  Read("dy", g.dy, g.dtype, all, Is(reader, FT_KERNEL_GELU_BACKWARD)),
                  Write("out", g.out, g.dtype, all)});
}

// The output of the backward has both halves.
void Describe(ArgumentReader& reader, FtSwiglu& g) {
  reader.Float("dtype", g.dtype).Size("rows", g.rows).Size("cols", g.cols);
  Known(reader, "gate", static_cast<int>(g.gate), FT_GATE_CLAMPED);
  const bool backward = Is(reader, FT_KERNEL_SWIGLU_BACKWARD);
  const Extent half = Rows(g.rows, g.cols);
  reader.Tensors({Plain("x", g.x, half)});  // bounds cols before it is doubled
  if (!reader.ok()) return;
  const Extent both = Rows(g.rows, 2 * g.cols);
  reader.Tensors({Read("x", g.x, g.dtype, both), Read("dy", g.dy, g.dtype, half, backward),
                  Write("out", g.out, g.dtype, backward ? both : half)});
}

void Describe(ArgumentReader& reader, FtAdd& g) {
  reader.Float("dtype", g.dtype).Size("rows", g.rows).Size("cols", g.cols);
  if (g.bias != nullptr) reader.Float("bias_dtype", g.bias_dtype);
  const Extent all = Rows(g.rows, g.cols);
  reader.Tensors({Read("a", g.a, g.dtype, all), Read("b", g.b, g.dtype, all),
                  Read("bias", g.bias, g.bias_dtype, Row(g.cols), kOptional),
                  Write("out", g.out, g.dtype, all)});
}

// A cap of 0 would divide by zero; NaN fails the comparison too.
void Describe(ArgumentReader& reader, FtSoftcap& g) {
  reader.Float("dtype", g.dtype).Size("elements", g.elements);
  reader.Tensors({ReadWrite("x", g.x, g.dtype, Row(g.elements))});
  if (!(g.softcap > 0.0F)) {
    reader.Refuse(FT_FAILED, "softcap %g: must be above 0", static_cast<double>(g.softcap));
  }
}

void Describe(ArgumentReader& reader, FtCopyRows& g) {
  reader.Float("dtype", g.dtype).Size("rows", g.rows).Size("cols", g.cols);
  reader.AtLeast("from_stride", g.from_stride, g.cols).AtLeast("to_stride", g.to_stride, g.cols);
  reader.Tensors({Read("from", g.from, g.dtype, {g.rows, g.cols, g.from_stride}),
                  Write("to", g.to, g.dtype, {g.rows, g.cols, g.to_stride})});
}

// Without x only the mask is written.
void Describe(ArgumentReader& reader, FtDropout& g) {
  reader.Float("dtype", g.dtype).Size("rows", g.rows).Size("cols", g.cols);
  if (g.bias != nullptr) reader.Float("bias_dtype", g.bias_dtype);
  reader.AtLeast("sequence", g.sequence, 1).Size("first_row", g.first_row);
  reader.Probability(g.random.probability);
  const Extent all = Rows(g.rows, g.cols);
  reader.Tensors({Read("x", g.x, g.dtype, all, kOptional),
                  Read("bias", g.bias, g.bias_dtype, Row(g.cols), kOptional),
                  Read("residual", g.residual, g.dtype, all, kOptional),
                  Write("out", g.out, g.dtype, all, g.x != nullptr),
                  Plain("mask", g.mask, all, g.x == nullptr)});
}

void Describe(ArgumentReader& reader, FtDropoutBackward& g) {
  reader.Float("dtype", g.dtype).Size("elements", g.elements).Probability(g.probability);
  const Extent all = Row(g.elements);
  reader.Tensors({Read("dy", g.dy, g.dtype, all), Plain("mask", g.mask, all),
                  Write("dx", g.dx, g.dtype, all)});
}

void Describe(ArgumentReader& reader, FtGateForward& g) {
  reader.Float("dtype", g.dtype).Size("rows", g.rows).Size("cols", g.cols);
  const Extent all = Rows(g.rows, g.cols);
  reader.Tensors({Read("x", g.x, g.dtype, all), Plain("scores", g.scores, Row(g.rows)),
                  Sum("y", g.y, g.dtype, all, g.accumulate)});
}

void Describe(ArgumentReader& reader, FtGateBackward& g) {
  reader.Float("dtype", g.dtype).Size("rows", g.rows).Size("cols", g.cols);
  const Extent all = Rows(g.rows, g.cols);
  reader.Tensors({Read("dy", g.dy, g.dtype, all), Read("x", g.x, g.dtype, all),
                  Plain("scores", g.scores, Row(g.rows)), Write("dx", g.dx, g.dtype, all),
                  Plain("d_scores", g.d_scores, Row(g.rows))});
}

}  // namespace foretrain
