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

// How attention is computed. kStandard writes scores and weights out, [batch, heads, sequence,
// sequence] each; the others keep them in registers: FlashAttention-2, its first version (and
// Triton's), cuDNN.
enum class AttentionKernel : std::uint8_t { kFlash, kFlash1, kCudnn, kStandard };
inline constexpr std::array<std::string_view, 4> kAttentionKernelNames = {"flash", "flash-1",
                                                                          "cudnn", "standard"};
inline std::string_view Name(AttentionKernel kernel) {
  return kAttentionKernelNames[static_cast<std::size_t>(kernel)];
}

// What a source's figure of memory is: bytes in use at their peak, or what nvidia-smi shows, which
// adds the device context, communicators and what the allocator holds unused.
enum class MemoryFigure : std::uint8_t { kAllocated, kNvidiaSmi };
inline constexpr std::array<std::string_view, 2> kMemoryFigureNames = {"allocated", "nvidia-smi"};
inline std::string_view Name(MemoryFigure figure) {
  return kMemoryFigureNames[static_cast<std::size_t>(figure)];
}

struct SystemOptions {
  // What a 16-bit run keeps beside its 16-bit weights, and in what it sums gradients, where nothing
  // else says so.
  WeightStorage weights = WeightStorage::kMaster;
  GradientFormat gradients = GradientFormat::kFp32;
  AttentionKernel attention = AttentionKernel::kFlash;
  // Masks of one byte an element after attention and MLP, and of the weights of standard attention.
  bool dropout = false;
  bool fused_elementwise = true;  // SwiGLU and rotary embedding in one kernel each
  bool fused_norm = true;         // RMSNorm likewise
  bool fused_loss = true;         // cross-entropy in one pass each way, in 16 bits
  double host_op_s = 4e-6;        // host time that issues one op of the program
  // Full recomputation runs a layer's whole forward again, not only what its backward reads.
  bool whole_recompute = false;
  // Sends and receives between stages are waited for, not issued ahead.
  bool blocking_sends = false;
  // Tensor-parallel ranks send a part each between stages and gather the whole behind it.
  bool scatter_gather = false;
  // Share of tensor-parallel collectives hidden by kernels that cut them and their product in
  // pieces; the pieces cost no more than the whole.
  double tp_overlap = 0.0;
  // Share of the network's rate that collectives of data parallelism between nodes reach, beside
  // what a well-tuned library does.
  double network_share = 1.0;
  MemoryFigure memory_figure = MemoryFigure::kAllocated;
  double allocator_slack = 0.0;  // held unused, as a share of what is in use

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
