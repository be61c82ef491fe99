#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "app/cli/command_line.h"
#include "app/cli/flags/memory_margin.h"
#include "app/commands/commands.h"
#include "app/forecast/forecasting.h"
#include "app/forecast/search_watch.h"
#include "base/json/json.h"
#include "base/parallel.h"
#include "base/table.h"
#include "base/text.h"
#include "base/units.h"
#include "sim/config/plan/plan_fields.h"
#include "sim/config/plan/plan_values.h"
#include "sim/search/advice/fit.h"

namespace foretrain {
namespace {

// Common models by size.
constexpr std::string_view kUsualModels =
    "gpt2-124m,gpt2-1558m,llama3-8b,gpt3-13b,llama3-70b,gpt3-175b,llama3.1-405b";

struct Row {
  std::string model;
  TrainingMethod method = TrainingMethod::kFull;
  LongestFit fit;
};

// Finds, for each model and method, the longest sequence that some plan fits. Every option is
// checked before the first search, because a search may take minutes. Exit code 1 says that nothing
// fits.
class FitCommand final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    arguments.Section("Models");
    arguments.Option("--models", models_, "NAME,...", "Catalogue names or model files");
    arguments.Option("--method", method_, "full|lora|qlora|all",
                     "Parameters to train: all, adapters, or both");
    arguments.Parsed(
        "--sequence,--seq-length", "N", "Shortest sequence to try; 8k is 8,192",
        [this](const std::string& name, const std::string& text) -> Result<void> {
          FT_ASSIGN(sequence_, ParseTokenCount(name, text));
          return {};
        },
        std::to_string(sequence_));
    cluster_.Declare(arguments);
    margin_.Declare(arguments);
    DeclareTable(arguments);
    arguments.Footer(
        "The sequence is doubled from --sequence while a plan fits. Each row shows the longest one "
        "and "
        "its\nfastest plan, in closed form.\n"
        "  foretrain fit --cluster 1x8xa100-80gb-sxm\n"
        "  foretrain fit --cluster 4xrtx4090 --models llama3-8b --method qlora");
  }

