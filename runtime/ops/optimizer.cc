// Kernel calls of optimizers: gradient norm, AdamW, SGD, and detection of non-finite gradients,
// which skips a step.
#include "base/hash.h"
#include "runtime/ops/kernel_makers.h"

namespace foretrain {
namespace {

// Sum of squares of a bucket, the local part of the global gradient norm.
KernelCall MakeSquaredNorm(const BoundOp& op) {
  return Call<&FtDeviceApi::squared_norm>({.x = op.Pointer("x"),
                                           .out = op.Pointer<float>("out"),
                                           .elements = op.op.shape.elements,
                                           .accumulate = op.op.accumulate,
                                           .dtype = op.Dtype("x")});
}

// Any format but fp32 and bf16 is 8 bits with a scale for each block.
FtDtype DtypeOfMoments(NumberFormat format) {
  if (format == NumberFormat::kFp32) return FT_F32;
  return format == NumberFormat::kBf16 ? FT_BF16 : FT_I8;
}

// Seed of the stochastic rounding of bf16 weights without an fp32 master; 0 for other weights,
// which round to nearest. The lowest bit is set so that no seed is 0.
std::uint32_t NoiseOf(const BoundOp& op) {
  if (op.Dtype("param") != FT_BF16) return 0;
  return static_cast<std::uint32_t>(
             StableHash().Add(op.optimizer.seed).Add(op.micro_batch).Value()) |
         1U;
}
std::uint32_t NoiseOfStep(std::uint32_t noise, std::int64_t step) {
  if (noise == 0) return 0;
  return static_cast<std::uint32_t>(StableHash().Add(noise).Add(step).Value()) | 1U;
}

// Squared gradient norm for clipping; null if the plan does not clip.
const float* NormOf(const BoundOp& op, OperandName name) {
  return op.op.Get(Attribute::kClipNorm) > 0.0F ? op.Pointer<float>(name) : nullptr;
}

// Arguments that an update and its amendment share. Step and learning rate are set at launch.
FtAdamW AdamWOf(const BoundOp& op) {
  const OptimizerSettings& optimizer = op.optimizer;
  return {.param = op.Pointer("param"),
          .grad = op.Pointer("grad"),
          .moment1 = op.Pointer("moment1"),
          .moment2 = op.Pointer("moment2"),
          .absmax1 = nullptr,
          .absmax2 = nullptr,
          .squared_norm = NormOf(op, "squared_norm"),
          .not_finite = op.Pointer<float>("not_finite"),
          .skipped = op.Pointer<float>("skipped"),
          .elements = op.op.shape.elements,
          .decayed = op.op.shape.decayed,
          .step = 0,
          .lr = 0.0F,
          .beta1 = optimizer.beta1,
          .beta2 = optimizer.beta2,
          .epsilon = optimizer.epsilon,
          .weight_decay = optimizer.weight_decay,
          .max_norm = op.op.Get(Attribute::kClipNorm),
          .loss_scale = op.op.Get(Attribute::kLossScale),
          .moments = DtypeOfMoments(op.op.format),
          .dtype = op.Dtype("param"),
          .grad_dtype = op.Dtype("grad"),
          .weights_dtype = FT_F32,
          .weights = nullptr,
          .loss_scale_state = nullptr,
          .noise = NoiseOf(op)};
}

// The same for SGD, which has no moments and no step number.
FtSgd SgdOf(const BoundOp& op) {
  return {.param = op.Pointer("param"),
          .grad = op.Pointer("grad"),
          .squared_norm = NormOf(op, "squared_norm"),
          .not_finite = op.Pointer<float>("not_finite"),
          .elements = op.op.shape.elements,
          .decayed = op.op.shape.decayed,
          .lr = 0.0F,
          .weight_decay = op.optimizer.weight_decay,
          .max_norm = op.op.Get(Attribute::kClipNorm),
          .loss_scale = op.op.Get(Attribute::kLossScale),
          .dtype = op.Dtype("param"),
          .grad_dtype = op.Dtype("grad"),
          .weights_dtype = FT_F32,
          .weights = nullptr,
          .loss_scale_state = nullptr,
          .noise = NoiseOf(op)};
}

// Sets the arguments that an amendment lacks: the 16-bit weights and the dynamic loss scale.
template <class Update>
void SetWeights(const BoundOp& op, Update& update) {
  update.weights_dtype = op.Dtype("weights");
  update.weights = op.Pointer("weights");
  update.loss_scale_state = op.Pointer<float>("loss_scale");
}

// A delayed update uses the previous step's gradients, learning rate and step number. Its first
// step has no gradients and only casts the loaded master weights.
KernelCall MakeAdamW(const BoundOp& op) {
  KernelCall call;
  FtAdamW update = AdamWOf(op);
  update.absmax1 = op.Pointer<float>("absmax1");
  update.absmax2 = op.Pointer<float>("absmax2");
  SetWeights(op, update);
  call.args = AdamWCall{update, op.op.updates > 1 ? op.micro_batch : 0, op.op.updates};
  if (op.op.delayed) {
    call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                     const StepValues& values) {
      FtAdamW adamw = args.As<AdamWCall>().adamw;
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
    FtAdamW adamw = args.As<AdamWCall>().adamw;
    // bias correction counts from 1
    adamw.step = values.step * args.As<AdamWCall>().updates + args.As<AdamWCall>().update + 1;
    adamw.noise = NoiseOfStep(adamw.noise, adamw.step);
    adamw.lr = values.learning_rate;
    return api.adamw(queue, &adamw);
  };
  return call;
}

// SGD has no bias correction, so the step only seeds the rounding.
KernelCall MakeSgd(const BoundOp& op) {
  KernelCall call;
  FtSgd update = SgdOf(op);
  SetWeights(op, update);
  call.args = update;
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues& values) {
    FtSgd sgd = args.As<FtSgd>();
    sgd.noise = NoiseOfStep(sgd.noise, values.step);
    sgd.lr = values.learning_rate;
    return api.sgd(queue, &sgd);
  };
  return call;
}

// Corrects an update that ran before the global norm was known (post-validation): norm and
// found_inf as assumed then (`_then`) and as they are now.
KernelCall MakeAdamWAmend(const BoundOp& op) {
  KernelCall call;
  call.args = FtAdamWAmend{.update = AdamWOf(op),
                           .squared_norm_then = NormOf(op, "squared_norm_then"),
                           .not_finite_then = op.Pointer<float>("not_finite_then")};
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues& values) {
    FtAdamWAmend amend = args.As<FtAdamWAmend>();
    amend.update.step = values.step + 1;
    amend.update.lr = values.learning_rate;
    return api.adamw_amend(queue, &amend);
  };
  return call;
}

