// The memory of a search in a space of more than a million plans. Slow: it compares tens of
// thousands, and the others by bounds.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>

#include "base/units.h"
#include "sim/config/catalogue/catalogue.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/search/search.h"
#include "sim/search/space/default_space.h"
#include "tests/base/peak_memory.h"

namespace foretrain {
namespace {

constexpr std::int64_t kPlans = 1'000'000;

TEST(LargeSearch, OfAMillionPlansKeepsWithin512MiB) {
  if (!CanMeasureMemory())
    GTEST_SKIP() << "a sanitizer keeps memory of its own; runs in preset release";
  const Catalogue catalogue = BuiltInCatalogue().value();
  const ModelSpec model = ResolveModel("llama3-70b", "test", catalogue).value().model;
  const ClusterSpec cluster = ParseCluster("64x8xh100", catalogue).value();
  const CostModel costs = CostModel::Make(cluster, DeriveProfile(cluster)).value();
  Plan base;
  base.sequence = 8192;
  base.global_batch = 1024;
  base.precision = Precision::kBf16;
  const SearchSpace space = DefaultSpace(model, cluster, 512, base);
  ASSERT_GE(SpaceWalk(model, space, 512).size(), kPlans);
  SearchOptions options;
  options.ranks = 512;
  const std::int64_t bytes = PeakGrowthBytes([&] {
    const auto found = SearchPlans(model, costs, space, options);
    ASSERT_TRUE(found.has_value()) << found.error().message;
    std::printf("%lld plans compared, %lld not\n", static_cast<long long>(found->evaluated),
                static_cast<long long>(found->pruned));
    std::fflush(stdout);
  });
  std::printf("%lld MiB\n", static_cast<long long>(bytes / kMiB));
  EXPECT_LE(bytes, 512 * kMiB);
}

}  // namespace
}  // namespace foretrain
