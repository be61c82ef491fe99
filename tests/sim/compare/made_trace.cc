#include "tests/sim/compare/made_trace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <utility>

#include "sim/program/ir/program.h"
#include "traces/import/op_ids.h"

namespace foretrain {
namespace {

struct Kernel {
  std::string name;
  OpClass op_class = OpClass::kMemoryBound;
  double share = 1;  // of the op's time
};

bool Speaks(const std::string& name, std::string_view of) {
  return name.find(of) != std::string::npos;
}

constexpr OpClass kLight = OpClass::kMemoryBound, kProduct = OpClass::kGemm;
constexpr OpClass kFlash = OpClass::kAttention;

std::vector<Kernel> AttentionKernels(TraceStyle style, bool backward) {
  if (style == TraceStyle::kEager) {
    std::vector<Kernel> kernels = {{"ampere_bf16_s16816gemm_bmm_tn", kProduct, 0.3},
                                   {"elementwise_kernel<MulFunctor>", kLight, 0.15},
                                   {"softmax_warp_forward", kLight, 0.2},
                                   {"ampere_bf16_s16816gemm_bmm_nn", kProduct, 0.35}};
    if (backward) {
      kernels.insert(kernels.begin(), {"ampere_bf16_s16816gemm_bmm_nt", kProduct, 0.3});
      kernels.push_back({"ampere_bf16_s16816gemm_bmm_nn", kProduct, 0.3});
    }
    return kernels;
  }
  if (!backward) return {{"flash_fwd_kernel<Flash_fwd_kernel_traits>", kFlash, 1}};
  return {{"flash_bwd_dot_do_o_kernel", kFlash, 0.06},
          {"flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel", kFlash, 0.88},
          {"flash_bwd_convert_dq_kernel", kFlash, 0.06}};
}

std::vector<Kernel> NormKernels(const std::string& name, TraceStyle style, bool backward) {
  const bool weight = Speaks(name, "weight");
  if (style == TraceStyle::kFused) {
    if (!backward) return {{"transformer_engine::normalization::rmsnorm_fwd", kLight, 1}};
    return {{weight ? "transformer_engine::normalization::rmsnorm_bwd_finalize"
                    : "transformer_engine::normalization::rmsnorm_bwd",
             kLight, 1}};
  }
  if (weight) {
    return {{"elementwise_kernel<MulFunctor>", kLight, 0.6}, {"reduce_kernel<sum>", kLight, 0.4}};
  }
  return {{"elementwise_kernel<pow_tensor_scalar>", kLight, 0.25},
          {"reduce_kernel<MeanOps>", kLight, 0.25},
          {"vectorized_elementwise_kernel<rsqrt>", kLight, 0.05},
          {"elementwise_kernel<MulFunctor>", kLight, 0.45}};
}

// The kernels of one op. None: it is fused into another.
std::vector<Kernel> KernelsOf(const std::string& name, OpClass op_class, Pass pass,
                              TraceStyle style, std::mt19937_64& random) {
  // Ops recomputed within a backward pass run the kernels of a forward pass.
  const bool backward = Speaks(name, "grad");
  switch (op_class) {
    case OpClass::kGemm:
      if (random() % 16 == 0) {
        return {{"nvjet_hsh_128x256_64x4_2x1_v_bz_splitK_TNT", kProduct, 0.93},
                {"cublasLt::splitKreduce_kernel", kProduct, 0.07}};
      }
      return {{"nvjet_hsh_128x256_64x4_2x1_v_bz_TNT", kProduct, 1}};
    case OpClass::kAttention:
      return AttentionKernels(style, backward);
    case OpClass::kMemoryBound:
      break;
    case OpClass::kTpComm:
    case OpClass::kDpComm:
    case OpClass::kEpComm:
    case OpClass::kCpComm:
      return {{"ncclDevKernel_AllReduce_Sum_bf16_RING_LL", op_class, 1}};
    case OpClass::kPpComm:
      return {{"ncclDevKernel_SendRecv", op_class, 1}};
    case OpClass::kCopy:
      return {{"Memcpy HtoD (Pinned -> Device)", op_class, 1}};
    case OpClass::kHost:
      return {};
  }
  if (pass == Pass::kUpdate) {
    if (Speaks(name, "norm")) return {{"multi_tensor_apply_kernel<L2NormFunctor>", kLight, 1}};
    return std::vector<Kernel>(5, {"multi_tensor_apply_kernel<AdamFunctor>", kLight, 0.2});
  }
  if (Speaks(name, "norm")) return NormKernels(name, style, backward);
  if (Speaks(name, "residual") && style == TraceStyle::kFused) return {};
  if (Speaks(name, "gelu") || Speaks(name, "swiglu")) return {{"silu_and_mul_kernel", kLight, 1}};
  if (Speaks(name, "rope")) return {{"fused_rope_forward", kLight, 1}};
  if (Speaks(name, "embed")) return {{"indexSelectLargeIndex<embedding>", kLight, 1}};
  if (Speaks(name, "loss")) {
    return {{"cunn_SoftMaxForward<log_softmax>", kLight, 0.7}, {"nll_loss_kernel", kLight, 0.3}};
  }
  return {{"vectorized_elementwise_kernel<4, AUnaryFunctor>", kLight, 1}};
}

double FactorOf(OpClass op_class) {
  if (op_class == OpClass::kGemm) return 1.25;
  if (op_class == OpClass::kAttention) return 0.8;
  return op_class == OpClass::kMemoryBound ? 1.5 : 1.1;
}

class Maker {
 public:
  Maker(const Timeline& forecast, const MadeTraceOptions& options)
      : forecast_(forecast), options_(options), random_(options.seed) {
    made_.timeline.world = forecast.world;
  }

