// The gradient norm, AdamW and SGD, and what lets them skip a step.
#include "base/hash.h"
#include "runtime/ops/kernel_call.h"

namespace foretrain {

KernelCall MakeSquaredNorm(const BoundOp& op) {
  KernelCall call;
  call.args.squared_norm = {.x = op.Pointer(0),
                            .out = op.Pointer<float>(1),
                            .elements = op.op.shape.elements,
                            .accumulate = op.op.accumulate,
                            .dtype = op.Dtype(0)};
  call.launch = CallOf<&FtDeviceApi::squared_norm, &KernelArgs::squared_norm>;
  return call;
}

namespace {

FtDtype DtypeOfMoments(NumberFormat format) {
  if (format == NumberFormat::kFp32) return FT_F32;
  return format == NumberFormat::kBf16 ? FT_BF16 : FT_I8;
}

}  // namespace

namespace {

// bf16 weights without a master are rounded with another noise in each update; others have none, 0.
std::uint32_t NoiseOf(const BoundOp& op, const OptimizerSettings& optimizer) {
  if (op.Dtype(0) != FT_BF16) return 0;
  return static_cast<std::uint32_t>(StableHash().Add(optimizer.seed).Add(op.micro_batch).Value()) |
         1U;
}
std::uint32_t NoiseOfStep(std::uint32_t noise, std::int64_t step) {
  if (noise == 0) return 0;
  return static_cast<std::uint32_t>(StableHash().Add(noise).Add(step).Value()) | 1U;
}

// `scales`: operands 7 and 8 are scales of moments, 9 the weights, 10 what the loss's scale has
// become; an amendment has others there.
FtAdamW AdamWOf(const BoundOp& op, const OptimizerSettings& optimizer, bool scales) {
  return {.param = op.Pointer(0),
          .grad = op.Pointer(1),
          .moment1 = op.Pointer(2),
          .moment2 = op.Pointer(3),
          .absmax1 = scales ? op.Pointer<float>(7) : nullptr,
          .absmax2 = scales ? op.Pointer<float>(8) : nullptr,
          .squared_norm = op.op.parameter > 0.0F ? op.Pointer<float>(4) : nullptr,
          .not_finite = op.Pointer<float>(5),
          .skipped = op.Pointer<float>(6),
          .elements = op.op.shape.elements,
          .decayed = op.op.shape.decayed,
          .step = 0,
          .lr = 0.0F,
          .beta1 = optimizer.beta1,
          .beta2 = optimizer.beta2,
          .epsilon = optimizer.epsilon,
          .weight_decay = optimizer.weight_decay,
          .max_norm = op.op.parameter,
          .loss_scale = op.op.scale,
          .moments = DtypeOfMoments(op.op.format),
          .dtype = op.Dtype(0),
          .grad_dtype = op.Dtype(1),
          .weights_dtype = scales ? op.Dtype(9) : FT_F32,
          .weights = scales ? op.Pointer(9) : nullptr,
          .loss_scale_state = scales ? op.Pointer<float>(10) : nullptr,
          .noise = NoiseOf(op, optimizer)};
}

FtSgd SgdOf(const BoundOp& op, const OptimizerSettings& optimizer, bool weights) {
  return {.param = op.Pointer(0),
          .grad = op.Pointer(1),
          .squared_norm = op.op.parameter > 0.0F ? op.Pointer<float>(2) : nullptr,
          .not_finite = op.Pointer<float>(3),
          .elements = op.op.shape.elements,
          .decayed = op.op.shape.decayed,
          .lr = 0.0F,
          .weight_decay = optimizer.weight_decay,
          .max_norm = op.op.parameter,
          .loss_scale = op.op.scale,
          .dtype = op.Dtype(0),
          .grad_dtype = op.Dtype(1),
          .weights_dtype = weights ? op.Dtype(4) : FT_F32,
          .weights = weights ? op.Pointer(4) : nullptr,
          .loss_scale_state = weights ? op.Pointer<float>(5) : nullptr,
          .noise = NoiseOf(op, optimizer)};
}

}  // namespace

KernelCall MakeAdamW(const BoundOp& op, const OptimizerSettings& optimizer) {
  KernelCall call;
  const FtAdamW update = AdamWOf(op, optimizer, /*scales=*/true);
  call.args.adamw = {update, op.op.updates > 1 ? op.micro_batch : 0, op.op.updates};
  if (op.op.delayed) {
    call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                     const StepValues& values) {
      FtAdamW adamw = args.adamw.adamw;
      if (values.step == 0) {  // no gradient yet: the weights are the master that was loaded
        if (adamw.weights == nullptr) return FT_OK;
        const FtQuantize cast{adamw.param,  adamw.weights,       adamw.elements,
                              /*pieces=*/1, adamw.weights_dtype, adamw.dtype};
        return api.quantize(queue, &cast);
      }
      adamw.step = values.step;
      adamw.noise = NoiseOfStep(adamw.noise, adamw.step);
      adamw.lr = values.learning_rate_before;
      return api.adamw(queue, &adamw);
    };
    return call;
  }
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues& values) {
    FtAdamW adamw = args.adamw.adamw;
    // bias correction counts from 1
    adamw.step = values.step * args.adamw.updates + args.adamw.update + 1;
    adamw.noise = NoiseOfStep(adamw.noise, adamw.step);
    adamw.lr = values.learning_rate;
    return api.adamw(queue, &adamw);
  };
  return call;
}

