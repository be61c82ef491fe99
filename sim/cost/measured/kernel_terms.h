// The constants of the kernel models by name, for fits and files.
#pragma once

#include <string_view>
#include <vector>

#include "sim/cost/measured/attention_model.h"
#include "sim/cost/measured/collective_model.h"
#include "sim/cost/measured/exchange_model.h"
#include "sim/cost/measured/experts_model.h"
#include "sim/cost/measured/gemm_model.h"
#include "sim/cost/measured/training_model.h"

namespace foretrain {

struct NamedTerm {
  std::string_view name;
  double* value = nullptr;  // in the terms that were passed
  double known_to = 1;      // standard deviation of its logarithm before a fit
  double max = 1e12;
};

// Pointers are valid as long as `terms` lives.
std::vector<NamedTerm> TermsOf(GemmTerms& terms);
std::vector<NamedTerm> TermsOf(AttentionTerms& terms);
std::vector<NamedTerm> TermsOf(ExpertsTerms& terms);
std::vector<NamedTerm> TermsOf(TrainingTerms& terms);
std::vector<NamedTerm> TermsOf(CollectiveTerms& terms);
std::vector<NamedTerm> TermsOf(ExchangeTerms& terms);

}  // namespace foretrain
