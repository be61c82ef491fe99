// Properties of a training system's software that its plan does not cover: its kernels, its host
// overhead, and the device memory it holds. sim/cost/kernels/kernel_model.h turns them into times.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

// Flash attention kernel: FlashAttention-2, its first version (also Triton's), or cuDNN.
enum class AttentionKernel : std::uint8_t { kFlash, kFlash1, kCudnn };
inline constexpr std::array<std::string_view, 3> kAttentionKernelNames = {"flash", "flash-1",
                                                                          "cudnn"};
inline std::string_view Name(AttentionKernel kernel) {
  return kAttentionKernelNames[static_cast<std::size_t>(kernel)];
}

// Meaning of a source's memory value: peak bytes in use, bytes of the segments that its caching
// allocator holds, or nvidia-smi's value. The last also contains the device context and
// communicators.
enum class MemoryFigure : std::uint8_t { kAllocated, kReserved, kNvidiaSmi };
inline constexpr std::array<std::string_view, 3> kMemoryFigureNames = {"allocated", "reserved",
                                                                       "nvidia-smi"};
inline std::string_view Name(MemoryFigure figure) {
  return kMemoryFigureNames[static_cast<std::size_t>(figure)];
}

// Rank that the value belongs to: the fullest, or rank 0, which is on the first stage.
enum class MemoryRank : std::uint8_t { kFullest, kFirst };
inline constexpr std::array<std::string_view, 2> kMemoryRankNames = {"fullest", "first"};
inline std::string_view Name(MemoryRank rank) {
  return kMemoryRankNames[static_cast<std::size_t>(rank)];
}

// How weights or a checkpoint pass through host memory: each rank its shard, each process the whole
// model, or one process per node the whole model.
enum class LoadOrder : std::uint8_t { kShard, kWhole, kOneProcess };
inline constexpr std::array<std::string_view, 3> kLoadOrderNames = {"shard", "whole",
                                                                    "one-process"};
inline std::string_view Name(LoadOrder order) {
  return kLoadOrderNames[static_cast<std::size_t>(order)];
}

