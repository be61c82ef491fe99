// Buckets without the tensors that lie in them, for who lays out those of many plans: how large
// each is and which blocks share it. Leaves out names and places (stage.h).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/program/groups.h"
#include "sim/program/lower/stage.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

// What a layout needs to know of a parameter.
struct ParameterSize {
  bool present = false;           // the model has it
  std::int64_t elements = 0;      // on one rank
  std::int64_t packed_bytes = 0;  // of what is quantized
  bool token_table = false;
  bool decays = false, own_rows = false, experts = false, frozen = false, quantized = false;
};

inline constexpr std::size_t kLayoutKinds = 4;  // of BlockKind

// By BlockKind and parameter; empty for a kind that the model has not.
struct ParameterSizes {
  std::array<std::vector<ParameterSize>, kLayoutKinds> of_kind;
};

// Of a valid plan of a valid model. O(parameters of a block of each kind).
ParameterSizes SizesOf(const ModelSpec& model, const Plan& plan);

// LayOutBuckets but for `places`, which stay empty. `sizes` are the plan's. O(parameters).
BucketLayout LayOutSizes(const ParameterSizes& sizes, const Plan& plan, const Stage& stage,
                         const RankCoordinates& at);

}  // namespace foretrain
