// The peak memory of one rank, found in one of three ways:
//
//   PlannedPeak   from the order of a plan's instructions, without compiling it
//   LinkedPeak    from a linked program; equals PlannedPeak to the byte
//   ReservedPeak  by replaying the requests of two steps to a caching allocator
//
// Leaves out memory outside the program and its allocator, which device_use.h adds.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/config/plan/system_options.h"
#include "sim/program/ir/category_bytes.h"
#include "sim/program/ir/groups.h"
#include "sim/program/ir/program.h"
#include "traces/kinds.h"

namespace foretrain {

// Bytes by category at the first moment of the max total, in issue order. They sum to `total`.
struct PeakMemory {
  CategoryBytes bytes{};
  std::int64_t total = 0;
  // LinkedPeak's number of the op that first reaches the peak; -1: state alone, or not compiled.
  std::int32_t op = -1;
};

// One instruction that makes or frees bytes.
struct MemoryMoment {
  InstructionKey key;
  CategoryBytes fullest{};  // all live bytes at its peak
  CategoryBytes after{};    // all live bytes when it has ended
};

// Live bytes of one rank at each instruction. The highest total of `fullest` is the peak.
struct MemoryWalk {
  CategoryBytes state{};              // lives for the whole run
  std::vector<MemoryMoment> moments;  // in issue order
};

// Peak of the rank at `at` of a valid plan of a valid model. A buffer lives from its first access
// to its last in issue order; state always lives.
//
//   at     within the plan's sizes
//   space  only its bytes are counted
//   walk   if set, receives the bytes at each instruction
//
// Leaves out alignment and fragmentation of the arena. O(micro-batches * blocks of the stage); safe
// from any thread.
PeakMemory PlannedPeak(const ModelSpec& model, const Plan& plan, const RankCoordinates& at,
                       Space space = Space::kDevice, MemoryWalk* walk = nullptr);

// PlannedPeak of the fullest rank, and its pipeline rank.
struct FullestRank {
  int pp = 0;
  PeakMemory peak;
};
FullestRank PredictFullestRank(const ModelSpec& model, const Plan& plan);

// Peak of a rank of a linked program.
//
//   rank   linked, so its buffers have lifetimes: a buffer that is not persistent lives from
//          first_op to last_op, both included; one that no op touches never lives
//   taken  bytes that an allocator takes for a buffer of so many bytes; null: as many
//
// Issue order makes the peak independent of timing. Leaves out alignment and fragmentation of the
// arena. O(buffers + ops); safe from any thread.
PeakMemory LinkedPeak(const RankProgram& rank, Space space = Space::kDevice,
                      std::int64_t (*taken)(std::int64_t bytes) = nullptr);

struct ReservedMemory {
  std::int64_t allocated = 0;  // peak of bytes in use
  std::int64_t reserved = 0;   // peak of the allocator's segments
};

// Peaks of the rank at `at` over two steps of a valid plan of a valid model, with the tensors that
// kernels and libraries hold besides the program.
//
//   system    options that name the additional tensors: eager kernels, gradients of a micro-batch,
//             flat copies, late frees (SystemOptions)
//   capacity  bytes that segments may take; 0: no limit
//
// At most 2 pp micro-batches per chunk are replayed: the pipeline's fullest moment and one more
// round. O(ops of them); safe from any thread.
ReservedMemory ReservedPeak(const ModelSpec& model, const Plan& plan, const RankCoordinates& at,
                            const SystemOptions& system, std::int64_t capacity);

}  // namespace foretrain
