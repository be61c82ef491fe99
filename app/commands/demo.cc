#include <algorithm>
#include <cstdio>

#include "app/cli/output_file.h"
#include "app/commands/commands.h"
#include "app/embedded_data.h"
#include "app/forecast/calibration.h"
#include "app/report/report.h"
#include "app/runs/compared_runs.h"
#include "app/training/training.h"
#include "base/io/file_system.h"
#include "base/json/json.h"
#include "base/table.h"
#include "base/units.h"
#if FORETRAIN_HAVE_UI
#include "app/desktop/views.h"
#include "ui/desktop_view.h"
#endif

namespace foretrain {
namespace {

constexpr int kRanks = 2;
constexpr int kTimelineWidth = 96;
constexpr double kCalibrationSeconds = 15;
constexpr double kTrainingSeconds = 35;
constexpr std::int64_t kGlobalBatch = 16;
constexpr std::array<std::int64_t, 3> kMicroBatches = {2, 4, 8};

// The whole workflow in one command: measure, search, forecast, train, compare. Each part calls the
// code of its own command, so the demo shows nothing that the commands cannot repeat.
class Demo final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    arguments.Option("--out", folder_, "DIR",
                     "Folder for the files of the demo; created if missing");
    arguments.Option(
        "--data", data_, "FILE",
        "Text to train on; default: foretrain's own headers and pages, in DIR/text.txt");
    arguments.Option("--store", store_, "FILE",
                     "Store that records the runs; default: DIR/foretrain.db");
    arguments.Option("--screenshot", screenshot_, "FILE",
                     "Picture of the comparison; default: DIR/compare.png");
    arguments.Option("--device-profile", cluster_.device_profile, "FILE",
                     "Use the rates of this profile; default: measure them, into DIR/profile.json");
    DeclareJson(arguments);
    arguments.Footer(
        "To see the result again:\n"
        "  foretrain view foretrain-demo/foretrain.db --view compare");
  }

  // The store is closed before the report, which reads it as a user would.
  Result<Exit> Run() override {
    FT_TRY(PrepareFiles());
    FT_ASSIGN(const auto store, Store::Open(store_));
    Say("Files of this demo go to " + folder_ + "/");
    FT_TRY(Measure());
    FT_ASSIGN(const ForecastContext context, MakeContext(model_, cluster_));
    FT_ASSIGN(const Plan plan, Choose(context));
    FT_ASSIGN(const TrainingResult trained, TrainPlan(*store, context, plan));
    FT_TRY(store->Close());
    return Report(plan, trained);
  }

 private:
  // Checks every input and output before a minute of work, and names the files that were not given.
  Result<void> PrepareFiles() {
    PosixFileSystem files;
    if (!data_.empty()) {
      FT_TRY(files.Open(data_));
    }
    FT_TRY(CheckOutputFile("--screenshot", screenshot_));
    FT_TRY(files.CreateDirectories(folder_));
    const auto in_folder = [this](const char* name) { return folder_ + "/" + name; };
    if (store_.empty()) store_ = in_folder(kDefaultStore);
    if (screenshot_.empty()) screenshot_ = in_folder("compare.png");
    if (!data_.empty()) return {};
    data_ = in_folder("text.txt");
    return WriteFileAtomically(files, data_, DemoText());
  }

  // With --json, stdout holds JSON alone.
  void Say(const std::string& text) const {
    if (!json_) std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }

  // 1: measures this machine's rates for the ops of every plan that the search may choose.
  Result<void> Measure() {
    cluster_.ranks = kRanks;
    if (!cluster_.device_profile.empty()) return {};
    Say("1. Measuring this machine (about " + FormatSeconds(kCalibrationSeconds) + ")");
    FT_ASSIGN(const Catalogue catalogue, BuiltInCatalogue());
    FT_ASSIGN(const ModelSpec model, model_.Resolve(catalogue));
    CalibrationRequest request;
    request.options.seconds = kCalibrationSeconds;
    request.ranks = kRanks;
    for (const Plan& plan : Candidates(model)) request.options.targets.push_back({model, plan});
    FT_ASSIGN(const DeviceProfile profile, CalibrateThisMachine(request));
    cluster_.device_profile = folder_ + "/profile.json";
    FT_TRY(WriteProfile(cluster_.device_profile, profile));
    Say(ProfileText(profile));
    return {};
  }

  // Every plan trains the same global batch, so that their step times compare directly.
  static SearchSpace Space(const ModelSpec& model) {
    SearchSpace space;
    space.base.sequence = model.max_sequence;
    space.base.global_batch = kGlobalBatch;
    space.base.clip_norm = 1.0;
    space.Choose("dp", {1, 2});
    space.Choose("pp", {1, 2});
    space.Choose("micro_batch", {kMicroBatches.begin(), kMicroBatches.end()});
    space.Choose("zero_stage", {0, 1});
    space.Choose("schedule", {static_cast<std::int64_t>(ScheduleKind::k1f1b),
                              static_cast<std::int64_t>(ScheduleKind::kZbH1)});
    return space;
  }

  // The plans whose ops are measured: each split and micro-batch of Space(). ZeRO adds no op that
  // these lack.
  static std::vector<Plan> Candidates(const ModelSpec& model) {
    Plan base = Space(model).base;
    std::vector<Plan> plans;
    for (const std::int64_t micro_batch : kMicroBatches) {
      base.micro_batch = micro_batch;
      Plan data = base;
      data.dp = kRanks;
      plans.push_back(data);
      Plan pipeline = base;
      pipeline.pp = kRanks;
      plans.push_back(pipeline);
      pipeline.schedule = ScheduleKind::kZbH1;
      plans.push_back(pipeline);
    }
    return plans;
  }

