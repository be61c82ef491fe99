// Kernel calls of optimizers: AdamW, SGD, momentum, Lion, Adafactor, and the amendments of the
// first two.
#include "base/hash.h"
#include "runtime/ops/bind_arguments.h"
#include "runtime/ops/kernel_makers.h"

namespace foretrain {
namespace {

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

// Arguments of an update or its amendment; step, learning rate and noise are set at launch. The
// dynamic loss scale is read by updates only.
template <class Update>
Update UpdateOf(const BoundOp& op) {
  auto g = BindArguments<Update>(op);
  g.squared_norm = NormOf(op, "squared_norm");
  g.loss_scale_state = static_cast<const float*>(op.AddressOf("loss_scale"));
  g.weight_decay = op.optimizer.weight_decay;
  g.noise = NoiseOf(op);
  if constexpr (requires { g.moments; }) {
    g.moments = DtypeOfMoments(op.op.format);
    g.beta1 = op.optimizer.beta1;
    g.beta2 = op.optimizer.beta2;
  }
  if constexpr (requires { g.epsilon; }) g.epsilon = op.optimizer.epsilon;
  return g;
}

// The first step of a delayed update has no gradients: it only casts the loaded master weights.
template <class Update>
FtStatus CastMaster(const FtDeviceApi& api, FtQueue* queue, const Update& g) {
  if (g.weights == nullptr) return FT_OK;
  const FtQuantize cast{g.param, g.weights, g.elements, /*pieces=*/1, g.weights_dtype, g.dtype};
  return api.quantize(queue, &cast);
}

// A delayed update uses the previous step's gradients, learning rate and step number.
KernelCall MakeAdamW(const BoundOp& op) {
  KernelCall call;
  call.args =
      AdamWCall{UpdateOf<FtAdamW>(op), op.op.updates > 1 ? op.micro_batch : 0, op.op.updates};
  if (op.op.delayed) {
    call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                     const StepValues& values) {
      FtAdamW adamw = args.As<AdamWCall>().adamw;
      if (values.step == 0) return CastMaster(api, queue, adamw);
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
  call.args = UpdateOf<FtSgd>(op);
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues& values) {
    FtSgd sgd = args.As<FtSgd>();
    sgd.noise = NoiseOfStep(sgd.noise, values.step);
    sgd.lr = values.learning_rate;
    return api.sgd(queue, &sgd);
  };
  return call;
}

// Momentum and Lion, likewise without bias correction; a delayed update as AdamW's.
template <auto entry>
KernelCall MakeMomentum(const BoundOp& op) {
  KernelCall call;
  call.args = UpdateOf<FtMomentum>(op);
  if (op.op.delayed) {
    call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                     const StepValues& values) {
      FtMomentum g = args.As<FtMomentum>();
      if (values.step == 0) return CastMaster(api, queue, g);
      g.noise = NoiseOfStep(g.noise, values.step);
      g.lr = values.learning_rate_before;
      return (api.*entry)(queue, &g);
    };
    return call;
  }
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues& values) {
    FtMomentum g = args.As<FtMomentum>();
    g.noise = NoiseOfStep(g.noise, values.step);
    g.lr = values.learning_rate;
    return (api.*entry)(queue, &g);
  };
  return call;
}

// Steps count from 1: the rate of the moments falls with them.
KernelCall MakeFactorMoments(const BoundOp& op) {
  KernelCall call;
  call.args = BindArguments<FtFactorMoments>(op);
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues& values) {
    FtFactorMoments moments = args.As<FtFactorMoments>();
    moments.step = values.step + 1;
    return api.factor_moments(queue, &moments);
  };
  return call;
}

KernelCall MakeAdafactor(const BoundOp& op) {
  auto g = BindArguments<FtAdafactor>(op);
  g.squared_norm = NormOf(op, "squared_norm");
  g.weight_decay = op.optimizer.weight_decay;
  g.decays = op.op.shape.decayed > 0 ? 1 : 0;
  g.noise = NoiseOf(op);
  KernelCall call;
  call.args = g;
  call.launch = [](const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                   const StepValues& values) {
    FtAdafactor adafactor = args.As<FtAdafactor>();
    adafactor.step = values.step + 1;
    adafactor.noise = NoiseOfStep(adafactor.noise, adafactor.step);
    adafactor.lr = values.learning_rate;
    return api.adafactor(queue, &adafactor);
  };
  return call;
}

// Corrects an update that ran before the global norm was known (post-validation): norm and
// found_inf as assumed then (`_then`) and as they are now.
KernelCall MakeAdamWAmend(const BoundOp& op) {
  KernelCall call;
  call.args = FtAdamWAmend{.update = UpdateOf<FtAdamW>(op),
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
  call.args = FtSgdAmend{.update = UpdateOf<FtSgd>(op),
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

}  // namespace

std::span<const KernelMaker> OptimizerMakers() {
  static constexpr std::array kMakers = {
      KernelMaker{OpKind::kAdamW, &MakeAdamW},
      KernelMaker{OpKind::kSgd, &MakeSgd},
      KernelMaker{OpKind::kMomentum, &MakeMomentum<&FtDeviceApi::momentum>},
      KernelMaker{OpKind::kLion, &MakeMomentum<&FtDeviceApi::lion>},
      KernelMaker{OpKind::kFactorMoments, &MakeFactorMoments},
      KernelMaker{OpKind::kAdafactor, &MakeAdafactor},
      KernelMaker{OpKind::kAdamWAmend, &MakeAdamWAmend},
      KernelMaker{OpKind::kSgdAmend, &MakeSgdAmend},
  };
  return kMakers;
}

}  // namespace foretrain
