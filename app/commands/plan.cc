#include <algorithm>
#include <cstdio>

#include "app/commands/commands.h"
#include "app/forecasting.h"
#include "base/json.h"
#include "base/table.h"
#include "base/units.h"

namespace foretrain {
namespace {

class PlanCommand final : public Command {
 public:
  std::string_view Name() const override { return "plan"; }
  std::string_view Summary() const override { return "Search the fastest plans that fit"; }

  void Declare(Arguments& arguments) override {
    model_.Declare(arguments);
    cluster_.Declare(arguments);
    plan_.Declare(arguments);
    arguments.Section("Search");
    arguments.Option("--top", top_, "N", "Plans to show, each simulated");
    DeclareJson(arguments);
    arguments.Footer(
        "A choice of the plan may be a value, a list 1,2,4, a range 1..8 (powers of two) or auto.\n"
        "  foretrain plan --model gpt2-124m --cluster local\n"
        "  foretrain plan --model llama3-8b --cluster 1x8xh100 --tp 1..8 --zero 1,3 --sequence "
        "8192");
  }

  Result<Exit> Run() override {
    FT_ASSIGN(const ForecastContext context, MakeContext(model_, cluster_));
    SearchOptions options;
    options.ranks = context.cluster.Devices();
    options.simulated = static_cast<int>(std::clamp<std::int64_t>(top_, 1, 1000));
    FT_ASSIGN(const SearchSpace space, ChoicesOf(plan_, context.model, options.ranks));
    FT_ASSIGN(const SearchResult result, SearchPlans(context.model, context.costs, space, options));
    json_ ? PrintJson(result, space) : PrintTable(context, result, space);
    return Exit::kDone;
  }

 private:
  static double TokensPerSecond(const SearchSpace& space, const RankedPlan& plan) {
    return static_cast<double>(space.base.global_batch * space.base.sequence) / plan.step_s;
  }

  void PrintTable(const ForecastContext& context, const SearchResult& result,
                  const SearchSpace& space) const {
    std::printf("%s on %s, %lld samples of %lld tokens a step\nrates: %s\n\n",
                context.model.name.c_str(), context.cluster.name.c_str(),
                static_cast<long long>(space.base.global_batch),
                static_cast<long long>(space.base.sequence), context.profile_origin.c_str());
    Table table({{"plan"},
                 {"step", Align::kRight},
                 {"low", Align::kRight},
                 {"high", Align::kRight},
                 {"tokens/s", Align::kRight},
                 {"memory", Align::kRight},
                 {""}});
    for (const RankedPlan& plan : result.plans) {
      std::string marks = plan.pareto ? "pareto" : "";
      if (plan.tied && &plan != &result.plans.front()) marks += marks.empty() ? "tied" : ", tied";
      table.AddRow({foretrain::Describe(plan.plan), FormatSeconds(plan.step_s),
                    FormatSeconds(plan.low_s), FormatSeconds(plan.high_s),
                    FormatSi(TokensPerSecond(space, plan), ""), FormatBytes(plan.memory.peak.total),
                    marks});
    }
    std::fputs(table.Text().c_str(), stdout);
    std::printf("\n%d plans compared, %d dropped\n", result.evaluated, result.pruned);
    for (const Rejection& rejection : result.rejected) {
      std::printf("  %d %s, e.g. %s\n", rejection.count, rejection.reason.c_str(),
                  rejection.example.c_str());
    }
    if (!context.cluster.assumptions.empty()) {
      std::printf("assumed: %s\n", context.cluster.assumptions.c_str());
    }
    std::printf("\nforetrain %s %s\n", context.cluster.is_cpu ? "train" : "predict",
                CommandLineOf(model_, result.plans.front().plan).c_str());
  }

  static void PrintJson(const SearchResult& result, const SearchSpace& space) {
    JsonWriter json;
    json.BeginObject().Field("schema", 1).Field("evaluated", result.evaluated);
    json.Field("pruned", result.pruned).Name("plans").BeginArray();
    for (const RankedPlan& plan : result.plans) {
      json.BeginObject().Field("plan", foretrain::Describe(plan.plan)).Field("dp", plan.plan.dp);
      json.Field("tp", plan.plan.tp)
          .Field("pp", plan.plan.pp)
          .Field("micro_batch", plan.plan.micro_batch);
      json.Field("schedule", foretrain::Name(plan.plan.schedule))
          .Field("zero", plan.plan.zero_stage);
      json.Field("recompute", foretrain::Name(plan.plan.recompute))
          .Field("step_time_s", plan.step_s);
      json.Field("low", plan.low_s).Field("high", plan.high_s);
      json.Field("tokens_per_s", TokensPerSecond(space, plan));
      json.Field("peak_memory_gib", GibFromBytes(plan.memory.peak.total));
      json.Field("pareto", plan.pareto).Field("tied", plan.tied).EndObject();
    }
    json.EndArray().Name("rejected").BeginObject();
    for (const Rejection& rejection : result.rejected)
      json.Field(rejection.reason, rejection.count);
    std::puts(json.EndObject().EndObject().Take().c_str());
  }

  ModelFlags model_;
  ClusterFlags cluster_;
  PlanFlags plan_;
  std::int64_t top_ = 4;
};

}  // namespace

std::unique_ptr<Command> MakePlan() { return std::make_unique<PlanCommand>(); }

}  // namespace foretrain
