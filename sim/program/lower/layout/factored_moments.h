// Numbers of Adafactor's moments: one for each row and each column of a matrix, and one for each
// element of a vector.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/program/lower/layout/bucket_layout.h"

namespace foretrain {

// In the two moments of a bucket: of the rows of matrices, and of their columns and of vectors.
std::int64_t RowMomentsOf(const std::vector<MatrixPlace>& tensors);
std::int64_t ColMomentsOf(const std::vector<MatrixPlace>& tensors);

// In the whole model. 0 under other optimizers.
std::int64_t FactoredMoments(const ModelSpec& model, const Plan& plan);

}  // namespace foretrain
