#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "app/cli/flags/dialect_flags.h"
#include "app/cli/flags/memory_margin.h"
#include "app/commands/commands.h"
#include "app/forecast/asked_plan.h"
#include "app/forecast/run_log.h"
#include "app/report/check_report.h"
#include "base/json/json.h"
#include "base/parallel.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

constexpr const char* kAssumedNode = "8xh100";
constexpr int kAssumedDevices = 8;

// Looks at another trainer's launch file, and with --log at a run of it. Exit code 1 says that the
// launch fails, or that the run is slower than the interval of its forecast.
class CheckCommand final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    model_.Declare(arguments);
    cluster_.Declare(arguments);
    plan_.Declare(arguments);
    dialect_.Declare(arguments, /*writes=*/false);
    arguments.Section("Check");
    arguments.Option("--log", log_, "FILE",
                     "Log of the run: what the trainer printed, or a trainer_state.json");
    margin_.Declare(arguments);
    DeclareTable(arguments);
    arguments.Footer(
        "  foretrain check --from megatron:run.sh --cluster 16x8xh100\n"
        "  foretrain check --from megatron:run.sh --cluster 16x8xh100 --log train.log");
  }

  // Files first: one that cannot be read is bad input. After that, a plan that cannot exist is a
  // finding.
  Result<Exit> Run() override {
    if (!dialect_.reads()) {
      return Refuse("check: give the launch file, e.g. --from megatron:run.sh");
    }
    FT_TRY(dialect_.Open());
    const bool assumes = cluster_.cluster == "local" && cluster_.ranks == 0;
    if (assumes) cluster_.cluster = std::string("1x") + kAssumedNode;
    FT_ASSIGN(const Catalogue catalogue, BuiltInCatalogue());
    FT_TRY(cluster_.Resolve(catalogue));
    if (const auto read = dialect_.Read(LaunchFields::kAll, model_, cluster_, plan_); !read) {
      const bool is_option = dialect_.launch().has_value() || !plan_.plan_file.empty();
      if (is_option) return tl::unexpected<Error>(read.error());
      return Refused(read.error(), LaunchAccount());
    }
    if (assumes) AssumeCluster();
    const Launch& launch = *dialect_.launch();
    if (!log_.empty()) {
      FT_ASSIGN(report_.log, ReadRunLog("--log", log_, launch));
    }
    FT_ASSIGN(const AskedMachine machine, AskMachine(model_, cluster_, plan_, dialect_));
    const auto asked = AskPlan(machine, plan_, dialect_);
    if (!asked) return Refused(asked.error(), launch.account);
    if (const auto done = Examine(machine.context, asked->plan); !done) {
      const ErrorCode code = done.error().code;
      const bool is_plan = code == ErrorCode::kInvalidArgument || code == ErrorCode::kUnsupported;
      if (!is_plan) return tl::unexpected<Error>(done.error());
      return Refused(done.error(), launch.account);
    }
    Print();
    if (report_.run && report_.run->verdict == RunVerdict::kSlower) return Exit::kNo;
    return HasError(report_.findings) ? Exit::kNo : Exit::kDone;
  }

 private:
  // The nodes that the launch file needs, of the usual kind.
  void AssumeCluster() {
    const std::int64_t ranks = std::max<std::int64_t>(1, dialect_.launch()->ranks);
    cluster_.cluster =
        fmt::format("{}x{}", (ranks + kAssumedDevices - 1) / kAssumedDevices, kAssumedNode);
    report_.assumed = "--cluster " + cluster_.cluster + ", because none is given";
  }

  // A launch that fails at its start.
  Result<Exit> Refused(const Error& error, const LaunchAccount& account) {
    report_.findings = {FindingOf(error, account)};
    report_.log.reset();
    Print();
    return Exit::kNo;
  }

  Result<void> Examine(const ForecastContext& context, const Plan& stated) {
    const Launch& launch = *dialect_.launch();
    const ClusterSpec& cluster = context.cluster;
    const LaunchDialect file{&dialect_.dialect(), dialect_.dialects(),
                             model_.described.empty() ? model_.model : ""};
    Plan plan = stated;
    if (report_.log) {
      RanPlan ran = RanPlanOf(*report_.log, file, stated, context.model, cluster.devices_per_node);
      plan = ran.plan;
      report_.differences = std::move(ran.differences);
    }
    report_.plan = fmt::format("{}, {} on {}", context.model.name, Describe(plan), cluster.name);
    report_.rates = context.profile_origin;
    if (!cluster.assumptions.empty()) {
      report_.assumed += (report_.assumed.empty() ? "" : "; ") + cluster.assumptions;
    }
    LintMemory memory;
    memory.device_bytes = cluster.device.memory_bytes;
    memory.host_bytes = cluster.host_memory_bytes;
    FT_ASSIGN(memory.limit_bytes, margin_.LimitOf(cluster_, cluster));
    const int threads = HardwareThreads();
    FT_ASSIGN(const PlanCauses causes, FindPlanCauses(context.model, context.costs, plan, file,
                                                      memory.limit_bytes, threads));
    report_.findings =
        LintPlan(context.model, context.costs, plan, file, launch.account, causes, memory, threads);
    for (Finding& finding : LintKeys(launch.account)) {
      report_.findings.push_back(std::move(finding));
    }
    // With a log, gains are its causes.
    if (report_.log) {
      std::erase_if(report_.findings, [](const Finding& one) { return one.kind == "speed"; });
    }
    std::stable_sort(report_.findings.begin(), report_.findings.end(),
                     [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
    if (!report_.log) return {};
    FT_ASSIGN(report_.run, CheckRun({&*report_.log, &launch.account, &context.model, &context.costs,
                                     plan, &causes}));
    return {};
  }

  void Print() const {
    if (json_) {
      JsonWriter json;
      json.BeginObject().Field("schema", 1);
      WriteCheck(json, report_);
      dialect_.WriteAccount(json);
      std::puts(json.EndObject().Take().c_str());
      return;
    }
    std::fputs(dialect_.AccountText().c_str(), stdout);
    std::fputs(CheckText(report_, LineWidth()).c_str(), stdout);
  }

  ModelFlags model_;
  ClusterFlags cluster_;
  PlanFlags plan_;
  DialectFlags dialect_;
  MemoryMargin margin_;
  std::string log_;
  CheckReport report_;
};

}  // namespace

std::unique_ptr<Command> MakeCheck() { return std::make_unique<CheckCommand>(); }

}  // namespace foretrain
