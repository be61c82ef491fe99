// The figure of memory that a source states for a run: of which rank, and of what. Leaves out the
// program's own memory (sim/memory).
#pragma once

#include <cstdint>

#include "sim/spec/cluster_spec.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"
#include "sim/spec/system_options.h"

namespace foretrain {

// Bytes that the system's eager kernels keep on the fullest rank beside the program, of the
// activations that its first stage holds at once, min(m, pp) micro-batches of its layers; with s
// tokens, b samples, f the MLP's width, t = tp, 2 bytes a number:
//   eager SwiGLU   2 f s b / t a layer
//   eager RMSNorm  its input in fp32, twice 4 s b h a layer
//   eager loss     logits in 16 bits and their softmax in fp32, 6 s b V / t once
// Layers that recompute keep none of the first two.
std::int64_t KeptByKernels(const ModelSpec& model, const Plan& plan, const SystemOptions& system);

// What nvidia-smi shows where the allocator's segments have `reserved` bytes.
std::int64_t ShownBytes(const ClusterSpec& cluster, const Plan& plan, const SystemOptions& system,
                        std::int64_t reserved);

// The figure that the system's source states, where the closed form of the fullest rank is `bytes`
// on stage `pp`.
std::int64_t MemoryFigureOf(const ModelSpec& model, const Plan& plan, const SystemOptions& system,
                            const ClusterSpec& cluster, std::int64_t bytes, int pp);

}  // namespace foretrain
