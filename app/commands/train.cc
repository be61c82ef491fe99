#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "app/cli/device_choice.h"
#include "app/cli/flags/bounded_numbers.h"
#include "app/cli/flags/capture_flags.h"
#include "app/cli/flags/checkpoint_flags.h"
#include "app/cli/flags/dialect_flags.h"
#include "app/cli/flags/launch_flags.h"
#include "app/cli/flags/learning_rate_flags.h"
#include "app/cli/flags/optimizer_flags.h"
#include "app/cli/flags/run_flags.h"
#include "app/cli/stop_signal.h"
#include "app/commands/commands.h"
#include "app/report/report.h"
#include "app/training/local_gpu.h"
#include "app/training/replan.h"
#include "app/training/restarts.h"
#include "app/training/training.h"
#include "app/training/training_report.h"
#include "base/io/file_system.h"
#include "base/json/json.h"
#include "base/text.h"
#include "base/units.h"
#include "runtime/device/cuda_plugin.h"
#include "runtime/executor/placement.h"
#include "runtime/run/loss_spikes.h"
#include "sim/program/ir/rank_order.h"

namespace foretrain {
namespace {

// Trains a plan on this machine. A forecast from the same rates is stored before the first step, so
// that every run can be compared.
class TrainCommand final : public Command {
 public:
  TrainCommand() { options_.job.steps = 100; }
  void Declare(Arguments& arguments) override {
    model_.Declare(arguments);
    cluster_.Declare(arguments);
    plan_.Declare(arguments);
    dialect_.Declare(arguments, /*writes=*/false);
    DeclareTraining(arguments);
    DeclareOutput(arguments);
    arguments.Footer(
        "  foretrain train --data book.txt --dp 2 --steps 50\n"
        "  mpirun -n 2 foretrain train --data book.txt --dp 2   one process a rank, also by "
        "torchrun\n"
        "Ctrl-C ends the run at a step boundary and keeps all steps before. A second Ctrl-C ends "
        "it at once.\n"
        "Exit codes: 0 done, 1 does not fit, 2 bad input, 3 a rank or the store failed, 130 and "
        "143 stopped\nby Ctrl-C, SIGTERM or SIGHUP. `foretrain runs` shows how a run ended.");
  }

  // From the cheapest check to the most expensive: options, launcher, device, model, plan, window,
  // placement. A failure after the processes have joined is told to the other processes, which
  // would wait for this one otherwise.
  Result<Exit> Run() override {
    FT_TRY(CheckOptions());
    FT_TRY(TakeModelOfInit());
    FT_ASSIGN(const LaunchedRank launched, launch_.Launched());
    if (restarts_ > 0) return Supervise(launched);
    FT_TRY(dialect_.Read(LaunchFields::kAll, model_, cluster_, plan_));
    FT_TRY(TakeTrainingOfLaunch());
    if (launched.world > 1 || cluster_.ranks > 1 || plan_.GivenRanks() > 1) LoadKernelsEagerly();
    FT_ASSIGN(const DeviceChoice device, device_.Choose());
    options_.device = device.api;
    if (options_.counters_interval_ns > 0 && !device_.IsCuda()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--sample-counters: the CPU has no counters; train with --device cuda");
    }
    // A launcher knows the number of ranks, so --ranks may be left out.
    if (launched.world > 1 && cluster_.ranks == 0) cluster_.ranks = launched.world;
    // Ranks may share a GPU, so the plan's sizes alone say how many there are.
    if (device_.IsCuda() && cluster_.ranks == 0) cluster_.ranks = plan_.GivenRanks();
    const MachineOfRanks machine = [this](int ranks) {
      if (ranks > 0) cluster_.ranks = ranks;
      return device_.IsCuda() ? MakeGpuContext(model_, cluster_) : MakeContext(model_, cluster_);
    };
    FT_ASSIGN(ForecastContext context, machine(0));
    std::optional<Plan> other;
    if (replan_) {
      FT_ASSIGN(other, Replan(options_.checkpoints.resume, machine, launched.world, context));
    }
    // A cluster can be forecast from any machine, but trained on only where it is.
    if (!context.cluster.is_cpu && !device_.IsCuda()) {
      return Fail(ErrorCode::kUnsupported,
                  "--cluster: training runs on this machine; use --cluster local --ranks N");
    }
    if (device_.IsCuda()) PreferForGpu(context.model, plan_);
    FT_ASSIGN(const Plan plan, other ? Result<Plan>(*other)
                                     : PlanOf(plan_, context.model, context.cluster.Devices()));
    if (options_.job.skips_spikes) FT_TRY(CheckSkipsSpikes(plan));
    ExecutorOptions& executor = options_.job.executor;
    executor.optimizer = optimizer_.SettingsOf(plan.optimizer);
    FT_ASSIGN(executor.window, capture_.Window(options_.capture, options_.job.steps, plan.World()));
    options_.json_lines = json_;
    options_.checkpoints.arguments = ArgumentsToSave(plan);
    // Both options divide one GPU among the ranks.
    const bool share = executor.sm_share > 0 || executor.take_turns;
    FT_ASSIGN(options_.ranks, launched.world > 1
                                  ? PlaceLaunchedRank(plan, device, share, launched,
                                                      executor.timeout_ns, launch_.check())
                                  : PlaceRanks(plan, device, share));
    auto end = options_.ranks.IsMember() ? RunMember(context, plan) : RunHere(context, plan);
    if (options_.ranks.processes != nullptr && !end.has_value()) {
      options_.ranks.processes->TellFailure(end.error());
    }
    return end;
  }