KernelCall MakeSgdAmend(const BoundOp& op) {
  KernelCall call;
  call.args = FtSgdAmend{.update = SgdOf(op),
                         .squared_norm_then = NormOf(op, "squared_norm_then"),
                         .not_finite_then = op.Pointer<float>("not_finite_then")};
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues& values) {
    FtSgdAmend amend = args.As<FtSgdAmend>();
    amend.update.lr = values.learning_rate;
    return api.sgd_amend(queue, &amend);
  };
  return call;
}

// found_inf as a count, because a sum over ranks then says whether any rank has one.
KernelCall MakeCountNotFinite(const BoundOp& op) {
  return Call<&FtDeviceApi::count_not_finite>({.x = op.Pointer("x"),
                                               .out = op.Pointer<float>("out"),
                                               .elements = op.op.shape.elements,
                                               .accumulate = op.op.accumulate,
                                               .dtype = op.Dtype("x")});
}

// The count of skipped steps lets AdamW's bias correction leave them out.
KernelCall MakeCountSkipped(const BoundOp& op) {
  return Call<&FtDeviceApi::count_skipped>(
      {.not_finite = op.Pointer<float>("not_finite"), .skipped = op.Pointer<float>("skipped")});
}

// Dynamic loss scaling: the state is the number of doublings and the steps since the last change.
KernelCall MakeScaleLoss(const BoundOp& op) {
  return Call<&FtDeviceApi::scale_loss>(
      {.not_finite = op.Pointer<float>("not_finite"),
       .doublings = op.Pointer<float>("loss_scale"),
       .since = op.Pointer<float>("since"),
       .initial = op.op.Get(Attribute::kInitialScale),
       .window = static_cast<std::int64_t>(op.op.Get(Attribute::kGrowthInterval))});
}

}  // namespace

std::span<const KernelMaker> OptimizerMakers() {
  static constexpr std::array kMakers = {
      MakerOf<&FtDeviceApi::squared_norm>(OpKind::kSquaredNorm, &MakeSquaredNorm),
      MakerOf<&FtDeviceApi::adamw>(OpKind::kAdamW, &MakeAdamW),
      MakerOf<&FtDeviceApi::sgd>(OpKind::kSgd, &MakeSgd),
      MakerOf<&FtDeviceApi::adamw_amend>(OpKind::kAdamWAmend, &MakeAdamWAmend),
      MakerOf<&FtDeviceApi::sgd_amend>(OpKind::kSgdAmend, &MakeSgdAmend),
      MakerOf<&FtDeviceApi::count_not_finite>(OpKind::kCountNotFinite, &MakeCountNotFinite),
      MakerOf<&FtDeviceApi::count_skipped>(OpKind::kCountSkipped, &MakeCountSkipped),
      MakerOf<&FtDeviceApi::scale_loss>(OpKind::kScaleLoss, &MakeScaleLoss),
  };
  return kMakers;
}

}  // namespace foretrain
