// Turns an op of the program into one call of the device table. The argument struct is made once,
// when the program is loaded, because addresses do not change. Communication:
// runtime/communicator.h; host work: runtime/executor/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/device_api.h"
#include "base/result.h"
#include "sim/program/ops/op_kinds.h"

namespace foretrain {

struct InstructionKey;
struct Plan;

// Settings of an update that are not tensors, each for the optimizers that have it. beta1 is also
// the momentum.
struct OptimizerSettings {
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  float weight_decay = 0.1F;
  std::uint64_t seed = 0;  // seeds the stochastic rounding of bf16 weights without a master
};

inline const OptimizerSettings kNoOptimizer;

// Values that change from step to step.
struct StepValues {
  std::int64_t step = 0;  // from 0
  float learning_rate = 0.0F;
  float learning_rate_before = 0.0F;  // the previous step's
  std::int64_t rows = -1;             // rows given by counts; -1: those of the op's shape
};

class SequenceRuns;

// The device table's name for a format, if it has one.
std::optional<FtDtype> DtypeOf(NumberFormat format);

// Precision in which GEMMs read fp32 operands: FT_F32 or FT_TF32.
FtDtype ComputeOf(const Op& op);

// Layout of the scales of a GEMM's 8-bit operands: one scale for the tensor, or one for each block
// along the reduction, rows or columns. Weights have one for each square block.
struct ProductScaling {
  FtScaling a = FT_SCALE_TENSOR;
  FtScaling b = FT_SCALE_TENSOR;
};
ProductScaling ScalingOf(const Op& op);

// Origin of an op's random numbers; all 0 for an op without dropout.
struct RandomPlace {
  std::uint64_t stream = 0;  // hash of the run's seed, the block and the op's dropout_site
  std::int64_t first_sample = 0;
};
// The origin for an op of instruction `key` on a rank with data-parallel coordinate `dp`.
RandomPlace RandomPlaceOf(const Op& op, std::uint64_t seed, const InstructionKey& key,
                          const Plan& plan, int dp);

// An op with the addresses of its operands, in operand order; null for an absent one.
struct BoundOp {
  const Op& op;
  std::span<const Operand> operands;
  std::span<std::byte* const> at;
  int tp = 0;  // tensor-parallel coordinate of the rank

  // First id of this rank's share of the vocabulary.
  std::int64_t FirstId() const {
    return op.shape.vocab_total <= op.shape.vocab ? 0 : tp * op.shape.vocab;
  }

  int micro_batch = 0;  // of the instruction

  // For a shape with cp: the rank's context-parallel coordinate and the sequence positions of all
  // ranks' rows. `runs` must outlive the call.
  int cp = 0;
  const SequenceRuns* runs = nullptr;

  // For dropout: the stream of random numbers and the first sample of the step's batch.
  RandomPlace random = {};

  // Expert parallelism: position in the kEp group, and the bytes of each operand.
  int member = 0;
  std::span<const std::int64_t> bytes = {};

  // For optimizer updates.
  const OptimizerSettings& optimizer = kNoOptimizer;

  // Address of the operand of this name; null if it is absent or the op's kind has none.
  void* AddressOf(std::string_view name) const;
  // The device table's name for its format; FT_F32 if the kind has none.
  FtDtype DtypeOf(std::string_view name) const;

  // Address of an operand, null if it is absent. FT_CHECK that the op's kind has an operand of this
  // name.
  template <class T = void>
  T* Pointer(OperandName name) const {
    const std::size_t i = PositionOf(op, name);
    return i < at.size() ? static_cast<T*>(static_cast<void*>(at[i])) : nullptr;
  }
  // The device table's name for the operand's format. WhyUnsupported has checked that it has one.
  FtDtype Dtype(OperandName name) const {
    return foretrain::DtypeOf(FormatOf(op, name)).value_or(FT_F32);
  }
  // Address of element `element` of an operand.
  void* Element(OperandName name, std::int64_t element) const {
    return Pointer<std::byte>(name) + BytesIn(FormatOf(op, name), element);
  }
  // Number of elements that fit in an operand whose format has no scales.
  std::int64_t Room(OperandName name) const {
    return ElementsIn(FormatOf(op, name), bytes[PositionOf(op, name)]);
  }
  // Access of the op to an operand; nullopt if it is absent.
  std::optional<Access> AccessOf(OperandName name) const {
    const std::size_t i = PositionOf(op, name);
    return i < operands.size() ? std::optional(operands[i].access) : std::nullopt;
  }
};

// Storage for the argument struct of any entry of the table.
class KernelArgs {
 public:
  static constexpr std::size_t kBytes = 336;

