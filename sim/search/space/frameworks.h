// The options that training frameworks have, so that a search proposes plans that one can run
// there. Read from sim/search/space/frameworks.json; leaves out how a framework spells them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/search/space/space.h"

namespace foretrain {

// With `degree` of at least `from`, `field` has only these values.
struct FrameworkLimit {
  const PlanField* degree = nullptr;
  std::int64_t from = 2;
  const PlanField* field = nullptr;
  std::vector<std::int64_t> values;
};

struct Framework {
  std::string name;   // "megatron"
  std::string title;  // "Megatron-LM and Megatron Bridge"
  // Values that the framework has, by field. A field without an entry may have any.
  std::vector<std::pair<const PlanField*, std::vector<std::int64_t>>> values;
  std::vector<FrameworkLimit> limits;
  bool stage_lists = false;    // takes any number of layers for each stage
  bool tunes_gathers = false;  // takes bounds of prefetched and kept parameters
  // Stages (virtual ones too) that may have a layer fewer than the others, without a list of layers
  // by hand; `nullopt`: any number.
  std::optional<std::int64_t> short_stages;
  std::string preset;  // whose software forecasts use; empty: foretrain's own
  // Memory for the rows of dropless experts, as a multiple of an even share, where tensors are as
  // large as what arrives; 0: for all rows, whatever the router chooses.
  double expert_headroom = 0.0;
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

// A sentence on the limit that a plan for `layers` layers breaks; empty if it breaks none.
std::string BrokenLimit(const Framework& framework, std::int64_t layers, const Plan& plan);

// Leaves to each choice of `space` only the values that the framework has. A choice that loses all
// values gets the framework's; so does a field of the base plan with another value. Plans that
// break a limit are refused. `layers`: of the model.
void RestrictTo(const Framework& framework, std::int64_t layers, SearchSpace& space);

}  // namespace foretrain
