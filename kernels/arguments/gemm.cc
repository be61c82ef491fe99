// Arguments of products and bias gradients, also of experts.
#include "kernels/arguments/describe.h"
#include "kernels/arguments/tensors.h"
#include "kernels/formats.h"

namespace foretrain {
namespace {

// Checks the epilogue. The backward of an activation needs its input.
void Epilogue(ArgumentReader& reader, FtGemm& g) {
  if (g.epilogue < FT_EPILOGUE_NONE || g.epilogue > FT_EPILOGUE_SLOPE) {
    reader.Refuse(FT_UNSUPPORTED, "epilogue %d", static_cast<int>(g.epilogue));
  }
  if (g.epilogue == FT_EPILOGUE_NONE) return;
  if (g.accumulate != 0) reader.Refuse(FT_FAILED, "epilogue: adds to nothing");
  if (g.activation < FT_GELU_TANH || g.activation > FT_SQUARED_RELU) {
    reader.Refuse(FT_UNSUPPORTED, "activation %d", static_cast<int>(g.activation));
  }
  if (g.epilogue == FT_EPILOGUE_SLOPE || g.aux != nullptr) reader.AtLeast("ld_aux", g.ld_aux, g.n);
  const Extent aux{g.m, g.n, g.ld_aux};
  reader.Tensors({g.epilogue == FT_EPILOGUE_SLOPE
                      ? Read("aux", g.aux, g.c_dtype, aux)
                      : Write("aux", g.aux, g.c_dtype, aux, kOptional)});
}

// Row sums come from a bias gradient, which needs a dense a.
void RowSums(ArgumentReader& reader, FtGemm& g) {
  if (g.row_sums == nullptr) return;
  reader.Float("row_sums_dtype", g.row_sums_dtype);
  if (g.trans_a == 0 || g.lda != g.m || g.bias != nullptr || g.epilogue != FT_EPILOGUE_NONE) {
    reader.Refuse(FT_FAILED, "row_sums: of a dense transposed a alone, without bias and epilogue");
  }
  reader.Tensors({Sum("row_sums", g.row_sums, g.row_sums_dtype, Row(g.m), g.accumulate)});
}

}  // namespace

// If c is empty, operands may be null.
void Describe(ArgumentReader& reader, FtGemm& g) {
  reader.FloatOrCode("dtype", g.dtype).Float("c_dtype", g.c_dtype);
  if (g.bias != nullptr) reader.Float("bias_dtype", g.bias_dtype);
  reader.Size("m", g.m).Size("n", g.n).Size("k", g.k);
  const Extent a = g.trans_a != 0 ? Extent{g.k, g.m, g.lda} : Extent{g.m, g.k, g.lda};
  const Extent b = g.trans_b != 0 ? Extent{g.n, g.k, g.ldb} : Extent{g.k, g.n, g.ldb};
  reader.AtLeast("lda", g.lda, a.cols).AtLeast("ldb", g.ldb, b.cols).AtLeast("ldc", g.ldc, g.n);
  if (g.compute != FT_F32 && (g.compute != FT_TF32 || g.dtype != FT_F32)) {
    reader.Refuse(FT_UNSUPPORTED, "compute %d: only f32 (0), and tf32 (10) of f32 numbers",
                  static_cast<int>(g.compute));
  }
  const bool codes = IsCode(g.dtype);
  if (!codes && (g.a_scale != nullptr || g.b_scale != nullptr)) {
    reader.Refuse(FT_FAILED, "a_scale, b_scale: only codes of 8 bits (dtype 5 and 9) have scales");
  }
  Epilogue(reader, g);
  RowSums(reader, g);
  const bool writes = g.m > 0 && g.n > 0;
  reader.Tensors(
      {ReadCodes("a", g.a, g.dtype, a, g.a_scaling, g.a_scale, writes || g.row_sums != nullptr),
       ReadCodes("b", g.b, codes ? FT_FP8 : g.dtype, b, g.b_scaling, g.b_scale, writes),
       Read("bias", g.bias, g.bias_dtype, Row(g.n), kOptional),
       Sum("c", g.c, g.c_dtype, {g.m, g.n, g.ldc}, g.accumulate)});
}

void Describe(ArgumentReader& reader, FtBiasGrad& g) {
  reader.Float("dtype", g.dtype).Float("grad_dtype", g.grad_dtype);
  reader.Size("rows", g.rows).Size("cols", g.cols);
  reader.Tensors({Read("dy", g.dy, g.dtype, Rows(g.rows, g.cols)),
                  Sum("grad", g.grad, g.grad_dtype, Row(g.cols), g.accumulate)});
}

namespace {

// Checks the runs of experts' rows.
template <class Arguments>
void Runs(ArgumentReader& reader, const Arguments& g) {
  reader.Size("rows", g.rows).AtLeast("experts", g.experts, 1);
  reader.AtLeast("groups", g.groups, g.experts).Size("count_stride", g.count_stride);
  if (reader.ok() && g.groups % g.experts != 0) {
    reader.Refuse(FT_FAILED, "groups %lld: must be a multiple of experts %lld",
                  static_cast<long long>(g.groups), static_cast<long long>(g.experts));
  }
  if (reader.ok() && g.counts == nullptr && g.rows % g.groups != 0) {
    reader.Refuse(FT_FAILED, "groups %lld: do not fit experts %lld and rows %lld",
                  static_cast<long long>(g.groups), static_cast<long long>(g.experts),
                  static_cast<long long>(g.rows));
  }
}

}  // namespace

// Rows after the last run keep their values, so c is read too.
void Describe(ArgumentReader& reader, FtGroupedGemm& g) {
  reader.FloatOrCode("dtype", g.dtype).Float("c_dtype", g.c_dtype);
  Runs(reader, g);
  reader.Size("out", g.out).Size("in", g.in);
  reader.Tensors({Plain("weights", &g, Rows(g.experts, g.out))});  // bounds the product
  if (!reader.ok()) return;
  const Extent weights = Rows(g.experts * g.out, g.in), in = Rows(g.rows, g.in),
               out = Rows(g.rows, g.out);
  const bool forward = g.mode == FT_GROUPED_FORWARD, weight = g.mode == FT_GROUPED_WEIGHT;
  reader.Tensors({ReadCodes("a", g.a, g.dtype, forward ? in : out, g.a_scaling, g.a_scale),
                  ReadCodes("b", g.b, IsCode(g.dtype) ? FT_FP8 : g.dtype, weight ? in : weights,
                            g.b_scaling, g.b_scale),
                  ReadWrite("c", g.c, g.c_dtype,
                            weight    ? weights
                            : forward ? out
                                      : in)});
}

// Rows after the last run keep their values.
void Describe(ArgumentReader& reader, FtExpertBias& g) {
  reader.Float("dtype", g.dtype).Float("bias_dtype", g.bias_dtype);
  Runs(reader, g);
  reader.Size("cols", g.cols);
  reader.Tensors({ReadWrite("x", g.x, g.dtype, Rows(g.rows, g.cols)),
                  Read("bias", g.bias, g.bias_dtype, Rows(g.experts, g.cols))});
}

void Describe(ArgumentReader& reader, FtExpertBiasGrad& g) {
  reader.Float("dtype", g.dtype).Float("grad_dtype", g.grad_dtype);
  Runs(reader, g);
  reader.Size("cols", g.cols);
  const Extent grad = Rows(g.experts, g.cols);
  reader.Tensors({Read("dy", g.dy, g.dtype, Rows(g.rows, g.cols)),
                  Sum("bias_grad", g.bias_grad, g.grad_dtype, grad, g.accumulate)});
}

}  // namespace foretrain
