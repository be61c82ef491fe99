// Sizes of buckets and the blocks that share them, without the tensors inside. The search uses them
// to lay out buckets for many plans. Leaves out names and places (stage.h).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/program/blocks/parameters.h"
#include "sim/program/ir/groups.h"
#include "sim/program/lower/layout/bucket_layout.h"

namespace foretrain {

// A matrix of a parameter, and its split over tensor-parallel ranks: each piece has `each` rows or
// columns, or fewer at the end, and lies on `copies` ranks.
struct MatrixSplit {
  MatrixPlace place;  // but for this rank's part
  SplitAxis axis = SplitAxis::kNone;
  std::int64_t each = 0;
  int copies = 1;
};

// A parameter as a layout needs it.
struct ParameterSize {
  bool present = false;           // the model has it
  std::int64_t elements = 0;      // on one rank
  std::int64_t packed_bytes = 0;  // if quantized, else 0
  bool token_table = false;
  std::vector<MatrixSplit> matrices;  // of which it consists, if Muon or Adafactor updates it
  bool decays = false, own_rows = false, experts = false, frozen = false, quantized = false;
};

inline constexpr std::size_t kLayoutKinds = kBlockKindCount;

// By BlockKind and parameter; empty for a kind that the model does not have.
struct ParameterSizes {
  std::array<std::vector<ParameterSize>, kLayoutKinds> of_kind;
};

// Sizes for a valid plan of a valid model. O(parameters of a block of each kind).
ParameterSizes SizesOf(const ModelSpec& model, const Plan& plan);

// Parameters of layers that Muon updates, in the whole model. 0 under other optimizers.
std::int64_t OrthogonalParameters(const ModelSpec& model, const Plan& plan);

// As LayOutBuckets, but with empty `places`. `sizes` belong to the plan. O(parameters).
BucketLayout LayOutSizes(const ParameterSizes& sizes, const Plan& plan, const Stage& stage,
                         const RankCoordinates& at);

}  // namespace foretrain