KernelCall MakeSgd(const BoundOp& op, const OptimizerSettings& optimizer) {
  KernelCall call;
  call.args.sgd = SgdOf(op, optimizer, /*weights=*/true);
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues& values) {
    FtSgd sgd = args.sgd;
    sgd.noise = NoiseOfStep(sgd.noise, values.step);
    sgd.lr = values.learning_rate;
    return api.sgd(queue, &sgd);
  };
  return call;
}

KernelCall MakeAdamWAmend(const BoundOp& op, const OptimizerSettings& optimizer) {
  KernelCall call;
  call.args.adamw_amend = {
      .update = AdamWOf(op, optimizer, /*scales=*/false),
      .squared_norm_then = op.op.parameter > 0.0F ? op.Pointer<float>(7) : nullptr,
      .not_finite_then = op.Pointer<float>(8)};
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues& values) {
    FtAdamWAmend amend = args.adamw_amend;
    amend.update.step = values.step + 1;
    amend.update.lr = values.learning_rate;
    return api.adamw_amend(queue, &amend);
  };
  return call;
}

KernelCall MakeSgdAmend(const BoundOp& op, const OptimizerSettings& optimizer) {
  KernelCall call;
  call.args.sgd_amend = {
      .update = SgdOf(op, optimizer, /*weights=*/false),
      .squared_norm_then = op.op.parameter > 0.0F ? op.Pointer<float>(4) : nullptr,
      .not_finite_then = op.Pointer<float>(5)};
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues& values) {
    FtSgdAmend amend = args.sgd_amend;
    amend.update.lr = values.learning_rate;
    return api.sgd_amend(queue, &amend);
  };
  return call;
}

KernelCall MakeCountNotFinite(const BoundOp& op) {
  KernelCall call;
  call.args.count_not_finite = {.x = op.Pointer(0),
                                .out = op.Pointer<float>(1),
                                .elements = op.op.shape.elements,
                                .accumulate = op.op.accumulate,
                                .dtype = op.Dtype(0)};
  call.launch = CallOf<&FtDeviceApi::count_not_finite, &KernelArgs::count_not_finite>;
  return call;
}

KernelCall MakeCountSkipped(const BoundOp& op) {
  KernelCall call;
  call.args.count_skipped = {.not_finite = op.Pointer<float>(0), .skipped = op.Pointer<float>(1)};
  call.launch = CallOf<&FtDeviceApi::count_skipped, &KernelArgs::count_skipped>;
  return call;
}

KernelCall MakeScaleLoss(const BoundOp& op) {
  KernelCall call;
  call.args.scale_loss = {.not_finite = op.Pointer<float>(0),
                          .doublings = op.Pointer<float>(1),
                          .since = op.Pointer<float>(2),
                          .initial = op.op.scale,
                          .window = static_cast<std::int64_t>(op.op.parameter)};
  call.launch = CallOf<&FtDeviceApi::scale_loss, &KernelArgs::scale_loss>;
  return call;
}

}  // namespace foretrain