  // 2: searches the plans and shows them, fastest first. Only the best few of the closed form are
  // simulated.
  Result<Plan> Choose(const ForecastContext& context) const {
    SearchOptions options;
    options.ranks = kRanks;
    // Simulates a few; the closed form ranks the rest.
    options.simulated = 6;
    FT_ASSIGN(const SearchResult result,
              SearchPlans(context.model, context.costs, Space(context.model), options));
    Say("2. Plans for " + context.model.name + " on " + std::to_string(kRanks) + " ranks, " +
        std::to_string(kGlobalBatch) + " samples of " + std::to_string(context.model.max_sequence) +
        " tokens a step\n");
    Table table({"plan", ">step time", ">device memory"});
    for (const RankedPlan& ranked : result.plans) {
      table.AddRow({Describe(ranked.plan), FormatSeconds(ranked.step_s),
                    FormatBytes(ranked.device.Total())});
    }
    Say(table.Text(2));
    return result.plans.front().plan;
  }

  // 3: shows the forecast of the best plan. 4: trains it. The number of steps follows from the
  // forecast, so that training takes about kTrainingSeconds on any machine.
  Result<TrainingResult> TrainPlan(Store& store, const ForecastContext& context,
                                   const Plan& plan) const {
    FT_ASSIGN(const Forecast forecast, MakeForecast(context.model, plan, context.costs));
    const Metrics metrics = ForecastMetrics(context, forecast);
    Say("3. Forecast of " + Describe(plan) + "\n\n" + StepText(*metrics.overall));
    Say(MemoryText(PeaksOf(metrics)));
    Say(TimelineText(forecast.simulation.timeline, metrics.overall->step, kTimelineWidth));
    TrainingOptions options;
    options.data = data_;
    options.job.steps = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(kTrainingSeconds / forecast.simulation.step_s), 8, 200);
    options.json_lines = json_;
    Say("4. Training " + std::to_string(options.job.steps) + " steps on " + data_);
    return RunTraining(store, context, plan, options);
  }

  // 5: compares forecast and measurement, and prints the commands that go on from here. A picture
  // that cannot be drawn is a message on stderr: the numbers do not depend on it.
  Result<Exit> Report(const Plan& plan, const TrainingResult& trained) {
    FT_ASSIGN(const StoreReader reader, StoreReader::Open(store_));
    FT_ASSIGN(const ComparedRuns runs, CompareRuns(reader, trained.run, 0));
    std::string picture;
#if FORETRAIN_HAVE_UI
    FT_ASSIGN(RunPair pair, LoadPair(reader, trained.run, 0));
    FT_ASSIGN(CompareInput input, CompareInputOf(reader, std::move(pair)));
    OpenedStore opened{.path = store_, .run = trained.run, .input = std::move(input)};
    if (const auto drawn = ScreenshotDesktop(std::move(opened), {}, screenshot_);
        drawn.has_value()) {
      picture = screenshot_;
    } else {
      std::fprintf(stderr, "foretrain: no picture: %s\n", drawn.error().message.c_str());
    }
#endif
    const std::string command = "foretrain train " + CommandLineOf(model_, plan) + " --ranks " +
                                std::to_string(kRanks) + " --data " + data_ + " --device-profile " +
                                cluster_.device_profile + " --steps " +
                                std::to_string(trained.summary.steps);
    if (json_) {
      JsonWriter json;
      json.BeginObject().Field("schema", 1).Field("plan", Describe(plan)).Field("run", trained.run);
      json.Field("first_loss", trained.first_loss).Field("last_loss", trained.last_loss);
      WriteComparison(json, runs.view, runs.Names());
      json.Field("picture", picture).Field("train", command);
      std::puts(json.EndObject().Take().c_str());
      return Exit::kDone;
    }
    Say("\n   loss " + std::to_string(trained.first_loss) + " -> " +
        std::to_string(trained.last_loss) + "\n");
    Say("5. Forecast against measurement\n\n" + ComparisonText(runs.view) +
        ComparisonDetails(runs.view, runs.Names()));
    if (!picture.empty()) Say("picture       " + picture);
    Say("this run      foretrain compare --store " + store_ + " --run " +
        std::to_string(trained.run));
    Say("suggestions   foretrain analyze --store " + store_ + " --run " +
        std::to_string(trained.run));
    Say("trace         foretrain export --store " + store_ + " --run " +
        std::to_string(trained.run) + " --out trace.json");
    Say("again         " + command);
    return Exit::kDone;
  }

  // foretrain's own headers and pages, embedded at build time.
  static std::string_view DemoText();

  ModelFlags model_;
  ClusterFlags cluster_;
  std::string data_;
  std::string folder_ = "foretrain-demo";
  std::string store_, screenshot_;  // empty until PrepareFiles: in the folder
};

std::string_view Demo::DemoText() {
  for (const EmbeddedFile& file : app_data::Files()) {
    if (file.path.ends_with("demo_text.txt")) return file.text;
  }
  return {};
}

}  // namespace

std::unique_ptr<Command> MakeDemo() { return std::make_unique<Demo>(); }

}  // namespace foretrain