 private:
  // Values that need more than a number are read by a function that names the option in its error.
  void DeclareTraining(Arguments& arguments) {
    arguments.Section("Training");
    TrainJob& job = options_.job;
    ExecutorOptions& executor = job.executor;
    arguments.Option("--data", options_.data, "PATH[:WEIGHT],...",
                     "Texts, shards of tokens (foretrain tokenize, llm.c) or Megatron's .bin: "
                     "files, folders or patterns, mixed by their weights");
    arguments.Option("--tokenizer", options_.tokenizer, "PATH",
                     "tokenizer.json, or its folder, for a text; default: one token a byte");
    arguments.Flag("--shuffle", options_.shuffle,
                   "Read the data in another order in each epoch, chosen by --seed");
    arguments.Parsed("--document-end", "ID",
                     "Token that ends a document, for --documents; default: the tokenizer's own",
                     Into(options_.document_end, 0, INT32_MAX));
    arguments.Option("--init", options_.init, "PATH",
                     "Start from a safetensors file, a model's folder or Megatron's checkpoint");
    arguments.Option("--adapters", options_.adapters, "DIR",
                     "PEFT adapters of --init: trained on with --method lora, else merged");
    DeclareEvaluation(arguments, options_.evaluation);
    CheckpointOptions& checkpoints = options_.checkpoints;
    arguments.OptionalValue("--save", checkpoints.save, kDefaultCheckpoints, "DIR",
                            "Save checkpoints in this folder, also at the end and when stopped; "
                            "alone: checkpoints");
    arguments.Parsed("--save-every", "STEPS|TIME", "Steps or time (30s, 10min) between checkpoints",
                     IntoSaveEvery(checkpoints.every), "10min");
    arguments.Parsed("--keep", "N", "Newest checkpoints that stay",
                     Into(checkpoints.keep, 1, 1'000'000), "2");
    arguments.OptionalValue("--resume", checkpoints.resume, kDefaultCheckpoints, "DIR",
                            "Go on from the newest whole checkpoint of this folder, or from this "
                            "one, with the options of the run that saved it; options given now "
                            "count, also another plan; alone: checkpoints");
    arguments.Option("--restarts", restarts_, "N",
                     "If the training fails, go on from its newest checkpoint, at most so often; "
                     "with --save, and not under a launcher");
    arguments.Option("--min-ranks", fewest_ranks_, "N",
                     "With --restarts: if a training fails twice without a checkpoint in between, "
                     "go on with one rank fewer, down to N");
    arguments.Flag("--replan", replan_,
                   "With --resume: if there are other ranks than the checkpoint's, train by the "
                   "plan that `plan` finds for them");
    arguments.Option("--steps", job.steps, "N", "Steps to run");
    DeclareLearningRate(arguments, job.learning_rate);
    optimizer_.Declare(arguments);
    arguments.Choice("--on-spike", job.skips_spikes, {{"warn", false}, {"skip", true}},
                     "If the loss jumps far above those before: say so (warn), or also leave the "
                     "update of that step out (skip; with --clip)");
    arguments.Parsed("--seed", "N", "Seed of the initial weights, of dropout and of --shuffle",
                     Into(job.seed, 0, INT64_MAX));
    arguments.Parsed("--timeout", "TIME",
                     "How long a rank waits for its peers before the run fails",
                     IntoTimeout(executor), "10min");
    arguments.Bytes("--budget", executor.budget_bytes,
                    "Memory limit of each rank; a plan that needs more is refused");
    device_.Declare(arguments);
    arguments.Parsed("--sm-share", "N",
                     "Multiprocessors of the GPU that each rank has for itself; 0: ranks share all",
                     Into(executor.sm_share, 0, 10'000));
    DeclareGraphs(arguments, executor.graphs);
    arguments.Choice("--attention-kernels", executor.attention,
                     {{"auto", AttentionChoice::kAuto},
                      {"own", AttentionChoice::kOwn},
                      {"cudnn", AttentionChoice::kLibrary},
                      {"cudnn-any-order", AttentionChoice::kLibraryAnyOrder}},
                     "Attention kernels on a GPU: foretrain's own, cuDNN's, or the faster by the "
                     "profile, without one cuDNN's forward and foretrain's backward (auto). "
                     "cudnn-any-order sums gradients in no fixed order");
    arguments.Choice("--tensor-kernels", executor.tensor_kernels,
                     {{"mma", FT_TENSOR_MMA}, {"wgmma", FT_TENSOR_WGMMA}},
                     "Kernels for tensor cores of a GPU. wgmma: experts' products with TMA and "
                     "WGMMA, on compute capability 9.0 only; no GPU has run them yet");
    arguments.Flag("--virtual-time", executor.take_turns,
                   "Ranks compute one at a time. Adds an emulated step with a device for each "
                   "rank: measured compute, modelled network");
    arguments.Flag("--pin", executor.pin,
                   "Pin each rank to cores of its own, in the order of --rank-order");
    DeclareOffloadLinks(arguments, executor.nvme, executor.copy_caps);
    launch_.Declare(arguments);
  }

  void DeclareOutput(Arguments& arguments) {
    arguments.Section("Output");
    arguments.Option("--store", store_, "FILE", "Store that records the run");
    arguments.Choice("--capture", options_.capture,
                     {{"off", CaptureLevel::kOff},
                      {"launches", CaptureLevel::kLaunches},
                      {"full", CaptureLevel::kFull}},
                     "What to record: step times (off); also ops as the host sees them (launches); "
                     "also memory and the GPU's own records (full)");
    arguments.Choice(
        "--recording", options_.recording_required, {{"optional", false}, {"required", true}},
        "If the store cannot be written any more, e.g. on a full disk: train on without "
        "a record (optional), or stop (required)");
    arguments.Option("--metrics", options_.step_files.lines, "FILE.jsonl",
                     "Add a line of JSON for each step to this file");
    arguments.Option("--tensorboard", options_.step_files.tensorboard, "FOLDER",
                     "Write loss, speed and memory of each step for TensorBoard");
    capture_.Declare(arguments, options_.counters_interval_ns);
    DeclareJson(arguments);
  }

  static Arguments::ReadText IntoTimeout(ExecutorOptions& executor) {
    return [&executor](const std::string& name, const std::string& text) -> Result<void> {
      FT_ASSIGN(const double timeout_s, ParseSeconds(name, text));
      if (timeout_s < 1e-3 || timeout_s > 1e6) {
        return Fail(ErrorCode::kInvalidArgument,
                    name + ": \"" + text + "\" is outside 1 ms to 1000000 s");
      }
      executor.timeout_ns = NsFromSeconds(timeout_s);
      return {};
    };
  }

  // A folder of weights says which model they are of, unless options do.
  Result<void> TakeModelOfInit() {
    if (options_.init.empty() || model_.Given()) return {};
    PosixFileSystem files;
    const std::string config = options_.init + "/config.json";
    FT_ASSIGN(const FileInfo info, files.Stat(config));
    if (info.kind == FileKind::kRegular) model_.model = config;
    return {};
  }

  // Leaves the training to a child, and starts it again if it fails.
  Result<Exit> Supervise(const LaunchedRank& launched) {
    if (launched.world > 1) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--restarts: a launcher's processes end together; let the launcher start them "
                  "again with --resume");
    }
    if (options_.checkpoints.save.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--restarts: without --save there is nothing to go on from");
    }
    std::vector<std::string> child;
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      const std::string& one = arguments_[i];
      if (one == "--restarts" || one == "--min-ranks") {
        ++i;  // its value
      } else if (!one.starts_with("--restarts=") && !one.starts_with("--min-ranks=")) {
        child.push_back(one);
      }
    }
    return RunWithRestarts(child, {.restarts = static_cast<int>(restarts_),
                                   .fewest_ranks = static_cast<int>(fewest_ranks_),
                                   .folder = options_.checkpoints.save});
  }