struct SystemOptions {
  // Storage of weights and format of gradients in a 16-bit run, unless the plan says otherwise.
  WeightStorage weights = WeightStorage::kMaster;
  GradientFormat gradients = GradientFormat::kFp32;
  AttentionKernel attention = AttentionKernel::kFlash;
  bool cuda_graphs = false;       // kernels that repeat each step are launched as graphs
  bool fused_elementwise = true;  // SwiGLU and rotary embedding take one kernel each
  bool fused_norm = true;         // RMSNorm takes one kernel
  bool fused_softmax = true;      // scale, mask and softmax of stored attention scores: one kernel
  bool fused_loss = true;         // cross-entropy in one pass each way, in 16 bits
  // An eager cross-entropy is computed as a metric from each micro-batch's logits, after its
  // backward. The loss itself is fused.
  bool late_metrics = false;
  double host_op_s = 4e-6;  // host time to issue one op of the program
  // Time that a framework adds to the device's, as a share of its kernels': gaps between them,
  // copies, casts and small kernels that no op of the program stands for. 0: C++ and CUDA.
  double framework_overhead = 0;
  // Host time of each product of a layer's experts in addition to host_op_s: routing, permutation,
  // sizes of the parts, casts expert by expert.
  double expert_host_s = 0;
  // With ZeRO-1 and -2: time to slice and copy one rank's part of one parameter, in reductions of
  // gradients and in gathers of updated parameters. For software that passes lists of such parts.
  double part_copy_s = 0;
  // Full recomputation repeats a layer's whole forward, not only the parts that its backward reads.
  bool whole_recompute = false;
  // Sends and receives between stages block, instead of being issued ahead.
  bool blocking_sends = false;
  // Between stages, each tensor-parallel rank sends a part, and the receivers gather the whole.
  bool scatter_gather = false;
  // Tensor-parallel collectives never overlap products, not even weight gradients.
  bool blocking_tp = false;
  // The product that computes a weight gradient accumulates it; otherwise a separate kernel does.
  bool fused_accumulation = true;
  // A token is sent once to each node and to each device, however many of its experts lie there
  // (DeepEP).
  bool node_dispatch = false;
  // Share of tensor-parallel collectives hidden by kernels that split them and their product into
  // pieces. The pieces cost no more than the whole.
  double tp_overlap = 0.0;
  // Share of the exchanges of experts' tokens between nodes hidden by another micro-batch's
  // compute: forward of one overlaps backward of the other.
  double ep_overlap = 0.0;
  // With a pipeline, ZeRO-3's parameters are gathered once a step and gradients are reduced after
  // the last micro-batch, as under ZeRO-1.
  bool pipeline_gathers_once = false;
  // Adapters of a node that a data-parallel reduction or gather uses at once; 0: all. One ring over
  // all devices crosses between nodes over one adapter.
  std::int64_t adapters_used = 0;
  MemoryFigure memory_figure = MemoryFigure::kAllocated;
  MemoryRank memory_rank = MemoryRank::kFullest;
  // True if a caching allocator with PyTorch's rules manages device memory; otherwise an arena is
  // laid out in advance. Presets default to true.
  bool caching_allocator = false;
  // Memory held in addition to the program's: the 16-bit gradients of a micro-batch, until its
  // backward has ended and they are accumulated.
  bool holds_gradients = false;
  // They stay after that, until the next micro-batch's replace them.
  bool keeps_gradients = false;
  // Without ZeRO: a flat 16-bit copy of all gradients, as DistributedDataParallel keeps it.
  bool ddp_buckets = false;
  // With ZeRO 1 and 2: updated parameters are gathered both as lists of parts and in one flat
  // tensor.
  bool flat_gather = false;
  // The update copies the rank's gradients into one tensor in their format, and that into one in
  // fp32.
  bool flat_update = false;
  // Before that, the norm of those gradients is computed on 64-bit copies, one tensor at a time.
  bool wide_norm = false;
  // Gathered rows of tensor parallelism share one buffer.
  bool shared_gathers = false;
  std::int64_t own_communicators = 0;  // process groups in addition to those of the plan's degrees
  // Delay, in ops of the program, until memory used by another queue is free again. The host runs
  // ahead of the device, and the allocator waits for it (sim/memory/host_lead.h).
  std::int64_t late_free_ops = 0;
  // Gathered parameters, and gradients being reduced, are free only after this many further
  // gathers. Another stream has used them, and the host runs ahead of it.
  std::int64_t late_gathers = 0;
  std::int64_t reduce_bucket_bytes = 0;  // bucket that gradients are copied to for reduction
  // Gradients are reduced in flat copies, each filled with tensors until it exceeds this many
  // elements. 0: in place.
  std::int64_t flat_reduce_elements = 0;
  // Bytes per logit for the 16-bit logit and its gradient: 4, or 2 if the gradient overwrites it.
  // 0: as in the program, fp32 logits and their gradient as products read it.
  std::int64_t logit_bytes = 0;
  std::int64_t context_bytes = 0;  // memory of a device context; 0: the usual (device_overhead.h)
  // Workspace of a device's libraries and kernels. Presets default to 32 MiB of cuBLAS.
  std::int64_t workspace_bytes = std::int64_t{64} << 20;
  bool profiled = true;  // activities are recorded; presets default to false
  // Host memory: pinned buffers are rounded up to powers of two; how weights are loaded.
  bool pinned_powers = false;
  LoadOrder load = LoadOrder::kShard;

  bool operator==(const SystemOptions&) const = default;
};

// One option of a preset, for display.
struct SystemOptionSource {
  std::string name;   // "host_op_s"
  std::string value;  // "2e-05"
  std::string source;
};

// Reads an object of options, each {"value": ..., "source": ...}. Errors stay in `fields`, which
// the caller finishes.
std::vector<SystemOptionSource> ReadSystemOptions(JsonFields& fields, SystemOptions& options);

// Writes all options in the same form into an open object.
void WriteSystemOptions(const SystemOptions& options, JsonWriter& json);

}  // namespace foretrain
