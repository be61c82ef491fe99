// Compares the memory that the system reports for a run with the forecast. Slow: each plan fills
// hundreds of MiB.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/app/commands/small_run.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

struct MemoryCase {
  const char* name;
  const char* plan;
};

class ResidentMemory : public testing::TestWithParam<MemoryCase> {};

TEST_P(ResidentMemory, GrowsByWhatIsPredicted) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer keeps memory of its own; preset release runs this";
#endif
  const TemporaryFolder folder;
  SmallTraining(folder);
  const ProgramEnd end = RunForetrain(
      folder.path(),
      std::string("train --json --model gpt2-124m --layers 4 --sequence 64 --steps 2 ") +
          "--data text.txt " + GetParam().plan);
  ASSERT_EQ(end.code, 0) << end.errors;
  const nlohmann::json summary = LastLine(end.output);
  const auto predicted = summary.at("predicted_growth_bytes").get<std::int64_t>();
  const auto growth = summary.at("resident_growth_bytes").get<std::int64_t>();
  RecordProperty("predicted_mib", std::to_string(predicted / kMiB));
  RecordProperty("growth_mib", std::to_string(growth / kMiB));
  ASSERT_GE(predicted, 500 * kMiB);
  EXPECT_LE(std::abs(growth - predicted), predicted * 3 / 100 + 64 * kMiB)
      << "predicted " << predicted / kMiB << " MiB, grew by " << growth / kMiB << " MiB";
}

INSTANTIATE_TEST_SUITE_P(
    Plans, ResidentMemory,
    testing::Values(MemoryCase{"OneRank", "--ranks 1 --global-batch 4 --micro-batch 4"},
                    MemoryCase{"OneRankRecomputing",
                               "--ranks 1 --global-batch 8 --micro-batch 8 --recompute full"},
                    MemoryCase{"Dp2", "--ranks 2 --dp 2 --global-batch 4 --micro-batch 2"},
                    MemoryCase{"Dp2Zero3",
                               "--ranks 2 --dp 2 --zero 3 --global-batch 4 --micro-batch 2"},
                    MemoryCase{"Tp2", "--ranks 2 --tp 2 --global-batch 4 --micro-batch 4"},
                    MemoryCase{"Pp2", "--ranks 2 --pp 2 --global-batch 8 --micro-batch 2"}),
    [](const auto& at) { return std::string(at.param.name); });

}  // namespace
}  // namespace foretrain
