#include "app/forecast/plan_search.h"

#include <utility>

#include "app/cli/defaults.h"
#include "sim/config/plan/plan_values.h"
#include "sim/search/space/default_space.h"
#include "sim/search/space/frameworks.h"

namespace foretrain {
namespace {

// Number formats of the trainer's software in every plan of the space. A launch file states its
// own.
Result<void> TakeFormats(const Preset& trainer, const PlanFlags& flags, SearchSpace& space) {
  Plan probe = space.base;
  if (flags.Given("precision")) {
    FT_ASSIGN(const std::vector<std::int64_t> values,
              ParsePlanValues(PlanFieldOf("precision"), flags.Text("precision")));
    PlanFieldOf("precision").set(probe, values.front());
  }
  ApplyFormats(trainer, flags.GivenFields(), probe);
  space.base.weights = probe.weights;
  space.base.gradients = probe.gradients;
  return {};
}

}  // namespace

void PlanSearch::Declare(Arguments& arguments, bool writes) {
  model_.Declare(arguments);
  cluster_.Declare(arguments);
  plan_.Declare(arguments);
  dialect_.Declare(arguments, writes);
  arguments.Section("Search");
  dialect_.DeclareTrainer(
      arguments,
      "Only plans that this trainer runs, with its software: any (what most have), megatron, "
      "torchtitan, deepspeed, fsdp, nanotron, llmq, foretrain (everything)");
  margin_.Declare(arguments);
}

Result<PlanQuestion> PlanSearch::Ask() {
  FT_TRY(dialect_.Read(LaunchFields::kTraining, model_, cluster_, plan_));
  FT_ASSIGN(std::optional<Preset> preset, plan_.ResolvePreset());
  FT_ASSIGN(const std::optional<Preset> trainer, dialect_.Software());
  FT_ASSIGN(ForecastContext context, MakeContext(model_, cluster_, preset ? preset : trainer));
  PlanQuestion question{std::move(preset), std::move(context)};
  FT_ASSIGN(question.space, ChoicesOf(plan_, question.context.model, question.context.cluster));
  FT_TRY(Restrict(question));
  FT_ASSIGN(question.memory_bytes, margin_.LimitOf(cluster_, question.context.cluster));
  if (!question.preset && trainer && !dialect_.reads() && !question.context.cluster.is_cpu) {
    FT_TRY(TakeFormats(*trainer, plan_, question.space));
  }
  question.defaults =
      DefaultsText(plan_, question.preset, question.context.model, question.space.base);
  return question;
}

// Leaves to the space what the framework has. Options that the user gives, a preset and a plan file
// state themselves what is to be run, and CPUs run foretrain's own plans.
Result<void> PlanSearch::Restrict(PlanQuestion& question) const {
  FT_ASSIGN(const std::vector<Framework> frameworks, BuiltInFrameworks());
  FT_ASSIGN(Framework framework, FindFramework(frameworks, dialect_.Trainer()));
  const bool open = !question.preset && plan_.plan_file.empty() && !question.context.cluster.is_cpu;
  if (!open && dialect_.Trainer() == DialectFlags::kAnyTrainer) {
    question.framework =
        question.preset ? "options of preset " + question.preset->name : "foretrain's own options";
    return {};
  }
  question.framework = framework.title;
  const auto host = static_cast<std::int64_t>(OffloadTarget::kHost);
  question.offloads_more =
      Has(framework, "offload_gradients", host) && Has(framework, "offload_parameters", host);
  if (plan_.Given("expert_headroom")) framework.expert_headroom = 0;
  std::erase_if(framework.values,
                [this](const auto& entry) { return plan_.Given(entry.first->name); });
  RestrictTo(framework, question.context.model.AllLayers(), question.space);
  return {};
}

Result<SearchResult> PlanSearch::Search(SearchOptions options, PlanQuestion& question) const {
  const ForecastContext& context = question.context;
  options.ranks = context.cluster.Devices();
  options.memory_bytes = question.memory_bytes;
  bool open = question.offloads_more && !question.preset && plan_.plan_file.empty() &&
              !context.cluster.is_cpu;
  for (const char* field :
       {"offload_optimizer", "offload_gradients", "offload_parameters", "weights"}) {
    open = open && !plan_.Given(field);
  }
  SearchOptions first = options;
  first.advises = options.advises && !open;
  Result<SearchResult> found = SearchPlans(context.model, context.costs, question.space, first);
  if (!open) return found;
  for (const OffloadLevel level : {OffloadLevel::kGradients, OffloadLevel::kParameters}) {
    if (found || found.error().code != ErrorCode::kInfeasible) return found;
    SearchSpace wider = question.space;
    OffloadMore(level, wider);
    found = SearchPlans(context.model, context.costs, wider, first);
    if (found) question.space = std::move(wider);
  }
  if (found || found.error().code != ErrorCode::kInfeasible || !options.advises) return found;
  return SearchPlans(context.model, context.costs, question.space, options);
}

}  // namespace foretrain