  Result<Exit> Run() override {
    const PlanField& field = PlanFieldOf("method");
    std::vector<TrainingMethod> methods;
    for (std::size_t i = 0; i < field.choices.size(); ++i) {
      if (method_ != "all" && method_ != field.choices[i]) continue;
      methods.push_back(static_cast<TrainingMethod>(i));
    }
    if (methods.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("--method: \"{}\" is none of {}, all", Printable(method_),
                              fmt::join(field.choices, ", ")));
    }
    if (sequence_ < 1 || sequence_ > kMaxModelCount) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("--sequence: {} is outside 1 to {}", sequence_, kMaxModelCount));
    }
    // Ctrl-C during any search prints nothing: half a table would look complete.
    SearchWatch watch(!json_);
    ClusterSpec cluster;
    for (const std::string_view name : Split(models_, ',')) {
      ModelFlags flags;
      flags.model = std::string(Trim(name));
      flags.option = "--models";
      FT_ASSIGN(const ForecastContext context, MakeContext(flags, cluster_));
      cluster = context.cluster;
      for (const TrainingMethod method : methods) {
        FitOptions options;
        options.method = method;
        options.min_sequence = sequence_;
        FT_ASSIGN(options.memory_bytes, margin_.LimitOf(cluster_, context.cluster));
        options.threads = HardwareThreads();
        options.cancelled = [&watch] { return watch.Cancelled(); };
        // O(log(longest / shortest)) searches, since the sequence doubles.
        auto fit = FitOf(context.model, context.costs, options);
        // An error of a cancelled search is only the cancellation.
        if (!fit && watch.Cancelled()) return ExitOfSignal(StopSignal());
        FT_ASSIGN(LongestFit found, std::move(fit));
        rows_.push_back({flags.model, method, std::move(found)});
      }
    }
    json_ ? PrintJson(cluster) : PrintTable(cluster);
    const bool any = std::any_of(rows_.begin(), rows_.end(),
                                 [](const Row& row) { return row.fit.best.has_value(); });
    return any ? Exit::kDone : Exit::kNo;
  }

 private:
  // The names are those of the plan's own field, so that both always agree.
  static std::string MethodName(TrainingMethod method) {
    return std::string(PlanFieldOf("method").choices[static_cast<std::size_t>(method)]);
  }
  // "[#######   ] 71.2 GiB"; of an unknown size no bar.
  static std::string Bar(std::int64_t bytes, std::int64_t of) {
    if (of == 0) return FormatBytes(bytes);
    constexpr std::int64_t kWidth = 10;
    const std::int64_t full = std::clamp<std::int64_t>(bytes * kWidth / of, 0, kWidth);
    return "[" + std::string(static_cast<std::size_t>(full), '#') +
           std::string(static_cast<std::size_t>(kWidth - full), ' ') + "] " + FormatBytes(bytes);
  }
  // A command that forecasts the row's plan again.
  std::string CommandOf(const Row& row, const ClusterSpec& cluster) const {
    ModelFlags model;
    model.model = row.model;
    return foretrain::CommandOf(model, cluster_, std::nullopt, row.fit.best->plan, cluster);
  }

  // A row without a plan says what breaks first at the shortest sequence.
  void PrintTable(const ClusterSpec& cluster) const {
    Table table({"model", "method", ">sequence", ">tokens/s", ">tokens/s a device", "device memory",
                 "host memory", "breaks first"});
    table.DropFirst({"tokens/s a device"});
    table.Wrap("breaks first");
    for (const Row& row : rows_) {
      if (!row.fit.best) {
        table.AddRow({row.model, MethodName(row.method), "none", "", "", "", "", row.fit.breaks});
        continue;
      }
      const Evaluation& estimate = row.fit.best->estimate;
      // Ranks of a node share its host memory evenly.
      const std::int64_t host = cluster.host_memory_bytes / cluster.devices_per_node;
      table.AddRow({row.model, MethodName(row.method), std::to_string(row.fit.sequence),
                    FormatSi(row.fit.tokens_per_s, ""),
                    FormatSi(row.fit.tokens_per_s / row.fit.best->plan.World(), ""),
                    Bar(estimate.memory_bytes, cluster.device.memory_bytes),
                    estimate.host_bytes > 0 ? Bar(estimate.host_bytes, host) : "", row.fit.breaks});
    }
    if (csv_) return Show(table);
    std::printf("on %s\n", cluster.name.c_str());
    if (!cluster.assumptions.empty()) std::printf("assumed: %s\n", cluster.assumptions.c_str());
    std::puts("");
    Show(table);
    std::puts("");
    for (const Row& row : rows_) {
      if (row.fit.best) std::puts(CommandOf(row, cluster).c_str());
    }
  }

  // `fits` false leaves out everything about a plan.
  void PrintJson(const ClusterSpec& cluster) const {
    JsonWriter json;
    json.BeginObject().Field("schema", 1).Field("cluster", cluster.name);
    json.Field("assumed", cluster.assumptions).Name("rows").BeginArray();
    for (const Row& row : rows_) {
      json.BeginObject().Field("model", row.model).Field("method", MethodName(row.method));
      json.Field("fits", row.fit.best.has_value()).Field("breaks_first", row.fit.breaks);
      if (row.fit.best) {
        const Evaluation& estimate = row.fit.best->estimate;
        json.Field("sequence", row.fit.sequence).Field("tokens_per_s", row.fit.tokens_per_s);
        json.Field("plan", Describe(row.fit.best->plan));
        json.Field("device_memory_gib", GibFromBytes(estimate.memory_bytes));
        json.Field("host_memory_gib", GibFromBytes(estimate.host_bytes));
        json.Field("command", CommandOf(row, cluster));
      }
      json.EndObject();
    }
    std::puts(json.EndArray().EndObject().Take().c_str());
  }

  ClusterFlags cluster_;
  MemoryMargin margin_;
  std::string models_{kUsualModels};
  std::string method_ = "all";
  std::int64_t sequence_ = 1024;
  std::vector<Row> rows_;
};

}  // namespace

std::unique_ptr<Command> MakeFit() { return std::make_unique<FitCommand>(); }

}  // namespace foretrain
