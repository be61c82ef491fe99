#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>
#include <vector>

#include "app/commands/commands.h"
#include "app/report/gpu_report.h"
#include "app/report/launched_kernels.h"
#include "app/report/longest_ops.h"
#include "app/report/memory/held_memory_report.h"
#include "app/report/ranges/range_report.h"
#include "app/report/report.h"
#include "app/report/suggestions.h"
#include "app/runs/inferred_plans.h"
#include "app/runs/recording_notes.h"
#include "app/runs/stored_runs.h"
#include "base/json/json.h"
#include "base/parallel.h"
#include "base/table.h"
#include "base/text.h"
#include "base/units.h"
#include "sim/cost/network/communication_groups.h"
#include "traces/import/ranks/rank_join.h"
#include "traces/metrics/bubble_causes.h"
#include "traces/metrics/data_wait.h"
#include "traces/metrics/skew.h"

namespace foretrain {
namespace {

constexpr int kTimelineWidth = 96;
constexpr std::size_t kMaxMessageBytes = 1000;

// The waits of one step: its bubble by cause and exposed communication in parts.
struct Waits {
  std::int32_t step = 0;
  std::optional<BubbleCauses> bubble{};
  ExposedParts exposed{};  // of all ranks
  DataWait data{};         // of all ranks
  std::int64_t ranks = 1;

  // Mean over ranks.
  double Seconds(std::int64_t ns) const { return SecondsFromNs(ns) / static_cast<double>(ranks); }
};

// Up to three indented lines: a step without a pipeline has no bubble, and one without exposed
// communication or waits for data has no line for them.
std::string TextOf(const Waits& waits) {
  std::string text;
  if (const auto& c = waits.bubble) {
    text += "  bubble by cause: schedule " + FormatSeconds(c->ScheduleSeconds()) + " (warm-up " +
            FormatSeconds(c->warm_up_s) + ", steady " + FormatSeconds(c->steady_s) +
            ", cool-down " + FormatSeconds(c->cool_down_s) + "), imbalance " +
            FormatSeconds(c->imbalance_s) + ", transfers " + FormatSeconds(c->transfers_s) +
            ", variation " + FormatSeconds(c->variation_s) + ", rest " + FormatSeconds(c->rest_s) +
            "\n";
  }
  const auto mean = [&waits](std::int64_t ns) { return FormatSeconds(waits.Seconds(ns)); };
  if (waits.data.waited_ns > 0) {
    text += fmt::format(
        "  data: waited {} for tokens, {} of it with an idle device: {:.1f} % of the "
        "step\n",
        mean(waits.data.waited_ns), mean(waits.data.exposed_ns), 100 * waits.data.ExposedShare());
  }
  if (waits.exposed.Sum() == 0) return text;
  return text + "  exposed communication: wire " + mean(waits.exposed.wire_ns) + ", skew " +
         mean(waits.exposed.skew_ns) + ", not split " + mean(waits.exposed.unknown_ns) + "\n";
}

// A step without a pipeline has no `bubble`.
void Write(JsonWriter& json, const Waits& waits) {
  json.Name("waits").BeginObject().Field("step", waits.step);
  if (const auto& c = waits.bubble) {
    json.Name("bubble").BeginObject();
    json.Field("warm_up_s", c->warm_up_s)
        .Field("steady_s", c->steady_s)
        .Field("cool_down_s", c->cool_down_s)
        .Field("imbalance_s", c->imbalance_s)
        .Field("transfers_s", c->transfers_s)
        .Field("variation_s", c->variation_s)
        .Field("rest_s", c->rest_s)
        .EndObject();
  }
  json.Name("exposed_communication").BeginObject();
  json.Field("wire_s", waits.Seconds(waits.exposed.wire_ns))
      .Field("skew_s", waits.Seconds(waits.exposed.skew_ns))
      .Field("not_split_s", waits.Seconds(waits.exposed.unknown_ns))
      .EndObject();
  json.Name("data").BeginObject();
  json.Field("waited_s", waits.Seconds(waits.data.waited_ns))
      .Field("exposed_s", waits.Seconds(waits.data.exposed_ns))
      .Field("exposed_share", waits.data.ExposedShare())
      .EndObject();
  json.EndObject();
}

// Shows one run in four parts: its step, its waits, its GPUs and suggestions. The first three come
// from the store alone. Suggestions need the plan, so an imported trace has none. All options are
// checked before anything is printed.
class Analyze final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    arguments.Option("--store", store_, "FILE", "Store with the runs");
    arguments.Option("--run", run_, "N", "Run to analyze; 0: the newest measured one");
    arguments.Option("--step", step_, "N",
                     "Step to show in detail; -1: the one with the median time");
    DeclareJson(arguments);
    arguments.Section("A part of a step as one table");
    arguments.Option("--by", by_, "op|class|rank", "Sum the spans of a step by this, and no more");
    arguments.Option("--window", window_, "BEGIN..END",
                     "Part of the step that --by sums, e.g. 1.2ms..1.9ms after its start");
    arguments.Option("--rank", rank_, "N", "Rank that --by sums; -1: all");
  }

