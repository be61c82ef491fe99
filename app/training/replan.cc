#include "app/training/replan.h"

#include <cstdio>
#include <string_view>

#include "app/cli/flags/plan_flags.h"
#include "base/io/file_system.h"
#include "runtime/checkpoint/checkpoint.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/search/search.h"
#include "sim/search/space/default_space.h"

namespace foretrain {
namespace {

// Fields that say how ranks share the work, and what is recomputed or kept elsewhere for it. All
// others say what is trained.
constexpr std::string_view kOfRanks[] = {"dp",
                                         "cp",
                                         "tp",
                                         "pp",
                                         "ep",
                                         "expert_tp",
                                         "cp_kind",
                                         "sequence_parallel",
                                         "vocab_parallel",
                                         "rank_order",
                                         "micro_batch",
                                         "vpp",
                                         "schedule",
                                         "schedule_slots",
                                         "stage_layers",
                                         "post_validation",
                                         "zero_stage",
                                         "replicas",
                                         "prefetch_depth",
                                         "bucket_bytes",
                                         "gather_bytes",
                                         "unsharded_bytes",
                                         "gather_format",
                                         "reduction_time",
                                         "recompute",
                                         "recompute_modules",
                                         "recompute_layers",
                                         "recompute_every",
                                         "loss_chunks",
                                         "mlp_tiles",
                                         "tp_tiles",
                                         "moe_pieces",
                                         "offload_optimizer",
                                         "offload_gradients",
                                         "offload_parameters",
                                         "offload_activations",
                                         "offload_fraction",
                                         "stream_optimizer"};

}  // namespace

Result<Plan> PlanForRanks(const ForecastContext& context, const Plan& saved, int ranks) {
  if (saved.World() == ranks) return saved;
  Plan base = saved;
  for (const std::string_view name : kOfRanks) CopyField(PlanFieldOf(name), Plan{}, base);
  const SearchSpace space = DefaultSpace(context.model, context.cluster, ranks, base);
  SearchOptions options;
  options.ranks = ranks;
  options.threads = ThisMachine().cores;
  options.advises = false;
  FT_ASSIGN(const SearchResult found, SearchPlans(context.model, context.costs, space, options));
  return found.plans.front().plan;
}

Result<Plan> Replan(const std::string& resume, const MachineOfRanks& machine, int launched,
                    ForecastContext& context) {
  PosixFileSystem files;
  FT_ASSIGN(const NewestCheckpoint newest, OpenNewest(files, resume, /*verify=*/false));
  const Plan& saved = newest.checkpoint.manifest().plan;
  const int asked = context.cluster.Devices();
  while (true) {
    const int ranks = context.cluster.Devices();
    const auto plan = PlanForRanks(context, saved, ranks);
    if (!plan && plan.error().code == ErrorCode::kInfeasible && ranks > 1 && launched <= 1) {
      FT_ASSIGN(context, machine(ranks - 1));
      continue;
    }
    if (plan && ranks < asked) {
      std::fprintf(stderr, "foretrain: --replan: %d ranks have no plan; the training takes %d\n",
                   asked, ranks);
    }
    if (plan && ranks != saved.World()) {
      std::fprintf(stderr, "foretrain: --replan: %d rank%s instead of %d: %s\n", ranks,
                   ranks == 1 ? "" : "s", saved.World(), Describe(*plan).c_str());
    }
    return plan;
  }
}

}  // namespace foretrain
