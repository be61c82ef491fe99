#include "runtime/ops/kernel_call.h"

#include <array>
#include <iterator>
#include <string>

#include "runtime/ops/bind_arguments.h"
#include "runtime/ops/kernel_makers.h"

namespace foretrain {
namespace {

// A row of the table of kernels: a call with arguments bound by name, and whether a device has
// it.
struct KernelEntry {
  KernelCall (*call)(const BoundOp& op);
  bool (*present)(const FtDeviceApi& api);
};
constexpr KernelEntry kEntries[] = {
#define FT_ENTRY(NAME, entry, Arguments) \
  {&CallByName<&FtDeviceApi::entry>, [](const FtDeviceApi& api) { return api.entry != nullptr; }},
    FT_KERNEL_ENTRIES(FT_ENTRY)
#undef FT_ENTRY
};

// Maker of each kind; null for kinds that are no kernels.
using Makers = std::array<KernelCall (*)(const BoundOp& op), kOpKindCount>;

Makers AllMakers() {
  Makers makers{};
  for (const OpKindRow& row : kOpKinds) {
    if (row.kernel == FT_KERNEL_COUNT) continue;
    makers[static_cast<std::size_t>(row.kind)] = kEntries[row.kernel].call;
  }
  for (const std::span<const KernelMaker> family :
       {ActivationMakers(), AttentionMakers(), ContextAttentionMakers(), EmbeddingMakers(),
        LinearMakers(), MoeMakers(), OptimizerMakers(), QuantizeMakers(), StackAttentionMakers()}) {
    for (const auto& [kind, make] : family) makers[static_cast<std::size_t>(kind)] = make;
  }
  return makers;
}

// Built on first use and constant afterwards; initialization of the static is thread-safe.
auto MakerOf(OpKind kind) {
  static const Makers makers = AllMakers();
  return makers[static_cast<std::size_t>(kind)];
}

Result<void> Lacks(const BoundOp& op, std::string_view operand) {
  return Fail(ErrorCode::kInvalidArgument, std::string(Name(op.op.kind)) + " " + op.op.name +
                                               ": operand " + std::string(operand) +
                                               " is missing; the program is malformed");
}

// Refuses a missing mandatory operand here, once, so that makers and kernels need not test for
// null.
Result<void> CheckOperands(const BoundOp& op) {
  const OperandSpecs& specs = SpecsOf(op.op.kind, op.op.inverse);
  for (std::size_t i = 0; i < specs.count; ++i) {
    const bool present = i < op.at.size() && op.at[i] != nullptr;
    if (!present && !specs.specs[i].optional) return Lacks(op, specs.specs[i].name);
  }
  if (op.op.kind == OpKind::kQuantize) {  // its outputs depend on the format
    const bool apart = HasScalesApart(op.op.format);
    if (apart && op.Pointer("scales") == nullptr) return Lacks(op, "scales");
    if (!apart && op.Pointer("out") == nullptr) return Lacks(op, "out");
  }
  return {};
}

}  // namespace

void* BoundOp::AddressOf(std::string_view name) const {
  const int i = SpecsOf(op.kind, op.inverse).Find(name);
  return i >= 0 && i < std::ssize(at) ? at[static_cast<std::size_t>(i)] : nullptr;
}

FtDtype BoundOp::DtypeOf(std::string_view name) const {
  const int i = SpecsOf(op.kind, op.inverse).Find(name);
  if (i < 0) return FT_F32;
  return foretrain::DtypeOf(op.formats[static_cast<std::size_t>(i)]).value_or(FT_F32);
}

std::optional<FtKernel> KernelOf(OpKind kind) {
  const FtKernel kernel = RowOf(kind).kernel;
  return kernel == FT_KERNEL_COUNT ? std::nullopt : std::optional(kernel);
}

// Runs once for each op when a rank's program is loaded; a step only launches.
Result<KernelCall> MakeKernelCall(const BoundOp& op) {
  const auto make = MakerOf(op.op.kind);
  if (make == nullptr) return KernelCall{};
  FT_TRY(CheckOperands(op));
  if (op.op.shape.cp > 0 && op.runs == nullptr) {
    return Fail(ErrorCode::kInvalidArgument, std::string(Name(op.op.kind)) + " " + op.op.name +
                                                 ": no positions of its shared sequence");
  }
  return make(op);
}

// All addresses are null. Tuning uses such calls to know a kernel's sizes before memory is
// allocated.
KernelCall UnboundCall(const Op& op) {
  const auto make = MakerOf(op.kind);
  FT_CHECK(make != nullptr);
  return make({.op = op, .operands = {}, .at = {}});
}

// Formats that carry their scales have no entry: kernels see their codes as bytes, or through two
// views.
std::optional<FtDtype> DtypeOf(NumberFormat format) {
  switch (format) {
    case NumberFormat::kFp32:
      return FT_F32;
    case NumberFormat::kBf16:
      return FT_BF16;
    case NumberFormat::kFp16:
      return FT_F16;
    case NumberFormat::kMask:
    case NumberFormat::kByte:
      return FT_U8;
    case NumberFormat::kNf4:
      return FT_NF4;
    case NumberFormat::kE4m3:
      return FT_FP8;
    case NumberFormat::kE5m2:
      return FT_E5M2;
    default:
      return std::nullopt;
  }
}

namespace {

// Kernel of the table that the op needs, and whether the device has it.
struct Needed {
  FtKernel kernel;
  bool present;
};
// Two special cases: one quantize op has two kernels, and reductions between ranks need the
// device's sum.
std::optional<Needed> NeededBy(const FtDeviceApi& api, const Op& op) {
  if (op.kind == OpKind::kQuantize && HasScalesApart(op.format)) {
    return Needed{FT_KERNEL_QUANTIZE_TENSOR, api.quantize_tensor != nullptr};
  }
  if (op.kind == OpKind::kAllReduce || op.kind == OpKind::kReduceScatter) {
    return Needed{FT_KERNEL_SUM_RANKS, api.sum_ranks != nullptr};
  }
  const std::optional<FtKernel> kernel = KernelOf(op.kind);
  if (!kernel) return std::nullopt;
  return Needed{*kernel, kEntries[*kernel].present(api)};
}

// The device table's name for the format that an op computes in or casts to. Codes with separate
// scales count as fp8; the operands describe their scales.
std::optional<FtDtype> ComputedDtype(NumberFormat format) {
  if (HasScalesApart(format)) return FT_FP8;
  return format == NumberFormat::kTf32 ? std::optional(FT_TF32) : DtypeOf(format);
}

// First format, among those of the operands and the arithmetic, for which the device has no kernel.
std::optional<NumberFormat> FormatLacking(const FtDeviceApi& api, const Op& op) {
  const std::optional<Needed> needed = NeededBy(api, op);
  const auto has = [&](std::optional<FtDtype> dtype) {
    return dtype && (!needed || (needed->present && api.supports(needed->kernel, *dtype) != 0));
  };
  if (!has(FT_F32)) return NumberFormat::kFp32;
  for (const NumberFormat format : op.formats) {
    if (!has(DtypeOf(format))) return format;
  }
  const bool computes = op.op_class == OpClass::kGemm || op.op_class == OpClass::kAttention;
  if (computes && !has(ComputedDtype(op.format))) return op.format;
  return std::nullopt;
}

}  // namespace

std::optional<std::string> WhyUnsupported(const FtDeviceApi& api, const Op& op) {
  const std::optional<NumberFormat> format = FormatLacking(api, op);
  if (!format) return std::nullopt;
  std::string name = *format == NumberFormat::kFp32 ? "f32" : std::string(Name(*format));
  if (*format == NumberFormat::kFp4) {
    name += ", which is forecast alone (use precision fp8-block or bf16)";
  }
  return std::string(api.name) + " has no kernel " + std::string(Name(op.kind)) + " for " + name;
}

}  // namespace foretrain