  // From cheap to expensive: the option, the run, its metrics, then the forecasts of changed plans.
  // Text is flushed before these, so that a reader can begin; JSON is one object and waits.
  Result<Exit> Run() override {
    if (step_ < -1) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--step: " + std::to_string(step_) + " is no step; -1 takes the median one");
    }
    FT_ASSIGN(const std::optional<AskedRange> range, Range());
    FT_ASSIGN(const StoreReader reader, StoreReader::Open(store_));
    if (range) return PrintRange(reader, *range);
    FT_ASSIGN(RunPair pair, LoadPair(reader, run_, 0));
    const StoredRun& run = pair.measured ? *pair.measured : *pair.predicted;
    std::string title = run.info.label;  // for a trace, which does not name model and plan
    MetricOptions options;
    CommunicationGroups groups;
    std::optional<StoredContext> stored;  // `nullopt`: a trace, without a plan
    // A trace has neither model nor plan: MFU and suggestions stay out. It may tell its pipelines.
    options.pipelines = PipelinesIn(run.details_json);
    if (run.info.kind != RunKind::kImported) {
      FT_ASSIGN(stored, ContextOf(reader, run));
      const bool forecast = run.info.kind == RunKind::kPredicted;
      // A forecast shows its last, steady step.
      const int steps = forecast ? 100 : WarmupSteps(run.timeline);
      options = MetricOptionsFor(stored->context, stored->plan, steps);
      groups = CommunicationGroupsOf(stored->plan);
      title = stored->context.model.name + ", " + foretrain::Describe(stored->plan);
    }
    const Metrics metrics = ComputeMetrics(run.timeline, options);
    if (!metrics.overall) {
      return Fail(
          ErrorCode::kInvalidArgument,
          "run " + std::to_string(run.info.id) + " has no complete step" +
              (run.info.message.empty() ? ""
                                        : ": " + Printable(run.info.message, kMaxMessageBytes)));
    }
    // `metrics` leaves out warm-up steps, but --step may name any step that was recorded.
    const auto drawn = [&](const StepWindow& window) { return window.step == step_; };
    const std::vector<StepWindow>& windows = run.timeline.steps;
    if (step_ >= 0 && std::none_of(windows.begin(), windows.end(), drawn)) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--step: run " + std::to_string(run.info.id) + " has no step " +
                      std::to_string(step_) + "; it has steps " +
                      std::to_string(metrics.steps.front().step) + " to " +
                      std::to_string(metrics.steps.back().step));
    }
    const Waits waits = WaitsOf(run, options.pipelines, groups, metrics);
    const std::vector<GpuMean> gpus = GpuMeansOf(GpuCountersOf(run.counters), windows, waits.step);
    const auto inferred = InferredPlanOf(reader, run.info.id);
    const std::vector<HeldOfRank> held = HeldMemoryOf(reader, run.info.id);
    if (!json_) Print(run, title, metrics, TextOf(waits), GpuMeansText(gpus), held);
    if (!json_ && inferred) std::fputs(TextOf(*inferred).c_str(), stdout);
    std::fflush(stdout);  // the suggestions may take seconds
    // Absent for a trace; an error if nothing could be forecast.
    std::optional<Result<TriedChanges>> tried;
    if (stored) {
      tried = TrySingleChanges(stored->context.model, stored->context.costs, stored->plan,
                               HardwareThreads());
    }
    if (json_) {
      PrintJson(run, metrics, waits, gpus, held, inferred,
                tried && tried->has_value() ? &**tried : nullptr);
    } else if (tried) {
      PrintTried(run, metrics, *tried);
    }
    return Exit::kDone;
  }

 private:
  // The part of a step that is asked for; `nullopt` without --by.
  Result<std::optional<AskedRange>> Range() const {
    if (rank_ < -1 || rank_ > std::numeric_limits<std::int16_t>::max()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("--rank: {} is no recorded rank; -1 takes all", rank_));
    }
    if (step_ > std::numeric_limits<std::int32_t>::max()) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("--step: {} is no step", step_));
    }
    if (by_.empty() && (!window_.empty() || rank_ >= 0)) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} needs --by op, --by class or --by rank",
                              window_.empty() ? "--rank" : "--window"));
    }
    if (by_.empty()) return std::nullopt;
    AskedRange range{.window = window_};
    if (step_ >= 0) range.step = static_cast<std::int32_t>(step_);
    if (rank_ >= 0) range.rank = static_cast<int>(rank_);
    for (int i = 0; i < kSumByCount; ++i) {
      range.by = static_cast<SumBy>(i);
      if (foretrain::Name(range.by) == by_) return range;
    }
    return Fail(ErrorCode::kInvalidArgument,
                "--by: \"" + Printable(by_) + "\" is none of op, class, rank");
  }

  // The newest measured run, or the one that is named.
  Result<Exit> PrintRange(const StoreReader& reader, const AskedRange& asked) const {
    FT_ASSIGN(const RunChoice choice, ChoosePair(reader, run_, 0));
    const RunInfo& run = choice.measured ? *choice.measured : *choice.predicted;
    FT_ASSIGN(const ReportedRange range, ReadRange(reader, run.id, asked));
    if (!json_) {
      std::fputs(foretrain::TextOf(range).c_str(), stdout);
      return Exit::kDone;
    }
    JsonWriter json;
    json.BeginObject().Field("schema", 1).Field("run", run.id);
    foretrain::Write(json, range);
    std::puts(json.EndObject().Take().c_str());
    return Exit::kDone;
  }

  // The step to draw.
  int StepOf(const Metrics& metrics) const {
    return step_ >= 0 ? static_cast<int>(step_) : metrics.overall->step;
  }

  // Metrics of the step to draw; without --step those of the run.
  const StepMetrics& ShownOf(const Metrics& metrics) const {
    const auto is_asked = [this](const StepMetrics& step) { return step.step == step_; };
    const auto found = std::find_if(metrics.steps.begin(), metrics.steps.end(), is_asked);
    return step_ < 0 || found == metrics.steps.end() ? *metrics.overall : *found;
  }

  // `waits` and `gpus`: as text.
  void Print(const StoredRun& run, const std::string& title, const Metrics& metrics,
             const std::string& waits, const std::string& gpus,
             const std::vector<HeldOfRank>& held) const {
    std::printf("run %lld (%s, %s): %s\n\n", static_cast<long long>(run.info.id),
                std::string(foretrain::Name(run.info.kind)).c_str(),
                std::string(foretrain::Name(run.info.status)).c_str(), title.c_str());
    for (const std::string& note : RecordingNotes(run, metrics.coverage)) {
      std::printf("  %s\n", note.c_str());
    }
    if (run.info.status == RunStatus::kFailed) {
      std::printf(
          "  failed: %s\n  `foretrain runs --last-ops %lld` prints the newest ops of its "
          "ranks, if they were kept\n",
          Printable(run.info.message, kMaxMessageBytes).c_str(),
          static_cast<long long>(run.info.id));
    }
    const bool spans = !run.timeline.spans.empty();
    const StepMetrics& shown = ShownOf(metrics);
    if (step_ >= 0) std::printf("  step %d\n\n", shown.step);
    std::fputs(StepText(shown, spans).c_str(), stdout);
    const ClassSeconds& c = shown.classes;
    if (spans) {
      std::printf("\n  idle by cause: dependency wait %s, peer wait %s, host wait %s, drain %s\n",
                  FormatSeconds(c.dependency_wait_s).c_str(), FormatSeconds(c.peer_wait_s).c_str(),
                  FormatSeconds(c.host_wait_s).c_str(), FormatSeconds(c.drain_s).c_str());
    }
    std::fputs(waits.c_str(), stdout);
    std::printf("  step time of %zu steps: median %s, min %s, max %s\n\n", metrics.steps.size(),
                FormatSeconds(metrics.step_time_s.median).c_str(),
                FormatSeconds(metrics.step_time_s.min).c_str(),
                FormatSeconds(metrics.step_time_s.max).c_str());
    if (!gpus.empty()) {
      std::printf("  GPUs in step %d, means:\n%s\n", StepOf(metrics), gpus.c_str());
    }
    if (!spans && run.timeline.memory.empty()) {
      std::puts("  neither ops nor memory were recorded (--capture off)");
      return;
    }
    // A recording of launches has spans but no memory.
    const char* const none = run.info.kind == RunKind::kImported
                                 ? "  the trace holds no memory\n"
                                 : "  memory was not recorded (--capture launches)\n";
    std::fputs(run.timeline.memory.empty() ? none : MemoryText(PeaksOf(metrics)).c_str(), stdout);
    std::puts("");
    const std::string held_text = HeldMemoryText(held);
    if (!held_text.empty()) std::printf("%s\n", held_text.c_str());
    if (!spans) return;
    const int step = StepOf(metrics);
    const std::vector<OpGroup> ops = LongestOps(run.timeline, step);
    std::fputs(LongestOpsText(ops, shown.time_s).c_str(), stdout);
    if (!ops.empty()) std::puts("");
    const std::string kernels = LaunchedKernelsText(run.kernels, GpuOf(run.kernels));
    if (!kernels.empty()) std::printf("%s\n", kernels.c_str());
    std::fputs(TimelineText(run.timeline, step, kTimelineWidth).c_str(), stdout);
  }

  // Waits of the step to draw. In a forecast a communication begins once all its ranks have
  // arrived, so its exposed time is never split by arrival.
  Waits WaitsOf(const StoredRun& run, const std::vector<Pipeline>& pipelines,
                const CommunicationGroups& groups, const Metrics& metrics) const {
    Waits waits;
    waits.step = static_cast<std::int32_t>(StepOf(metrics));
    waits.bubble = CausesOfBubbles(run.timeline, pipelines, metrics.bubbles, waits.step);
    // Ranks of a forecast start a communication together, and so do those of a trace whose waits
    // were split off.
    const bool together =
        run.info.kind == RunKind::kPredicted || trace_import::IsAllMatched(run.details_json);
    waits.exposed = ExposedPartsOf(run.timeline, groups, waits.step, together);
    waits.data = DataWaitOf(run.timeline, waits.step);
    waits.ranks = std::max<std::int64_t>(
        1, std::count_if(run.timeline.steps.begin(), run.timeline.steps.end(),
                         [&](const StepWindow& window) { return window.step == waits.step; }));
    return waits;
  }

  // A failed search is a line of the report, not an error: the analysis above it is complete
  // without suggestions.
  static void PrintTried(const StoredRun& run, const Metrics& metrics,
                         const Result<TriedChanges>& tried) {
    if (!tried.has_value()) {
      std::printf("\nsuggestions: nothing was forecast: %s\n", tried.error().message.c_str());
      return;
    }
    std::printf("\n%s",
                SuggestionsText(*tried, *metrics.overall, run.info.kind != RunKind::kPredicted,
                                !run.timeline.spans.empty())
                    .c_str());
  }

  // `tried` is null for a trace, and if nothing could be forecast.
  void PrintJson(const StoredRun& run, const Metrics& metrics, const Waits& waits,
                 const std::vector<GpuMean>& gpus, const std::vector<HeldOfRank>& held,
                 const std::optional<InferredPlan>& inferred, const TriedChanges* tried) const {
    JsonWriter json;
    json.BeginObject().Field("schema", 1).Field("run", run.info.id);
    WriteMetrics(json, ShownOf(metrics), PeaksOf(metrics));
    Write(json, waits);
    WriteGpus(json, gpus, GpuFaultsOf(run.counters));
    json.Name("metrics").BeginArray();
    for (const MetricValue& value : Flatten(metrics)) {
      json.BeginObject()
          .Field("name", value.name)
          .Field("rank", value.rank)
          .Field("step", value.step);
      json.Field("value", value.value).EndObject();
    }
    json.EndArray();
    WriteLongestOps(json, LongestOps(run.timeline, StepOf(metrics)));
    WriteLaunchedKernels(json, run.kernels, GpuOf(run.kernels));
    WriteHeldMemory(json, held);
    if (inferred) Write(json.Name("inferred_plan"), *inferred);
    if (tried != nullptr) WriteSuggestions(json, *tried);
    std::puts(json.EndObject().Take().c_str());
  }

  std::string store_ = kDefaultStore;
  std::int64_t run_ = 0;
  std::int64_t step_ = -1;
  std::string by_, window_;
  std::int64_t rank_ = -1;
};

}  // namespace

std::unique_ptr<Command> MakeAnalyze() { return std::make_unique<Analyze>(); }

}  // namespace foretrain
