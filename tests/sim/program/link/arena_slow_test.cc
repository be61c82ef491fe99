// Length of arenas relative to the bytes in use at once, over random and realistic plans.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "sim/memory/peak_memory.h"
#include "sim/program/ir/program.h"
#include "tests/sim/random_plans.h"
#include "tests/sim/realistic_plans.h"

namespace foretrain {
namespace {

// Bytes that the arena uses for a buffer: whole units, at least one.
template <std::int64_t kUnit>
std::int64_t Units(std::int64_t bytes) {
  return (bytes + kUnit - 1) / kUnit * kUnit;
}

class Gaps {
 public:
  void Add(const Program& program) {
    for (const RankProgram& rank : program.ranks) {
      for (const Space space : {Space::kDevice, Space::kPinned, Space::kNvme}) {
        const std::int64_t min =
            LinkedPeak(rank, space, space == Space::kDevice ? Units<256> : Units<4096>).total;
        const std::int64_t arena = rank.arena_bytes[static_cast<std::size_t>(space)];
        ASSERT_GE(arena, min);
        if (min == 0) continue;
        of_[std::string(Name(space))].push_back(static_cast<double>(arena - min) /
                                                static_cast<double>(min));
      }
    }
  }
  void Print(const char* plans) {
    for (auto& [space, gaps] : of_) {
      std::sort(gaps.begin(), gaps.end());
      std::printf("%s, %s: %zu arenas, median %.1f %%, p95 %.1f %%, max %.1f %%\n", plans,
                  space.c_str(), gaps.size(), 100 * At(gaps, 0.5), 100 * At(gaps, 0.95),
                  100 * gaps.back());
    }
  }
  double Median() { return At(of_.at(std::string(Name(Space::kDevice))), 0.5); }

 private:
  static double At(const std::vector<double>& sorted, double share) {
    return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
  }
  std::map<std::string, std::vector<double>> of_;
};

TEST(Arena, IsLittleLongerThanWhatIsInUseAtOnce) {
  const CompileOptions first{.ranks = RankChoice::kFirst};
  Gaps random, realistic;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const PlannedModel planned = RandomPlannedModel(i);
    const auto program = Compile(planned.model, planned.plan, first);
    ASSERT_TRUE(program.has_value()) << program.error().message;
    random.Add(*program);
  }
  for (std::uint64_t i = 0; i < 100; ++i) {
    const RealisticPlan one = RealisticPlanOf(i);
    const auto program = Compile(one.model, one.plan, first);
    ASSERT_TRUE(program.has_value()) << program.error().message;
    realistic.Add(*program);
  }
  random.Print("1,000 random plans");
  realistic.Print("100 realistic plans");
  EXPECT_LT(random.Median(), 0.08);
  EXPECT_LT(realistic.Median(), 0.03);
}

}  // namespace
}  // namespace foretrain
