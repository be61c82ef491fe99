// CPU entries of elementwise ops. An entry checks its arguments and refuses bad ones with a
// message; the kernel that it then calls assumes valid arguments.
#include <cstdint>

#include "kernels/cpu/entries/check.h"
#include "kernels/cpu/entries/families.h"

namespace foretrain {
namespace {

// Refuses an activation or gate outside the enum of its kernel.
void CheckActivation(Check& check, bool known, int activation) {
  if (!known) check.Refuse(FT_UNSUPPORTED, "activation %d", activation);
}
// Both enums are checked by range, because callers in C may pass any integer.
bool IsPlain(FtActivation a) { return a >= FT_GELU_TANH && a <= FT_SQUARED_RELU; }
bool IsGate(FtGate gate) { return gate >= FT_GATE_SILU && gate <= FT_GATE_CLAMPED; }

// queue->kernels are the kernels for this machine's instruction set.
FtStatus GeluForward(FtQueue* queue, const FtGelu* g) {
  Check check(queue, "gelu_forward", g->dtype);
  CheckActivation(check, IsPlain(g->activation), static_cast<int>(g->activation));
  check.Size("elements", g->elements)
      .Tensor("x", g->x, g->elements)
      .Tensor("out", g->out, g->elements);
  if (check.ok()) {
    queue->kernels->gelu_forward(*g);
  }
  return check.status();
}

FtStatus GeluBackward(FtQueue* queue, const FtGelu* g) {
  Check check(queue, "gelu_backward", g->dtype);
  CheckActivation(check, IsPlain(g->activation), static_cast<int>(g->activation));
  check.Size("elements", g->elements)
      .Tensor("x", g->x, g->elements)
      .Tensor("dy", g->dy, g->elements);
  check.Tensor("out", g->out, g->elements);
  if (check.ok()) {
    queue->kernels->gelu_backward(*g);
  }
  return check.status();
}

// x has 2 * cols columns, gate and up side by side; its check by cols still bounds the product.
FtStatus SwigluForward(FtQueue* queue, const FtSwiglu* g) {
  Check check(queue, "swiglu_forward", g->dtype);
  CheckActivation(check, IsGate(g->gate), static_cast<int>(g->gate));
  check.Size("rows", g->rows).Size("cols", g->cols);
  check.Tensor("x", g->x, g->rows, g->cols).Tensor("out", g->out, g->rows, g->cols);
  if (check.ok()) {
    queue->kernels->swiglu_forward(*g);
  }
  return check.status();
}

// out holds the gradients of gate and up, and so has 2 * cols columns.
FtStatus SwigluBackward(FtQueue* queue, const FtSwiglu* g) {
  Check check(queue, "swiglu_backward", g->dtype);
  CheckActivation(check, IsGate(g->gate), static_cast<int>(g->gate));
  check.Size("rows", g->rows).Size("cols", g->cols);
  check.Tensor("x", g->x, g->rows, g->cols)
      .Tensor("dy", g->dy, g->rows, g->cols)
      .Tensor("out", g->out, g->rows, g->cols);
  if (check.ok()) {
    queue->kernels->swiglu_backward(*g);
  }
  return check.status();
}

// The bias is optional, so it is not checked for null.
FtStatus Add(FtQueue* queue, const FtAdd* g) {
  Check check(queue, "add", g->dtype);
  check.Size("rows", g->rows).Size("cols", g->cols);
  check.Tensor("a", g->a, g->rows, g->cols)
      .Tensor("b", g->b, g->rows, g->cols)
      .Tensor("out", g->out, g->rows, g->cols);
  if (check.ok()) {
    queue->kernels->add(*g);
  }
  return check.status();
}

// In place: x = cap * tanh(x / cap). A cap of 0 would divide by zero; NaN fails the comparison too.
FtStatus Softcap(FtQueue* queue, const FtSoftcap* g) {
  Check check(queue, "softcap", g->dtype);
  check.Size("elements", g->elements).Tensor("x", g->x, g->elements);
  if (!(g->cap > 0.0F)) {
    check.Refuse(FT_FAILED, "cap %g: must be above 0", static_cast<double>(g->cap));
  }
  if (check.ok()) {
    queue->kernels->softcap(*g);
  }
  return check.status();
}

}  // namespace

void SetActivationEntries(FtDeviceApi& api) {
  api.gelu_forward = &GeluForward;
  api.gelu_backward = &GeluBackward;
  api.swiglu_forward = &SwigluForward;
  api.swiglu_backward = &SwigluBackward;
  api.add = &Add;
  api.softcap = &Softcap;
}

}  // namespace foretrain
