// A model as a user gives it: config.json, ModelSpec or name. If it is accepted, it is sound, and
// writing and reading it again gives the same model.
#include <string_view>

#include "base/checked.h"
#include "sim/config/catalogue/catalogue.h"
#include "sim/config/model/model_json.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foretrain;
  static const Catalogue catalogue = BuiltInCatalogue().value();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto resolved = ResolveModel(text, "fuzz", catalogue);
  if (!resolved) {
    FT_CHECK(!resolved.error().message.empty());
    return 0;
  }
  const std::int64_t parameters = ParameterCount(resolved->model);
  FT_CHECK(parameters > 0 && parameters <= kMaxProduct);
  const auto again = ModelFromJson(ToJson(resolved->model), "written");
  FT_CHECK(again.has_value() && *again == resolved->model);
  return 0;
}
