#include "sim/cost/kernels/kernel_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/program/ops/op_kinds.h"
#include "sim/program/ops/op_work.h"

namespace foretrain {
namespace {

constexpr double kHalfBytes = 2;
constexpr double kMaskBytes = 1;
// Cost of softmax and rescaling, expressed as extra head width.
constexpr double kSoftmaxWidth = 16;
constexpr double kReferenceHeadDim = 128;
constexpr double kUnalignedShare = 0.5;  // share of the rate of one product
constexpr double kAttentionTile = 128;   // queries; tiles on the diagonal are computed in full

std::int64_t Ceil(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

double Bandwidth(const KernelModel& model) {
  return model.architecture.memory_efficiency.value * model.memory_bytes_per_s;
}

double MemorySeconds(const KernelModel& model, double bytes, CostTerms* terms = nullptr) {
  if (terms != nullptr) {
    terms->Fact("bytes, all passes", bytes, "B");
    terms->Fact("sustained bandwidth", Bandwidth(model), "B/s");
    terms->Seconds("start of the kernel", model.architecture.kernel_s.value);
    terms->Seconds("bytes / bandwidth", bytes / Bandwidth(model));
  }
  return model.architecture.kernel_s.value + bytes / Bandwidth(model);
}

bool IsForward(OpKind kind) {
  return kind == OpKind::kAttentionForward || kind == OpKind::kAttentionPartForward;
}

// Flash attention reaches a fixed share of the peak at the reference head width. Narrower heads pay
// relatively more for softmax, and short sequences more for masked parts of diagonal tiles.
double AssumedAttentionSeconds(const KernelModel& model, AttentionKernel kernel, const Op& op,
                               double bytes, CostTerms* terms) {
  const bool forward = IsForward(op.kind);
  const Architecture& of = model.architecture;
  const bool cudnn = kernel == AttentionKernel::kCudnn;
  const double first = kernel == AttentionKernel::kFlash1 ? of.flash1_share.value : 1.0;
  const double share = first * (forward ? (cudnn ? of.cudnn_forward : of.flash_forward).value
                                        : (cudnn ? of.cudnn_backward : of.flash_backward).value);
  const double width = (op.shape.head_dim + op.shape.ValueDim()) / 2.0;
  const double heads_wide = (1 + kSoftmaxWidth / width) / (1 + kSoftmaxWidth / kReferenceHeadDim);
  const double sequence = std::max<double>(1, static_cast<double>(op.shape.sequence));
  const double diagonal = 1 + kAttentionTile / sequence;
  const double flop_s = WorkOf(op).flop * heads_wide * diagonal / (share * model.half_flop_per_s);
  const double bytes_s = bytes / Bandwidth(model);
  if (terms != nullptr) {
    terms->Fact("share of the 16-bit peak", share);
    terms->Fact("head width and diagonal tiles", heads_wide * diagonal);
    terms->Seconds("start of the kernel", of.kernel_s.value);
    terms->Seconds(flop_s >= bytes_s ? "arithmetic" : "bytes / bandwidth",
                   std::max(flop_s, bytes_s));
  }
  return of.kernel_s.value + std::max(flop_s, bytes_s);
}

// Kernels of training on this architecture. A window, or a part of the keys, takes as long as
// causal attention of a sequence with as many operations. Other kernels than the library's are
// slower by the ratio of their published rates.
double MeasuredAttentionSeconds(const KernelModel& model, const KernelForecast& hot,
                                AttentionKernel kernel, const Op& op, CostTerms* terms) {
  const OpShape& shape = op.shape;
  const Architecture& of = model.architecture;
  const bool forward = IsForward(op.kind);
  AttentionShape causal = {.batch = std::max<std::int64_t>(1, shape.batch),
                           .heads = shape.heads,
                           .kv_heads = shape.kv_heads,
                           .head_dim = shape.head_dim,
                           .value_dim = shape.ValueDim()};
  const double flop_of_square = (forward ? 1 : 2.5) *
                                static_cast<double>(causal.batch * causal.heads) *
                                static_cast<double>(causal.head_dim + causal.value_dim);
  const double sequence = std::max(1.0, std::sqrt(WorkOf(op).flop / flop_of_square));
  causal.sequence = std::llround(sequence);
  const double hot_s = forward ? hot.TrainingAttentionForwardSeconds(causal, false).value()
                               : hot.AttentionBackwardSeconds(causal).value();
  double slower = 1;
  if (kernel != AttentionKernel::kCudnn) {
    slower = forward ? of.cudnn_forward.value / of.flash_forward.value
                     : of.cudnn_backward.value / of.flash_backward.value;
  }
  if (terms != nullptr) {
    terms->Fact("causal sequence with as many operations", static_cast<double>(causal.sequence));
    terms->Seconds("measured training kernel", hot_s);
    terms->Factor("system's kernel over cuDNN's", slower);
    terms->Seconds("start of the kernel", of.kernel_s.value);
  }
  return of.kernel_s.value + slower * hot_s;
}

// The first version of FlashAttention is older than the tables and keeps its published rate.
double FusedAttentionSeconds(const KernelModel& model, const KernelForecast& hot,
                             AttentionKernel kernel, const Op& op, double bytes, CostTerms* terms) {
  const bool measured = hot.KnowsTrainingAttention() && kernel != AttentionKernel::kFlash1;
  return measured ? MeasuredAttentionSeconds(model, hot, kernel, op, terms)
                  : AssumedAttentionSeconds(model, kernel, op, bytes, terms);
}

double AttentionSeconds(const KernelModel& model, const KernelForecast& hot,
                        const SystemOptions& system, const Op& op, double bytes, CostTerms* terms) {
  switch (op.kind) {
    case OpKind::kStandardAttentionForward:
    case OpKind::kStandardAttentionBackward:
      return StandardAttentionSeconds(model, hot, op, system.fused_softmax, terms);
    default:
      return FusedAttentionSeconds(model, hot, system.attention, op, bytes, terms);
  }
}

// Memory traffic of eager kernels relative to a fused one, counted in reads and writes per element.
double PassesOf(const SystemOptions& has, const Op& op) {
  switch (op.kind) {
    case OpKind::kSwigluForward:  // silu 1 + 1, product 2 + 1; fused 2 + 1
      return has.fused_elementwise ? 1 : 5.0 / 3;
    case OpKind::kSwigluBackward:  // product 3 + 2, silu 2 + 1; fused 3 + 2
      return has.fused_elementwise ? 1 : 8.0 / 5;
    case OpKind::kRope:  // to fp32, complex product, back: 2 + 4, 4 + 4, 4 + 2 bytes; fused 2 + 2
      return has.fused_elementwise ? 1 : 5;
    // RMSNorm to fp32 2 + 4, square 4 + 4, mean 4, product 4 + 4, back 4 + 2, weight 2 + 2; fused
    // 2 + 2.
    case OpKind::kNormForward:
    case OpKind::kAddNormForward:
      return has.fused_norm || !op.rms ? 1 : 9;
    case OpKind::kNormBackwardInput:
    case OpKind::kNormBackwardWeight:
      return has.fused_norm || !op.rms ? 1 : 5;
    default:
      return 1;
  }
}

// Bytes per logit of an eager cross-entropy: to fp32 2 + 4, maximum 4, difference 4 + 4,
// exponential 4 + 4, sum 4, quotient 4 + 4. Backward: product 4 + 4, back to 16 bits 4 + 2.
std::optional<double> EagerLossBytes(const SystemOptions& system, const Op& op) {
  if (system.fused_loss) return std::nullopt;
  const double logits = static_cast<double>(op.shape.rows) * static_cast<double>(op.shape.vocab);
  switch (op.kind) {
    case OpKind::kCrossEntropyForward:
      return 38 * logits;
    case OpKind::kVocabMax:
      return 10 * logits;
    case OpKind::kVocabSums:
      return 28 * logits;
    case OpKind::kCrossEntropyBackward:
      return 14 * logits;
    case OpKind::kCrossEntropy:
      return (38 + 14) * logits;
    default:
      return std::nullopt;
  }
}

double GemmOpSeconds(const KernelModel& model, const KernelForecast& hot, const Op& op,
                     CostTerms* terms) {
  const std::int64_t experts = std::max<std::int32_t>(1, op.shape.experts);
  const bool grouped = op.kind == OpKind::kGroupedGemm;
  std::int64_t m = op.shape.rows, k = op.shape.inner;
  const std::int64_t batch = grouped ? experts : 1;
  // Rows of all experts are the product's rows; for a weight gradient they are its depth.
  if (grouped) (op.trans_a ? k : m) = Ceil(op.trans_a ? k : m, experts);
  const double seconds = ProductSeconds(model, hot, op.format, {m, op.shape.cols, k, batch}, terms);
  const double factor = grouped ? hot.GroupedTime() : 1;
  if (terms != nullptr) terms->Factor("grouped over one product", factor);
  return factor * seconds;
}

// Adds a weight gradient that the product left in 16 bits to the sum: reads both, writes one.
double AccumulationSeconds(const KernelModel& model, const Op& op) {
  const std::int64_t experts =
      op.kind == OpKind::kGroupedGemm ? std::max<std::int32_t>(1, op.shape.experts) : 1;
  const double weights =
      static_cast<double>(experts * op.shape.rows) * static_cast<double>(op.shape.cols);
  return MemorySeconds(model, weights * (kHalfBytes + 2 * BytesEach(FormatOf(op, "c"))));
}

// Share of the rate that unaligned sizes reach. If a side is not a multiple of 8, libraries load
// tensor cores at half the rate, with narrower accesses. [NVIDIA, Matrix Multiplication Background
// User's Guide, s. 3]. Batched products have no such kernels and are slower.
double AlignedShare(const Architecture& of, const ProductShape& shape) {
  if (shape.m % 8 == 0 && shape.n % 8 == 0 && shape.k % 8 == 0) return 1;
  return shape.groups > 1 ? of.unaligned_share.value : kUnalignedShare;
}

// The format in which the device computes products of `format`.
ProductFormat ProductFormatOf(const KernelModel& model, NumberFormat format) {
  const std::int64_t bits = LayoutOf(format).bits;
  if (bits <= 4 && model.fp4_flop_per_s > model.fp8_flop_per_s) return ProductFormat::kNvfp4;
  if (bits > 8 || model.fp8_flop_per_s <= model.half_flop_per_s) return ProductFormat::kBf16;
  return format == NumberFormat::kFp8Block ? ProductFormat::kFp8Block : ProductFormat::kFp8;
}

// True for compute formats of 16 bits or fewer.
bool IsShort(NumberFormat format) {
  return format != NumberFormat::kFp32 && format != NumberFormat::kTf32;
}

// Communication, copies, host work and opaque ops have no kernel of ours.
bool IsKernel(OpKind kind) { return FamilyOf(kind) < OpFamily::kCollective; }

}  // namespace

double ProductSeconds(const KernelModel& model, const KernelForecast& hot, NumberFormat format,
                      const ProductShape& shape, CostTerms* terms) {
  const Architecture& of = model.architecture;
  const ProductFormat computed = ProductFormatOf(model, format);
  const auto hot_s = hot.BestProductSeconds(computed, shape, terms);
  FT_CHECK(hot_s.has_value());  // every format that ProductFormatOf gives has a profile
  const Figure& share =
      computed == ProductFormat::kBf16 ? of.sustained_share : of.sustained_short_share;
  const double aligned = AlignedShare(of, shape);
  if (terms != nullptr) {
    terms->Fact("sustained share of the rate", share.value);
    terms->Factor("1 / sustained share", 1 / share.value);
    terms->Factor("1 / share of unaligned sides", 1 / aligned);
  }
  return *hot_s / (share.value * aligned);
}

// Products are full squares, masked half included. Element-wise passes over the scores reach only
// score_efficiency of the bandwidth.
double StandardAttentionSeconds(const KernelModel& model, const KernelForecast& hot, const Op& op,
                                bool fused, CostTerms* terms) {
  const OpShape& shape = op.shape;
  const bool forward = op.kind == OpKind::kStandardAttentionForward;
  const std::int64_t items = shape.batch * shape.heads;
  const std::int64_t s = shape.sequence, d = shape.head_dim, v = shape.ValueDim();
  const double rows = static_cast<double>(items) * static_cast<double>(s);
  const double scores = rows * static_cast<double>(s);
  const auto product = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    return ProductSeconds(model, hot, NumberFormat::kBf16, {m, n, k, items});
  };
  const Architecture& of = model.architecture;
  const auto passes = [&](double bytes) {
    return of.kernel_s.value + bytes / (of.score_efficiency.value * model.memory_bytes_per_s);
  };
  const double mask = op.dropout > 0 ? passes((2 * kHalfBytes + kMaskBytes) * scores) : 0;
  // Each eager kernel reads and writes the scores once.
  const double eager = fused ? 0 : (forward ? 2 : 1) * passes(2 * kHalfBytes * scores);
  const auto record = [terms](double products_s, double softmax_s, double eager_s, double mask_s) {
    if (terms != nullptr) {
      terms->Seconds("products over all scores", products_s);
      terms->Seconds("softmax over the scores", softmax_s);
      terms->Seconds("unfused scale and mask", eager_s);
      terms->Seconds("dropout", mask_s);
    }
    return products_s + softmax_s + eager_s + mask_s;
  };
  if (forward) {
    const double values = shape.inner > 0 ? product(s, v, s) : 0;
    return record(product(s, s, d) + values, passes(2 * kHalfBytes * scores), eager, mask);
  }
  return record(product(s, s, v) + product(s, v, s) + 2 * product(s, d, s),
                passes(3 * kHalfBytes * scores), eager, mask);
}

namespace {

// Products and attention above 16 bits are not modelled: architecture constants were fitted to
// tensor cores.
std::optional<double> BareSeconds(const KernelModel& model, const KernelForecast& hot,
                                  const SystemOptions& system, const Op& op, double bytes,
                                  CostTerms* terms) {
  if (!IsKernel(op.kind) || op.queue == Queue::kCpu) return std::nullopt;
  if (IsProduct(op.kind)) {
    if (!IsShort(op.format)) return std::nullopt;
    const double product_s = GemmOpSeconds(model, hot, op, terms);
    const bool adds = op.accumulate && op.trans_a && !system.fused_accumulation;
    const double adds_s = adds ? AccumulationSeconds(model, op) : 0;
    if (terms != nullptr && adds) terms->Seconds("kernel that accumulates the gradient", adds_s);
    return product_s + adds_s;
  }
  if (IsAttention(op.kind)) {
    if (!IsShort(op.formats[0])) return std::nullopt;  // qkv or q
    return AttentionSeconds(model, hot, system, op, bytes, terms);
  }
  if (const auto eager = EagerLossBytes(system, op)) return MemorySeconds(model, *eager, terms);
  return MemorySeconds(model, bytes * PassesOf(system, op), terms);
}

}  // namespace

// A framework's own share of the device's time is taken to be equal for all kernels.
std::optional<double> KernelSeconds(const KernelModel& model, const KernelForecast& hot,
                                    const SystemOptions& system, const Op& op, double bytes,
                                    CostTerms* terms) {
  const std::optional<double> seconds = BareSeconds(model, hot, system, op, bytes, terms);
  if (!seconds.has_value()) return std::nullopt;
  const double framework = 1 + system.framework_overhead;
  if (terms != nullptr) terms->Factor("what the framework adds", framework);
  return *seconds * framework;
}

std::optional<KernelModel> KernelModelOf(const DeviceSpec& device,
                                         const std::vector<Architecture>& architectures) {
  const Architecture* architecture = FindArchitecture(architectures, device.name);
  const double half = std::max(device.bf16_flop_per_s, device.fp16_flop_per_s);
  if (architecture == nullptr || device.multiprocessors < 1 || half <= 0 ||
      device.fp32_flop_per_s <= 0) {
    return std::nullopt;
  }
  Architecture of = *architecture;
  of.devices.clear();  // the caller's device is known
  return KernelModel{
      .architecture = std::move(of),
      .multiprocessors = device.multiprocessors,
      .half_flop_per_s = half,
      .fp8_flop_per_s = std::max(half, device.fp8_flop_per_s),
      .fp4_flop_per_s = std::max({half, device.fp8_flop_per_s, device.fp4_flop_per_s}),
      .memory_bytes_per_s = device.memory_bytes_per_s};
}

}  // namespace foretrain
