// A file of tokens: if it is accepted, every id of every batch is in the vocabulary.
#include <string>
#include <vector>

#include "base/checked.h"
#include "runtime/data/token_data.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foretrain;
  constexpr std::int64_t kVocab = 300;
  Plan plan;
  plan.sequence = 4;
  plan.global_batch = 2;
  plan.micro_batch = 1;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto tokens = TokenData::FromText(bytes, "fuzz", kVocab, plan);
  if (!tokens.has_value()) {
    FT_CHECK(!tokens.error().message.empty());
    return 0;
  }
  std::vector<std::int32_t> ids(4), targets(4);
  for (std::int64_t step = 0; step < 3; ++step) {
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      FT_CHECK((*tokens)->Fill({step, 0, micro_batch, 0}, ids, targets).has_value());
      for (const std::int32_t id : ids) FT_CHECK(id >= 0 && id < kVocab);
      for (const std::int32_t id : targets) FT_CHECK(id >= 0 && id < kVocab);
    }
  }
  return 0;
}