  // A process other than rank 0's, which records and shows the run.
  Result<Exit> RunMember(const ForecastContext& context, const Plan& plan) {
    FT_ASSIGN(const bool stopped, TrainAsMember(context, plan, options_));
    return stopped || StopSignal() != 0 ? ExitOfSignal(StopSignal()) : Exit::kDone;
  }

  // Runs all ranks of this process and records the run. The store is closed before the summary is
  // printed, so a printed summary is on disk. A stopped run exits with the signal's code although
  // all its complete steps are stored.
  Result<Exit> RunHere(const ForecastContext& context, const Plan& plan) {
    if (!json_) {
      std::fputs(dialect_.AccountText().c_str(), stdout);
      std::printf("%s, %s on %s\nrates: %s\n", context.model.name.c_str(),
                  foretrain::Describe(plan).c_str(), context.cluster.name.c_str(),
                  context.profile_origin.c_str());
      PrintPlacement(plan);
    }
    FT_ASSIGN(const auto store, Store::Open(store_));
    FT_ASSIGN(const TrainingResult result, RunTraining(*store, context, plan, options_));
    const auto closed = store->Close();
    if (!closed.has_value() && result.unrecorded.empty()) {
      return tl::unexpected<Error>(closed.error());
    }
    const ParameterCounts counts = CountParameters(context.model, plan);
    json_ ? PrintResultJson(plan, result, counts, options_)
          : PrintResult(result, counts, options_, store_);
    if (!result.summary.stopped) return Exit::kDone;
    std::fprintf(stderr, "foretrain: stopped; %lld of %lld steps are stored as run %lld in %s\n",
                 static_cast<long long>(result.summary.steps),
                 static_cast<long long>(options_.job.steps), static_cast<long long>(result.run),
                 store_.c_str());
    return ExitOfSignal(StopSignal());
  }

