// Arguments of optimizer updates and of what decides them, of casts and of sums over ranks.
#include "kernels/arguments/describe.h"
#include "kernels/arguments/tensors.h"
#include "kernels/formats.h"

namespace foretrain {

void Describe(ArgumentReader& reader, FtSquaredNorm& g) {
  reader.Float("dtype", g.dtype).Size("elements", g.elements);
  reader.Tensors({Read("x", g.x, g.dtype, Row(g.elements)), Plain("out", g.out, Row(1))});
}

void Describe(ArgumentReader& reader, FtCountNotFinite& g) {
  reader.Float("dtype", g.dtype).Size("elements", g.elements);
  reader.Tensors({Read("x", g.x, g.dtype, Row(g.elements)), Plain("out", g.out, Row(1))});
}

void Describe(ArgumentReader& reader, FtCountSkipped& g) {
  reader.Tensors({Plain("not_finite", g.not_finite, Row(1)), Plain("skipped", g.skipped, Row(1))});
}

void Describe(ArgumentReader& reader, FtScaleLoss& g) {
  reader.AtLeast("growth_interval", g.growth_interval, 1);
  reader.Tensors({Plain("not_finite", g.not_finite, Row(1)),
                  Plain("loss_scale", g.loss_scale, Row(1)), Plain("since", g.since, Row(1))});
}

namespace {

// `weights` is written after the update, from the parameters.
template <class Update>
void Weights(ArgumentReader& reader, const Update& g) {
  if (g.weights != nullptr && (g.dtype != FT_F32 || !IsShort(g.weights_dtype))) {
    reader.Refuse(FT_UNSUPPORTED,
                  "weights of dtype %d beside parameters of dtype %d: only 16 bits beside fp32",
                  static_cast<int>(g.weights_dtype), static_cast<int>(g.dtype));
  }
}

// The parts that all updates of a range share.
template <class Update>
void Parameters(ArgumentReader& reader, Update& g) {
  reader.Float("dtype", g.dtype).Float("grad_dtype", g.grad_dtype);
  reader.Size("elements", g.elements).Size("decayed", g.decayed);
  reader.Tensors({ReadWrite("param", g.param, g.dtype, Row(g.elements)),
                  Read("grad", g.grad, g.grad_dtype, Row(g.elements))});
  Weights(reader, g);
}

}  // namespace

void Describe(ArgumentReader& reader, FtSgd& g) { Parameters(reader, g); }

// Kernels convert moments themselves.
void Describe(ArgumentReader& reader, FtMomentum& g) {
  Parameters(reader, g);
  reader.Tensors({Plain("moment1", g.moment1, Row(g.elements))});
  if (g.moments != FT_F32 && g.moments != FT_BF16) {
    reader.Refuse(FT_UNSUPPORTED, "moments of dtype %d: only f32 and bf16",
                  static_cast<int>(g.moments));
  }
}

void Describe(ArgumentReader& reader, FtAverage& g) {
  reader.Float("dtype", g.dtype).Size("elements", g.elements);
  reader.Tensors({Read("param", g.param, g.dtype, Row(g.elements)),
                  Plain("average", g.average, Row(g.elements))});
}

void Describe(ArgumentReader& reader, FtCombine& g) {
  reader.Float("x_dtype", g.x_dtype).Size("elements", g.elements);
  reader.Tensors(
      {Read("x", g.x, g.x_dtype, Row(g.elements)), Plain("out", g.out, Row(g.elements))});
}

// Rows and columns have their own sums and moments; a vector has those of its elements alone.
void Describe(ArgumentReader& reader, FtFactorSums& g) {
  reader.Float("dtype", g.dtype).Float("grad_dtype", g.grad_dtype);
  reader.Size("rows", g.rows).Size("cols", g.cols);
  const Extent all = Rows(g.rows, g.cols);
  reader.Tensors({Read("param", g.param, g.dtype, all), Read("grad", g.grad, g.grad_dtype, all),
                  Plain("row_sums", g.row_sums, Row(g.rows), g.rows > 1),
                  Plain("col_sums", g.col_sums, Row(g.cols)),
                  Plain("param_squares", g.param_squares, Row(1))});
}

void Describe(ArgumentReader& reader, FtFactorMoments& g) {
  reader.Size("rows", g.rows).Size("cols", g.cols).AtLeast("step", g.step, 1);
  const bool is_matrix = g.rows > 1;
  reader.Tensors({Plain("row_sums", g.row_sums, Row(g.rows), is_matrix),
                  Plain("col_sums", g.col_sums, Row(g.cols)),
                  Plain("moment1", g.moment1, Row(g.rows), is_matrix),
                  Plain("moment2", g.moment2, Row(g.cols)), Plain("row_mean", g.row_mean, Row(1))});
}

// The size of the update reads gradient and moments alone.
void Describe(ArgumentReader& reader, FtAdafactor& g) {
  reader.Float("grad_dtype", g.grad_dtype).Size("rows", g.rows).Size("cols", g.cols);
  const Extent all = Rows(g.rows, g.cols), one = Row(1);
  reader.Tensors({Read("grad", g.grad, g.grad_dtype, all),
                  Plain("moment1", g.moment1, Row(g.rows), g.rows > 1),
                  Plain("moment2", g.moment2, Row(g.cols)), Plain("row_mean", g.row_mean, one),
                  Plain("update_squares", g.update_squares, one)});
  if (reader.kernel() == FT_KERNEL_FACTOR_SIZE) return;
  reader.Float("dtype", g.dtype).AtLeast("step", g.step, 1).AtLeast("inner", g.inner, 1);
  reader.Tensors(
      {ReadWrite("param", g.param, g.dtype, all), Plain("param_squares", g.param_squares, one)});
  Weights(reader, g);
}

void Describe(ArgumentReader& reader, FtAdamW& g) {
  Parameters(reader, g);
  reader.AtLeast("step", g.step, 1);
  const Extent all = Row(g.elements);
  const bool codes = g.moments == FT_I8;
  reader.Tensors({Plain("moment1", g.moment1, all), Plain("moment2", g.moment2, all),
                  Plain("absmax1", g.absmax1, all, codes),
                  Plain("absmax2", g.absmax2, all, codes)});
  if (!codes && g.moments != FT_F32 && g.moments != FT_BF16) {
    reader.Refuse(FT_UNSUPPORTED, "moments of dtype %d: only f32, bf16 and i8",
                  static_cast<int>(g.moments));
  }
}

namespace {

// Amendments require fp32 throughout: other formats would round the correction off.
template <class Update>
void Amended(ArgumentReader& reader, Update& g) {
  Describe(reader, g);
  if (g.dtype != FT_F32 || g.grad_dtype != FT_F32) {
    reader.Refuse(FT_UNSUPPORTED, "dtype %d, grad_dtype %d: only f32", static_cast<int>(g.dtype),
                  static_cast<int>(g.grad_dtype));
  }
}

}  // namespace

void Describe(ArgumentReader& reader, FtAdamWAmend& g) {
  Amended(reader, g.update);
  if (g.update.moments != FT_F32) {
    reader.Refuse(FT_UNSUPPORTED, "moments of dtype %d: only f32",
                  static_cast<int>(g.update.moments));
  }
}

void Describe(ArgumentReader& reader, FtSgdAmend& g) { Amended(reader, g.update); }

// The quantized side is opaque bytes. Formats with scales need pieces of whole 4-byte words, so
// that the scales are aligned.
void Describe(ArgumentReader& reader, FtQuantize& g) {
  reader.Float("dtype", g.dtype).Size("elements", g.elements).AtLeast("pieces", g.pieces, 1);
  const Extent all = Row(g.elements);
  if (reader.kernel() == FT_KERNEL_QUANTIZE) {
    reader.Tensors({Read("x", g.x, g.dtype, all), Plain("out", g.out, all)});
  } else {
    reader.Tensors({Plain("x", g.x, all), Write("out", g.out, g.dtype, all)});
  }
  if (!reader.ok()) return;
  const bool scales = g.format == FT_FP8 || g.format == FT_I8;
  if (g.format == FT_NF4 && g.pieces != 1) {
    reader.Refuse(FT_UNSUPPORTED, "nf4 in %lld pieces: only 1", static_cast<long long>(g.pieces));
  } else if (!scales && !IsShort(g.format) && g.format != FT_NF4) {
    reader.Refuse(FT_UNSUPPORTED, "format %d: only bf16, f16, fp8, i8 and nf4",
                  static_cast<int>(g.format));
  } else if (scales && g.elements % (4 * g.pieces) != 0) {
    reader.Refuse(FT_FAILED, "%lld elements in %lld pieces: each must be a multiple of 4",
                  static_cast<long long>(g.elements), static_cast<long long>(g.pieces));
  } else if (g.elements % g.pieces != 0) {
    reader.Refuse(FT_FAILED, "%lld elements in %lld pieces: they do not divide",
                  static_cast<long long>(g.elements), static_cast<long long>(g.pieces));
  }
}

// Absmax, transposed codes and a given scale exist for one scale per tensor only.
void Describe(ArgumentReader& reader, FtQuantizeTensor& g) {
  reader.FloatOrCode("dtype", g.dtype).Size("rows", g.rows).Size("cols", g.cols);
  reader.Tensors({ReadCodes("x", g.x, g.dtype, Rows(g.rows, g.cols), g.x_scaling, g.x_scale),
                  Plain("scale", g.scale, Row(1))});
  if (!IsCode(g.format)) {
    reader.Refuse(FT_UNSUPPORTED, "format %d: only fp8 (5) and e5m2 (9)",
                  static_cast<int>(g.format));
  }
  if (g.scaling < FT_SCALE_TENSOR || g.scaling > FT_SCALE_TILES) {
    reader.Refuse(FT_UNSUPPORTED, "scaling %d", static_cast<int>(g.scaling));
  }
  const bool one = g.absmax != nullptr || g.transposed != nullptr || g.keep_scale != 0;
  if (g.scaling != FT_SCALE_TENSOR && one) {
    reader.Refuse(FT_FAILED, "absmax, transposed, keep_scale: of one scale for all alone");
  }
}

// The array of sources lies in host memory.
void Describe(ArgumentReader& reader, FtSumRanks& g) {
  reader.Float("dtype", g.dtype).Size("elements", g.elements).AtLeast("count", g.count, 1);
  const Extent all = Row(g.elements);
  reader.Tensors({Plain("out", g.out, all), Plain("sources", g.sources, all)});
  for (std::int32_t rank = 0; reader.ok() && g.elements > 0 && rank < g.count; ++rank) {
    reader.Tensors({Plain("a source", g.sources[rank], all)});
  }
}

}  // namespace foretrain
