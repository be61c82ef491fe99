// A plan file: what is accepted is sound, and is the same when written and read again.
#include <string_view>

#include "sim/spec/plan_json.h"
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
