// Small models with the features in which published models differ.
#pragma once

#include <ostream>
#include <vector>

#include "sim/config/model/model_spec.h"

namespace foretrain {

struct FeatureModel {
  const char* name;
  ModelSpec model;
};
inline void PrintTo(const FeatureModel& model, std::ostream* out) { *out << model.name; }

// Each has the size of TinyGpt and the name of a similar model family.
std::vector<FeatureModel> FeatureModels();

}  // namespace foretrain
