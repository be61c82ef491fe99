// What a training system's software does beside its plan: which kernels it has, what its host
// costs, what it holds of a device's memory. Leaves out the plan and how a time is made of these
// (sim/cost/kernel_model.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "sim/spec/plan.h"

namespace foretrain {

// The kernel of flash attention: FlashAttention-2, its first version (and Triton's), cuDNN.
enum class AttentionKernel : std::uint8_t { kFlash, kFlash1, kCudnn };
inline constexpr std::array<std::string_view, 3> kAttentionKernelNames = {"flash", "flash-1",
                                                                          "cudnn"};
inline std::string_view Name(AttentionKernel kernel) {
  return kAttentionKernelNames[static_cast<std::size_t>(kernel)];
}

// What a source's figure of memory is: bytes in use at their peak, those of the segments that its
// caching allocator holds, or what nvidia-smi shows, which adds the device context and
// communicators.
enum class MemoryFigure : std::uint8_t { kAllocated, kReserved, kNvidiaSmi };
inline constexpr std::array<std::string_view, 3> kMemoryFigureNames = {"allocated", "reserved",
                                                                       "nvidia-smi"};
inline std::string_view Name(MemoryFigure figure) {
  return kMemoryFigureNames[static_cast<std::size_t>(figure)];
}

// Whose: of the fullest rank, or of rank 0, which is on the first stage.
enum class MemoryRank : std::uint8_t { kFullest, kFirst };
inline constexpr std::array<std::string_view, 2> kMemoryRankNames = {"fullest", "first"};
inline std::string_view Name(MemoryRank rank) {
  return kMemoryRankNames[static_cast<std::size_t>(rank)];
}

// How weights or a checkpoint come to a rank through its host's memory: a shard of its own state,
// the whole model in each process, or the whole model in one process of a node.
enum class LoadOrder : std::uint8_t { kShard, kWhole, kOneProcess };
inline constexpr std::array<std::string_view, 3> kLoadOrderNames = {"shard", "whole",
                                                                    "one-process"};
inline std::string_view Name(LoadOrder order) {
  return kLoadOrderNames[static_cast<std::size_t>(order)];
}

struct SystemOptions {
  // What a 16-bit run keeps beside its 16-bit weights, and in what it sums gradients, where nothing
  // else says so.
  WeightStorage weights = WeightStorage::kMaster;
  GradientFormat gradients = GradientFormat::kFp32;
  AttentionKernel attention = AttentionKernel::kFlash;
  bool cuda_graphs = false;       // kernels that do the same each step are launched as graphs
  bool fused_elementwise = true;  // SwiGLU and rotary embedding in one kernel each
  bool fused_norm = true;         // RMSNorm likewise
  bool fused_loss = true;         // cross-entropy in one pass each way, in 16 bits
  // Eager cross-entropies are metrics, taken of each micro-batch's logits behind its backward; the
  // loss itself is fused.
  bool late_metrics = false;
  double host_op_s = 4e-6;  // host time that issues one op of the program
  // Full recomputation runs a layer's whole forward again, not only what its backward reads.
  bool whole_recompute = false;
  // Sends and receives between stages are waited for, not issued ahead.
  bool blocking_sends = false;
  // Tensor-parallel ranks send a part each between stages and gather the whole behind it.
  bool scatter_gather = false;
  // Collectives of tensor parallelism stand between products, also where a weight's gradient could
  // run beside them.
  bool blocking_tp = false;
  // Weight gradients are added up by the product that makes them, not by a kernel behind it.
  bool fused_accumulation = true;
  // A token goes to a node once, however many of its experts lie there, and is dealt out inside.
  bool node_dispatch = false;
  // Share of tensor-parallel collectives hidden by kernels that cut them and their product in
  // pieces; the pieces cost no more than the whole.
  double tp_overlap = 0.0;
  // Adapters of a node that a sum or gather of data parallelism uses at once; 0: all. Where one
  // ring goes over all devices it crosses from node to node over one.
  std::int64_t adapters_used = 0;
  MemoryFigure memory_figure = MemoryFigure::kAllocated;
  MemoryRank memory_rank = MemoryRank::kFullest;
  // Whether a caching allocator serves the device's memory, by PyTorch's rules; else an arena is
  // laid out beforehand. A preset has one unless it says otherwise.
  bool caching_allocator = false;
  // What it holds beside the program. Gradients of a micro-batch, in 16 bits, until its backward
  // has ended and they are added to the sum.
  bool holds_gradients = false;
  // They stay even then, until the next micro-batch's take their place.
  bool keeps_gradients = false;
  // Without ZeRO, a flat 16-bit copy of all gradients, as DistributedDataParallel keeps it.
  bool ddp_buckets = false;
  // With ZeRO 1 and 2, updated parameters are gathered as lists of parts and in one flat tensor.
  bool flat_gather = false;
  // The update copies the gradients that the rank updates into one tensor in their format, and that
  // into one in fp32.
  bool flat_update = false;
  // Before that, the norm of those gradients is taken of copies in 64 bits, a tensor at a time.
  bool wide_norm = false;
  // Gathered rows of tensor parallelism lie in one buffer that all gathers share.
  bool shared_gathers = false;
  std::int64_t own_communicators = 0;  // process groups beside those of the plan's degrees
  // Ops of the program by which memory that another queue has used is free later: the host runs
  // ahead of the device, and the allocator waits for the device.
  std::int64_t late_free_ops = 0;
  // Gathered parameters and gradients on their way to shards are free only when so many further
  // gathers have been issued: another stream has used them, and the host runs ahead of it.
  std::int64_t late_gathers = 0;
  std::int64_t reduce_bucket_bytes = 0;  // that gradients are copied to for their sum
  // Gradients are summed in flat copies, each of tensors until they have more elements than this;
  // 0: where they lie.
  std::int64_t flat_reduce_elements = 0;
  // Of each logit in 16 bits and its gradient: 4, or 2 where the gradient overwrites it; 0: as the
  // program has them, fp32 logits and their gradient as products read it.
  std::int64_t logit_bytes = 0;
  std::int64_t context_bytes = 0;  // of a device's context; 0: the usual (device_overhead.h)
  bool profiled = true;            // activities are recorded; a preset's are not unless it says so
  // Of the host's memory: pinned buffers take powers of two bytes, and how weights come.
  bool pinned_powers = false;
  LoadOrder load = LoadOrder::kShard;

  bool operator==(const SystemOptions&) const = default;
};

// One option of a preset as it is shown.
struct SystemOptionSource {
  std::string name;   // "host_op_s"
  std::string value;  // "2e-05"
  std::string source;
};

// Reads the object of options, each {"value": ..., "source": ...}. Errors stay in `fields`, which
// the caller finishes.
std::vector<SystemOptionSource> ReadSystemOptions(JsonFields& fields, SystemOptions& options);

// All options in the same form, into an object that is open.
void WriteSystemOptions(const SystemOptions& options, JsonWriter& json);

}  // namespace foretrain
