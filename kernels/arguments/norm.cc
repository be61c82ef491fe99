// Arguments of norms over rows and over heads.
#include "kernels/arguments/describe.h"
#include "kernels/arguments/tensors.h"

namespace foretrain {

// The norm of a row needs at least one column. RMSNorm has no mean.
void Describe(ArgumentReader& reader, FtNormForward& g) {
  reader.Float("dtype", g.dtype).Float("weight_dtype", g.weight_dtype);
  reader.Size("rows", g.rows).AtLeast("cols", g.cols, 1);
  const Extent all = Rows(g.rows, g.cols);
  reader.Tensors({Read("x", g.x, g.dtype, all), Write("y", g.y, g.dtype, all),
                  Plain("rstd", g.rstd, Row(g.rows)),
                  Plain("mean", g.mean, Row(g.rows), g.rms == 0),
                  Read("weight", g.weight, g.weight_dtype, Row(g.cols)),
                  Read("bias", g.bias, g.weight_dtype, Row(g.cols), kOptional)});
}

void Describe(ArgumentReader& reader, FtAddNormForward& g) {
  reader.Float("dtype", g.dtype).Float("weight_dtype", g.weight_dtype);
  reader.Size("rows", g.rows).AtLeast("cols", g.cols, 1);
  const Extent all = Rows(g.rows, g.cols), row = Row(g.cols);
  reader.Tensors({Read("a", g.a, g.dtype, all), Read("b", g.b, g.dtype, all),
                  Write("sum", g.sum, g.dtype, all), Write("y", g.y, g.dtype, all),
                  Plain("rstd", g.rstd, Row(g.rows)),
                  Plain("mean", g.mean, Row(g.rows), g.rms == 0),
                  Read("weight", g.weight, g.weight_dtype, row),
                  Read("bias", g.bias, g.weight_dtype, row, kOptional),
                  Read("norm_bias", g.norm_bias, g.weight_dtype, row, kOptional)});
}

void Describe(ArgumentReader& reader, FtNormBackwardInput& g) {
  reader.Float("dtype", g.dtype).Float("weight_dtype", g.weight_dtype);
  reader.Size("rows", g.rows).AtLeast("cols", g.cols, 1);
  const Extent all = Rows(g.rows, g.cols);
  reader.Tensors(
      {Read("dy", g.dy, g.dtype, all), Read("x", g.x, g.dtype, all),
       Write("dx", g.dx, g.dtype, all), Read("weight", g.weight, g.weight_dtype, Row(g.cols)),
       Plain("rstd", g.rstd, Row(g.rows)), Plain("mean", g.mean, Row(g.rows), g.rms == 0),
       Read("residual", g.residual, g.dtype, all, kOptional)});
}

void Describe(ArgumentReader& reader, FtNormBackwardWeight& g) {
  reader.Float("dtype", g.dtype).Float("grad_dtype", g.grad_dtype);
  reader.Size("rows", g.rows).AtLeast("cols", g.cols, 1);
  const Extent all = Rows(g.rows, g.cols), row = Row(g.cols);
  reader.Tensors({Read("dy", g.dy, g.dtype, all), Read("x", g.x, g.dtype, all),
                  Plain("rstd", g.rstd, Row(g.rows)),
                  Plain("mean", g.mean, Row(g.rows), g.rms == 0),
                  Sum("weight_grad", g.weight_grad, g.grad_dtype, row, g.accumulate),
                  Sum("bias_grad", g.bias_grad, g.grad_dtype, row, g.accumulate, kOptional)});
}

namespace {

// Extents of norms over heads.
struct HeadExtents {
  Extent heads, rstd, q_weight, k_weight;
};

// Checks the sizes of norms over heads.
template <class Arguments>
HeadExtents HeadsOf(ArgumentReader& reader, Arguments& g) {
  reader.Float("dtype", g.dtype).Size("rows", g.rows);
  reader.Size("heads", g.heads).Size("kv_heads", g.kv_heads).HeadDim("head_dim", g.head_dim);
  const std::int64_t all = std::int64_t{g.heads} + g.kv_heads, dim = g.head_dim;
  const bool whole = g.whole != 0;
  return {Rows(g.rows * all, dim), Row(g.rows * (whole ? 2 : all)),
          Row(whole ? g.heads * dim : dim), Row(whole ? g.kv_heads * dim : dim)};
}
// Extent of the rows that hold the query heads, then the key heads.
template <class Arguments>
Extent PackedRows(ArgumentReader& reader, const Arguments& g) {
  const std::int64_t cols = (std::int64_t{g.heads} + g.kv_heads) * std::int64_t{g.head_dim};
  reader.AtLeast("row_stride", g.row_stride, cols);
  return {g.rows, cols, g.row_stride};
}

}  // namespace

void Describe(ArgumentReader& reader, FtHeadNormForward& g) {
  const HeadExtents of = HeadsOf(reader, g);
  const Extent data = PackedRows(reader, g);
  reader.Tensors({Write("kept", g.kept, g.dtype, of.heads), Plain("rstd", g.rstd, of.rstd),
                  ReadWrite("qkv", g.qkv, g.dtype, data),
                  Read("q_weight", g.q_weight, g.dtype, of.q_weight, kOptional),
                  Read("k_weight", g.k_weight, g.dtype, of.k_weight, kOptional)});
}

void Describe(ArgumentReader& reader, FtHeadNormBackwardInput& g) {
  const HeadExtents of = HeadsOf(reader, g);
  const Extent data = PackedRows(reader, g);
  reader.Tensors({Read("kept", g.kept, g.dtype, of.heads), Plain("rstd", g.rstd, of.rstd),
                  ReadWrite("dqkv", g.dqkv, g.dtype, data),
                  Read("q_weight", g.q_weight, g.dtype, of.q_weight, kOptional),
                  Read("k_weight", g.k_weight, g.dtype, of.k_weight, kOptional),
                  Write("kept_grad", g.kept_grad, g.dtype, of.heads, kOptional)});
}

void Describe(ArgumentReader& reader, FtHeadNormBackwardWeight& g) {
  const HeadExtents of = HeadsOf(reader, g);
  reader.Tensors({Read("kept", g.kept, g.dtype, of.heads), Plain("rstd", g.rstd, of.rstd),
                  Read("kept_grad", g.kept_grad, g.dtype, of.heads),
                  Sum("q_weight_grad", g.q_weight_grad, g.dtype, of.q_weight, g.accumulate),
                  Sum("k_weight_grad", g.k_weight_grad, g.dtype, of.k_weight, g.accumulate)});
}

}  // namespace foretrain