  template <class Arguments>
  KernelArgs& operator=(const Arguments& arguments) {
    static_assert(std::is_trivially_copyable_v<Arguments> && sizeof(Arguments) <= kBytes &&
                  alignof(Arguments) <= alignof(std::max_align_t));
    new (bytes_.data()) Arguments(arguments);
    return *this;
  }
  // The stored arguments; they must have been assigned as this type.
  template <class Arguments>
  const Arguments& As() const {
    return *std::launder(reinterpret_cast<const Arguments*>(bytes_.data()));
  }

 private:
  alignas(std::max_align_t) std::array<std::byte, kBytes> bytes_{};
};

// A call that is ready to launch. `launch` is null for ops that are no kernel.
struct KernelCall {
  using Launch = FtStatus (*)(const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                              const StepValues& values);
  Launch launch = nullptr;
  KernelArgs args;
  // If counts give the number of rows: their address on the device, and the shape and member to
  // read them by. The executor passes the number to the launch as StepValues::rows. Null: the
  // shape's rows.
  const std::byte* counts = nullptr;
  OpShape shape = {};
  int member = 0;
  std::string_view router;  // name of a kRoute op in the program; else empty
};

template <class Entry>
struct EntryTraits;
template <class A>
struct EntryTraits<FtStatus (*FtDeviceApi::*)(FtQueue*, const A*)> {
  using Arguments = A;
};
template <auto entry>
using ArgumentsOf = typename EntryTraits<decltype(entry)>::Arguments;

// The mask with the step's random numbers.
FtRandomMask InStep(FtRandomMask mask, const StepValues& values);

template <auto entry>
FtStatus LaunchEntry(const FtDeviceApi& api, FtQueue* queue, const KernelArgs& args,
                     const StepValues& values) {
  if constexpr (requires(ArgumentsOf<entry> g) { g.random.key; }) {
    ArgumentsOf<entry> g = args.As<ArgumentsOf<entry>>();
    g.random = InStep(g.random, values);
    return (api.*entry)(queue, &g);
  }
  return (api.*entry)(queue, &args.As<ArgumentsOf<entry>>());
}

// A call of `entry` whose arguments stay the same in every step, except for random numbers.
template <auto entry>
KernelCall Call(const ArgumentsOf<entry>& arguments) {
  KernelCall call;
  call.args = arguments;
  call.launch = &LaunchEntry<entry>;
  return call;
}

// The arguments of a call made by Call<entry>; null for any other call.
template <auto entry>
const ArgumentsOf<entry>* ArgumentsIn(const KernelCall& call) {
  return call.launch == &LaunchEntry<entry> ? &call.args.As<ArgumentsOf<entry>>() : nullptr;
}

// Kernel of the table that ops of this kind call; nullopt if they are not one entry.
std::optional<FtKernel> KernelOf(OpKind kind);

// Makes the call of an arithmetic op. Without `launch` for communication, host work and kOpaque.
//
// Errors: kInvalidArgument, an operand or the runs of a split sequence are missing.
Result<KernelCall> MakeKernelCall(const BoundOp& op);

// The call of a kernel op without addresses: sizes and formats only.
KernelCall UnboundCall(const Op& op);

// Reason why the device cannot run the op, for example "cpu has no kernel gemm for fp8-tensor";
// nullopt if it can. Collectives that sum need the device's sum_ranks.
std::optional<std::string> WhyUnsupported(const FtDeviceApi& api, const Op& op);

}  // namespace foretrain
