#include "tests/sim/realistic_plans.h"

#include <algorithm>
#include <array>
#include <random>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/config/catalogue/catalogue.h"

namespace foretrain {
namespace {

constexpr std::array<std::string_view, 7> kModels = {
    "gpt2-124m", "gpt2-1558m", "gpt3-2.7b", "gpt3-6.7b", "llama3-8b", "llama2-13b", "mixtral-8x7b"};
constexpr std::array<std::string_view, 5> kClusters = {
    "1x8xa100-80gb-sxm", "2x8xa100-80gb-sxm", "1x8xh100-sxm", "4x8xh100-sxm", "8x8xa100-80gb-sxm"};

class Sampler {
 public:
  explicit Sampler(std::uint64_t seed) : random_(seed * 2 + 1) {}

  int Pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  template <class T>
  const T& From(const T* begin, std::size_t size) {
    return begin[static_cast<std::size_t>(Pick(0, static_cast<int>(size) - 1))];
  }

  // Takes a power of two out of `ranks`, up to `max`.
  int Take(int& ranks, int max) {
    int taken = 1;
    while (ranks % 2 == 0 && taken * 2 <= max && Pick(0, 2) > 0) taken *= 2, ranks /= 2;
    return taken;
  }

 private:
  std::mt19937_64 random_;
};

Plan AnyPlan(Sampler& sampler, const ModelSpec& model, int ranks) {
  Plan plan;
  plan.tp = sampler.Take(ranks, 8);
  plan.pp = sampler.Take(ranks, 8);
  plan.cp = sampler.Pick(0, 5) == 0 ? sampler.Take(ranks, 4) : 1;
  plan.dp = ranks;
  plan.sequence = std::min<std::int64_t>(model.max_sequence, 1024 << sampler.Pick(0, 2));
  plan.micro_batch = 1 << sampler.Pick(0, 2);
  const int rounds = plan.pp == 1 ? sampler.Pick(1, 4) : plan.pp * sampler.Pick(1, 4);
  plan.global_batch = plan.micro_batch * plan.dp * rounds;
  plan.schedule =
      static_cast<ScheduleKind>(sampler.Pick(0, static_cast<int>(ScheduleKind::kDualPipeV)));
  if (plan.schedule == ScheduleKind::kInterleaved) plan.vpp = sampler.Pick(2, 3);
  plan.zero_stage = sampler.Pick(0, 3);
  plan.recompute = static_cast<RecomputeKind>(sampler.Pick(0, 2));
  plan.sequence_parallel = plan.tp > 1 && sampler.Pick(0, 1) == 1;
  plan.vocab_parallel = plan.tp > 1 && sampler.Pick(0, 1) == 1;
  plan.cp_kind = static_cast<ContextParallelKind>(sampler.Pick(0, 2));
  plan.clip_norm = 1;
  plan.precision = sampler.Pick(0, 3) == 0 ? Precision::kFp32 : Precision::kBf16;
  if (model.experts > 0) plan.ep = std::min(plan.dp * plan.cp, 1 << sampler.Pick(0, 3));
  return plan;
}

Result<RealisticPlan> Make(Sampler& sampler, const Catalogue& catalogue) {
  RealisticPlan out;
  FT_ASSIGN(const ResolvedModel model,
            ResolveModel(sampler.From(kModels.data(), kModels.size()), "test", catalogue));
  out.model = model.model;
  FT_ASSIGN(out.cluster, ParseCluster(sampler.From(kClusters.data(), kClusters.size()), catalogue));
  out.plan = AnyPlan(sampler, out.model, out.cluster.Devices());
  FT_TRY(ValidatePlan(out.plan, out.model));
  return out;
}

}  // namespace

RealisticPlan RealisticPlanOf(std::uint64_t index) {
  static const Result<Catalogue> catalogue = BuiltInCatalogue();
  FT_CHECK(catalogue.has_value());
  Sampler sampler(index);
  for (int attempt = 0; attempt < 1000; ++attempt) {
    if (auto made = Make(sampler, *catalogue)) return *std::move(made);
  }
  FT_CHECK(false && "no valid plan in 1000 draws");
  return {};
}

}  // namespace foretrain
