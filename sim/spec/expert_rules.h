// What excludes what in dealing out a mixture of experts: rows of plan_rules.h, each what is wrong
// and the nearest legal choice, or nothing.
#pragma once

#include <string>

#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"

namespace foretrain {

std::string CapacityNeedsExperts(const Plan& plan, const ModelSpec& model);
std::string WholeExpertsNeedExperts(const Plan& plan, const ModelSpec& model);
std::string EpDividesRanksAndExperts(const Plan& plan, const ModelSpec& model);
std::string MlpTilesNeedAnMlp(const Plan& plan, const ModelSpec& model);
std::string HeadroomNeedsDroplessEp(const Plan& plan);
std::string HeadroomHoldsAnEvenShare(const Plan& plan);
std::string WholeExpertsNeedSplitRows(const Plan& plan);
std::string ExpertsAreCutOrWhole(const Plan& plan);
std::string MoePiecesNeedEp(const Plan& plan);
std::string MoePiecesFitTheTokens(const Plan& plan);
std::string BalanceGroupsAreWhole(const Plan& plan, const ModelSpec& model);
std::string EpNeedsOneReplica(const Plan& plan);
std::string BalancedBiasesStayHere(const Plan& plan, const ModelSpec& model);

}  // namespace foretrain
