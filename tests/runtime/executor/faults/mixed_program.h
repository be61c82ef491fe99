// A program with an op of each kind that can fail, for tests of faults and of delays.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "sim/program/ir/program.h"

namespace foretrain {

// Numbers of the ops in the step of a rank that has a neighbour on either side. The first rank
// receives nothing and the last one sends nothing, so their later ops have lower numbers.
enum OpNumber : std::int32_t {
  kLoadOp,
  kComputeOp,
  kAllReduceOp,
  kReduceScatterOp,
  kAllGatherOp,
  kSendOp,
  kRecvOp,
  kNormOp,
  kReadOp,
};
inline constexpr std::array<const char*, 9> kMixedNames{
    "load", "compute", "grads.bucket2", "scatter", "gather", "send", "recv", "norm", "read"};

// Every rank: load, compute, three collectives, a send to the next rank, a receive from the
// previous one, an update and the host's read.
std::shared_ptr<const Program> MixedProgram(int ranks);

// Losses by step and rank of a run of four ranks in which each op starts up to 2 ms later, as
// `seed` says. Time is virtual: a deadlock would end the run at once by its time-out.
std::vector<float> LossesUnderDelays(std::uint64_t seed);

}  // namespace foretrain
