// From the bytes that a program keeps to the figure that a source states: what its kernels keep
// besides, and what nvidia-smi counts. Leaves out the program's own memory (sim/memory).
#pragma once

#include <cstdint>

#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"
#include "sim/spec/system_options.h"

namespace foretrain {

// Bytes that the system's kernels keep on the fullest rank beside the program, of the activations
// that its first stage holds at once, min(m, pp) micro-batches of its layers; with s tokens, b
// samples, a heads, f the MLP's width, t = tp, 2 bytes a number:
//   eager SwiGLU, rope  2 f s b / t and 2 (heads + kv_heads) head_dim s b / t a layer kept besides
//   eager RMSNorm       its input in fp32, twice 4 s b h a layer
//   eager loss          logits in 16 bits and their softmax in fp32, 6 s b V / t once
// Layers that recompute keep none of the three in the middle.
std::int64_t KeptByKernels(const ModelSpec& model, const Plan& plan, const SystemOptions& system);

// What nvidia-smi shows where `bytes` are in use: they, the allocator's slack, the device's context
// and the buffers of one communicator for each kind of group.
std::int64_t ShownBytes(const Plan& plan, const SystemOptions& system, std::int64_t bytes);

// The figure that the system's source states where the program keeps `bytes`.
std::int64_t MemoryFigureOf(const ModelSpec& model, const Plan& plan, const SystemOptions& system,
                            std::int64_t bytes);

}  // namespace foretrain
