// Tables of published runs: accepted entries have sound values, and are forecast or refused with a
// reason.
#include <cmath>
#include <string_view>

#include "base/checked.h"
#include "sim/validate/predict_run.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foretrain;
  static const CaseSources sources = BuiltInCaseSources().value();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto runs = ParsePublishedRuns(text, "fuzz");
  if (!runs.has_value()) {
    FT_CHECK(!runs.error().message.empty());
    return 0;
  }
  for (const PublishedRun& run : *runs) {
    FT_CHECK(!run.id.empty() && run.step_s >= 0 && std::isfinite(run.step_s));
    const auto of = CaseOf(run, sources);
    FT_CHECK(of.has_value() ? !of->plans.empty() : !of.error().message.empty());
  }
  return 0;
}
