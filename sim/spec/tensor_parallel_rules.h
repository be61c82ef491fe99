// What excludes what in cutting rows, columns and the vocabulary over tensor-parallel ranks: rows
// of plan_rules.h, each what is wrong and the nearest legal choice, or nothing.
#pragma once

#include <string>

#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

std::string VocabParallelNeedsTp(const Plan& plan);
std::string SequenceParallelNeedsTp(const Plan& plan);
std::string SequenceParallelNeedsEvenRows(const Plan& plan);
std::string TpTilesNeedTp(const Plan& plan);
std::string ScatteredTilesAreOfOneKind(const Plan& plan);
std::string ScatteredTilesNeedTwoNorms(const Plan& plan, const ModelSpec& model);

}  // namespace foretrain
