// Small models that have what the models of the field differ in, for tests of their blocks.
#pragma once

#include <ostream>
#include <vector>

#include "sim/spec/model_spec.h"

namespace foretrain {

struct FeatureModel {
  const char* name;
  ModelSpec model;
};
inline void PrintTo(const FeatureModel& model, std::ostream* out) { *out << model.name; }

// Each of the size of TinyGpt, named by the family that it is like.
std::vector<FeatureModel> FeatureModels();

}  // namespace foretrain