  // Shows which ranks are neighbours, by the slot of each.
  void PrintPlacement(const Plan& plan) const {
    if (!options_.ranks.text.empty()) std::printf("ranks: %s\n", options_.ranks.text.c_str());
    const std::string groups = DescribeGroups(plan);
    if (groups.empty()) return;
    std::printf("rank order %s, slots: %s%s\n",
                std::string(NameOfRankOrder(plan.rank_order)).c_str(), groups.c_str(),
                options_.job.executor.pin ? ", each on its cores" : "");
  }

  // The command's arguments for a run that goes on: without the checkpoint to go on from and the
  // form of the output. The batch stands first, because its default depends on the plan.
  std::vector<std::string> ArgumentsToSave(const Plan& plan) const {
    std::vector<std::string> saved{"--global-batch=" + std::to_string(plan.global_batch)};
    for (const std::string& one : arguments_) {
      if (one != "--json" && !one.starts_with("--resume=")) saved.push_back(one);
    }
    return saved;
  }

  bool IsGiven(const std::string& option) const {
    return std::any_of(arguments_.begin(), arguments_.end(), [&](const std::string& argument) {
      return argument == option || argument.starts_with(option + "=");
    });
  }

  // Steps and learning rate of the launch file, unless the user gives them.
  Result<void> TakeTrainingOfLaunch() {
    if (!dialect_.launch()) return {};
    const Launch& launch = *dialect_.launch();
    TrainJob& job = options_.job;
    if (launch.steps > 0 && !IsGiven("--steps")) job.steps = launch.steps;
    if (launch.learning_rate > 0 && !IsGiven("--lr")) job.learning_rate.peak = launch.learning_rate;
    job.learning_rate.steps = job.steps;
    return CheckLearningRate(job.learning_rate);
  }

