// The gradient norm and AdamW.
#include "runtime/ops/kernel_call.h"

namespace foretrain {

KernelCall MakeSquaredNorm(const BoundOp& op) {
  KernelCall call;
  call.args.squared_norm = {.x = op.Pointer(0),
                            .out = op.Pointer<float>(1),
                            .elements = op.op.shape.elements,
                            .accumulate = op.op.accumulate,
                            .dtype = FT_F32};
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues&) { return api.squared_norm(queue, &args.squared_norm); };
  return call;
}

KernelCall MakeAdamW(const BoundOp& op, const OptimizerSettings& optimizer) {
  KernelCall call;
  call.args.adamw = {.param = op.Pointer(0),
                     .grad = op.Pointer(1),
                     .moment1 = op.Pointer<float>(2),
                     .moment2 = op.Pointer<float>(3),
                     .squared_norm = op.op.parameter > 0.0F ? op.Pointer<float>(4) : nullptr,
                     .elements = op.op.shape.elements,
                     .decayed = op.op.shape.decayed,
                     .step = 0,
                     .lr = 0.0F,
                     .beta1 = optimizer.beta1,
                     .beta2 = optimizer.beta2,
                     .epsilon = optimizer.epsilon,
                     .weight_decay = optimizer.weight_decay,
                     .max_norm = op.op.parameter,
                     .dtype = FT_F32};
  if (op.op.delayed) {
    call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                     const StepValues& values) {
      if (values.step == 0) return FT_OK;  // no gradient yet
      FtAdamW adamw = args.adamw;
      adamw.step = values.step;
      adamw.lr = values.learning_rate_before;
      return api.adamw(queue, &adamw);
    };
    return call;
  }
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues& values) {
    FtAdamW adamw = args.adamw;
    adamw.step = values.step + 1;  // bias correction counts from 1
    adamw.lr = values.learning_rate;
    return api.adamw(queue, &adamw);
  };
  return call;
}

}  // namespace foretrain
