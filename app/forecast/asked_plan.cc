#include "app/forecast/asked_plan.h"

#include <utility>

#include "app/cli/defaults.h"

namespace foretrain {

Result<AskedMachine> AskMachine(const ModelFlags& model, const ClusterFlags& cluster,
                                const PlanFlags& plan, const DialectFlags& dialect) {
  FT_ASSIGN(std::optional<Preset> preset, plan.ResolvePreset());
  FT_ASSIGN(std::optional<Preset> trainer, dialect.Software());
  FT_ASSIGN(ForecastContext context, MakeContext(model, cluster, preset ? preset : trainer));
  return AskedMachine{std::move(preset), std::move(trainer), std::move(context)};
}

// A preset's own options count as given; of a trainer's software, what the user gave beside the
// launch file stays. A file and a plan file state number formats; without one they are the
// trainer's.
Result<AskedPlan> AskPlan(const AskedMachine& machine, const PlanFlags& flags,
                          const DialectFlags& dialect) {
  const ForecastContext& context = machine.context;
  PlanFlags with_defaults = flags;
  PreferPrecision(context.cluster, machine.preset, with_defaults);
  AskedPlan asked;
  FT_ASSIGN(asked.stated, PlanOf(with_defaults, context.model, context.cluster.Devices()));
  const bool takes_formats = machine.trainer && !machine.preset && !dialect.reads();
  if (takes_formats && !context.cluster.is_cpu && flags.plan_file.empty()) {
    ApplyFormats(*machine.trainer, flags.GivenFields(), asked.stated);
  }
  asked.plan = asked.stated;
  asked.defaults = DefaultsText(flags, machine.preset, context.model, asked.stated);
  if (context.cluster.is_cpu) return asked;
  if (machine.preset) {
    ApplySoftware(*machine.preset, with_defaults.GivenFields(), asked.plan);
  } else if (machine.trainer) {
    ApplySoftware(*machine.trainer, dialect.reads() ? dialect.given() : flags.GivenFields(),
                  asked.plan);
  }
  return asked;
}

}  // namespace foretrain
