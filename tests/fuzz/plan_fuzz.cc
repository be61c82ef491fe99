// A plan file: if it is accepted, it is sound, and writing and reading it again gives the same
// plan.
#include <string_view>

#include "sim/config/plan/plan_json.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foretrain;
  const auto plan = PlanFromJson({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!plan) {
    FT_CHECK(!plan.error().message.empty());
    return 0;
  }
  FT_CHECK(plan->World() >= 1 && plan->World() <= kMaxRanks);
  FT_CHECK(plan->MicroBatches() >= 1 && plan->MicroBatches() <= kMaxMicroBatches);
  FT_CHECK(!Describe(*plan).empty());
  const auto again = PlanFromJson(ToJson(*plan), "written");
  FT_CHECK(again.has_value() && *again == *plan);
  return 0;
}