  // Kernels get twice the op's place in time, so that longer ones do not overlap.
  void AddOp(const Span& op) {
    const auto named = forecast_.op_names.find(NameKey(op.op));
    const std::string name = named == forecast_.op_names.end() ? "" : named->second;
    const Pass pass = UnpackId(op.op).pass;
    const std::vector<Kernel> kernels = KernelsOf(name, op.op_class, pass, options_.style, random_);
    std::int64_t now = op.start_ns * 4;
    // A cast or fill that no op of the forecast has.
    if (op.op_class == OpClass::kGemm && random_() % 12 == 0) {
      const Kernel cast{"vectorized_elementwise_kernel<copy_cast>", kLight, 1};
      now = AddKernel(op, cast, 2000, now, kNoOp);
    }
    std::normal_distribution<double> noise(0, 0.12);
    const double seconds = static_cast<double>(op.end_ns - op.start_ns) * FactorOf(op.op_class) *
                           std::exp(noise(random_));
    for (const Kernel& kernel : kernels) {
      now =
          AddKernel(op, kernel, static_cast<std::int64_t>(seconds * kernel.share) + 1, now, op.op);
    }
  }

  MadeTrace Take() {
    made_.timeline.op_names = ids_.TakeNames();
    return std::move(made_);
  }

 private:
  std::int64_t AddKernel(const Span& op, const Kernel& kernel, std::int64_t length,
                         std::int64_t now, OpId truth) {
    const InstructionKey of = UnpackId(op.op);
    trace_import::CallKey key;
    if (IsCommunication(op.op_class)) key.kind = of.kind;
    if (options_.passes) key.pass = TracedPass(of.pass);
    if (options_.layers && of.kind == InstructionKind::kBlock && of.block > 0) {
      key.layer = of.block - 1;
    }
    Span span = op;
    span.step = 0;
    span.op = ids_.Next(key, kernel.name, op.rank, 0);
    span.op_class = kernel.op_class;
    span.start_ns = now;
    span.end_ns = now + length;
    made_.timeline.spans.push_back(span);
    made_.truth.push_back(truth);
    return span.end_ns;
  }

  static Pass TracedPass(Pass pass) {
    const bool backward =
        pass == Pass::kBackwardInput || pass == Pass::kBackwardWeight || pass == Pass::kRecompute;
    return backward ? Pass::kBackward : pass;
  }

  const Timeline& forecast_;
  MadeTraceOptions options_;
  std::mt19937_64 random_;
  trace_import::OpIds ids_;
  MadeTrace made_;
};

}  // namespace

Timeline NamedTimeline(const Forecast& forecast) {
  Timeline timeline = forecast.simulation.timeline;
  for (const RankProgram& rank : forecast.program.ranks) {
    for (const OpRef ref : OpRefs(forecast.program, rank)) {
      timeline.op_names.try_emplace(NameKey(IdOf(rank, ref)),
                                    OpAt(forecast.program, rank, ref).name);
    }
  }
  return timeline;
}

MadeTrace TraceOf(const Timeline& forecast, int step, const MadeTraceOptions& options) {
  Maker maker(forecast, options);
  for (const Span& span : forecast.spans) {
    if (span.step == step && span.queue != Queue::kHost) maker.AddOp(span);
  }
  return maker.Take();
}

}  // namespace foretrain
