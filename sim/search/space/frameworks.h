// The options that training frameworks have, so that a search proposes plans that one can run
// there. Read from sim/search/space/frameworks.json; leaves out how a framework spells them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/search/space/space.h"

namespace foretrain {

struct Framework {
  std::string name;   // "megatron"
  std::string title;  // "Megatron-LM and Megatron Bridge"
  // Values that the framework has, by field. A field without an entry may have any.
  std::vector<std::pair<const PlanField*, std::vector<std::int64_t>>> values;
  bool stage_lists = false;  // takes any number of layers for each stage
  std::string source;
};

// Parses the table. Errors name file, framework, field and value. O(bytes).
Result<std::vector<Framework>> ParseFrameworks(std::string_view text, std::string_view file);

// The built-in table, in its order.
Result<std::vector<Framework>> BuiltInFrameworks();

// Errors: kInvalidArgument, with all names.
Result<Framework> FindFramework(const std::vector<Framework>& frameworks, std::string_view name);

// Whether the framework has the value of the field.
bool Has(const Framework& framework, std::string_view field, std::int64_t value);

// Leaves to each choice of `space` only the values that the framework has. A choice that loses all
// values gets the framework's; so does a field of the base plan with another value.
void RestrictTo(const Framework& framework, SearchSpace& space);

}  // namespace foretrain