  // Checks the options that need no machine and no plan, so that a typing error fails before any
  // device is opened.
  Result<void> CheckOptions() {
    TrainJob& job = options_.job;
    if (options_.data.empty()) {
      return Fail(ErrorCode::kInvalidArgument, "--data: give a text or a token shard to train on");
    }
    if (job.steps < 1) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("--steps: {} is below 1", job.steps));
    }
    if (!options_.adapters.empty() && options_.init.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--adapters: give the weights of their base model with --init");
    }
    if (restarts_ < 0 || restarts_ > 1'000'000) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("--restarts: {} is outside 0 to 1000000", restarts_));
    }
    if (fewest_ranks_ < 0 || (fewest_ranks_ > 0 && restarts_ == 0)) {
      return Fail(ErrorCode::kInvalidArgument, "--min-ranks: must be >= 1, and needs --restarts");
    }
    if (replan_ && options_.checkpoints.resume.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--replan: without --resume there is no training to go on with");
    }
    job.learning_rate.steps = job.steps;
    // A launch file may give steps and rate (TakeTrainingOfLaunch).
    if (!dialect_.reads()) FT_TRY(CheckLearningRate(job.learning_rate));
    FT_TRY(CheckEvaluation(options_.evaluation));
    FT_TRY(CheckStepFiles(options_.step_files));
    // The forecast must assume CUDA graphs exactly if the run uses them.
    cluster_.cuda_graphs = job.executor.graphs;
    if (job.executor.graphs && job.executor.take_turns) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--cuda-graphs: --virtual-time measures op by op; leave one of the two out");
    }
    if (options_.counters_interval_ns > 0 && options_.capture == CaptureLevel::kOff) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--sample-counters: --capture off records nothing; leave one of the two out");
    }
    if (job.executor.take_turns && options_.capture == CaptureLevel::kOff) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--virtual-time: it emulates from recorded ops; leave --capture off out");
    }
    return {};
  }

  ModelFlags model_;
  ClusterFlags cluster_;
  PlanFlags plan_;
  DialectFlags dialect_;
  OptimizerFlags optimizer_;
  TrainingOptions options_;
  DeviceFlag device_;
  LaunchFlags launch_;
  CaptureFlags capture_;
  std::int64_t restarts_ = 0;
  std::int64_t fewest_ranks_ = 0;  // 0: as many as at first
  bool replan_ = false;
  std::string store_ = kDefaultStore;
};

}  // namespace

std::unique_ptr<Command> MakeTrain() { return std::make_unique<TrainCommand>(); }

}  // namespace foretrain
