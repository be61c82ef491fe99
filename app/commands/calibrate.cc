#include "app/forecast/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "app/cli/device_choice.h"
#include "app/cli/flags/dialect_flags.h"
#include "app/cli/flags/run_flags.h"
#include "app/cli/output_file.h"
#include "app/commands/commands.h"
#include "app/forecast/forecasting.h"
#include "app/forecast/kernel_learning.h"
#include "app/forecast/learning.h"
#include "app/training/local_gpu.h"
#include "base/io/file_system.h"
#include "base/json/json.h"
#include "base/text.h"
#include "runtime/device/cuda_plugin.h"
#include "runtime/nccl/nccl_world.h"
#include "sim/cost/cost_model.h"

namespace foretrain {
namespace {

// Measures rates for one plan, or for the usual splits of a model, and stores them where forecasts
// look. With --from-run or --step-time it measures nothing and learns from runs instead. All
// options are checked first, because the measurement takes as long as --seconds says.
class CalibrateCommand final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    model_.Declare(arguments);
    cluster_.Declare(arguments);
    plan_.Declare(arguments);
    dialect_.Declare(arguments, /*writes=*/false);
    arguments.Section("Calibration");
    device_.Declare(arguments);
    arguments.Option("--seconds", seconds_, "S", "Approximate duration of the measurement");
    DeclareOffloadLinks(arguments, request_.options.nvme, request_.options.copy_caps);
    arguments.Option("--out", out_, "FILE",
                     "File for the profile; default: where forecasts look for it");
    arguments.Section("Learning from measured runs");
    arguments.Option(
        "--from-run", from_run_, "STORE[:RUN]|LOG,...",
        "Learn from these runs instead of measuring; default RUN: the newest. With --from "
        "also logs of its trainer");
    arguments.Flag("--kernels", kernels_,
                   "Take the times of single ops from the kernels of the run, to forecast other "
                   "plans on more ranks; needs --out");
    arguments.Option("--step-time", step_time_, "TIME",
                     "Learn from one measured step, e.g. 12.3s, of the plan that the options name");
    DeclareJson(arguments);
    arguments.Footer(
        "  foretrain calibrate                              the ops of a small GPT, as usual plans "
        "split it\n"
        "  foretrain calibrate --model gpt2-124m --tp 2     the ops of one plan\n"
        "  foretrain calibrate --device cuda --seconds 120  this machine's first GPU\n"
        "  foretrain calibrate --from-run foretrain.db:3    learn from a stored run\n"
        "  foretrain calibrate --from megatron:run.sh --from-run train.log --cluster 16x8xh100\n"
        "  foretrain calibrate --from-run trace.db --kernels --model llama3-8b --cluster 1x8xh100 "
        "--tp 8 --out ops.json\n"
        "  foretrain calibrate --step-time 12.3s --preset megatron --model llama3-8b --cluster "
        "1x8xh100 --tp 2");
  }

  // Options, device, ops to measure, measurement, file. Without a named plan or model, a GPU is
  // measured with the shapes of GpuTargets.
  Result<Exit> Run() override {
    FT_TRY(CheckOptions());
    if (Learns()) return Learn();
    CalibrationRequest request = request_;
    request.options.seconds = seconds_;
    LoadKernelsEagerly();  // several GPUs may be measured together
    FT_ASSIGN(const DeviceChoice device, device_.Choose());
    request.device = device.api;
    request.options.device = device.Number();
    // A named GPU is measured alone.
    if (device.count > 1 && !device.number) JoinGpus(device.count, request);
    if (device_.IsCuda()) {
      FT_ASSIGN(const Catalogue catalogue, BuiltInCatalogue());
      FT_ASSIGN(request.cluster, LocalGpuCluster(catalogue, 1));
    }
    FT_ASSIGN(request.options.targets,
              device_.IsCuda() && !OnePlan() && !model_.Given() ? GpuTargets() : Targets());
    request.ranks = 1;
    // The largest plan decides how many ranks run at once.
    for (const CalibrationTarget& target : request.options.targets) {
      request.ranks = std::max(request.ranks, target.plan.World());
    }
    FT_ASSIGN(const DeviceProfile profile, CalibrateThisMachine(request));
    const std::string path = out_.empty() ? LocalProfilePath(device_.IsCuda()) : out_;
    FT_TRY(WriteProfile(path, profile));
    Print(profile, path);
    return Exit::kDone;
  }

 private:
  bool Learns() const { return !from_run_.empty() || !step_time_.empty(); }

  Result<Exit> Learn() {
    FT_TRY(dialect_.Read(LaunchFields::kAll, model_, cluster_, plan_));
    const LearnRequest request{model_, cluster_, plan_, dialect_, from_run_, step_time_, out_};
    if (kernels_) {
      FT_ASSIGN(const KernelLearning learned, LearnFromKernels(request));
      std::fputs(json_ ? (KernelLearningJson(learned) + "\n").c_str()
                       : KernelLearningText(learned).c_str(),
                 stdout);
      return Exit::kDone;
    }
    FT_ASSIGN(const LearnedProfile profile, LearnFromMeasurements(request));
    std::fputs(
        json_ ? (LearnedProfileJson(profile) + "\n").c_str() : LearnedProfileText(profile).c_str(),
        stdout);
    return Exit::kDone;
  }

  // Finds errors that would otherwise show only after the measurement.
  Result<void> CheckOptions() const {
    if (!(seconds_ > 0) || !std::isfinite(seconds_)) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("--seconds: {} is no time; give a number above 0", seconds_));
    }
    FT_TRY(CheckOutputFile("--out", out_));
    if (kernels_ && from_run_.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--kernels: name the run that has them with --from-run STORE[:RUN]");
    }
    if (!Learns() && (cluster_.cluster != "local" || !cluster_.device_profile.empty())) {
      return Fail(
          ErrorCode::kInvalidArgument,
          "--cluster, --device-profile: calibrate measures this machine; with --from-run or "
          "--step-time it learns from runs on others");
    }
    if (!Learns() && dialect_.reads()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "--from: says what a log is of; give that log with --from-run, or leave it out");
    }
    PosixFileSystem files;
    const std::string& nvme = request_.options.nvme.folder;
    FT_ASSIGN(const FileInfo disk, files.Stat(nvme));
    // The default may be missing: forecasts then have a disk's usual rates.
    if (nvme != NvmeOptions().folder && disk.kind != FileKind::kDirectory) {
      return Fail(ErrorCode::kInvalidArgument, "--nvme: " + Printable(nvme, 512) +
                                                   " is no folder; name one on the disk to "
                                                   "measure");
    }
    return {};
  }

  // Measures communication between all GPUs. Without NCCL only one GPU is measured.
  static void JoinGpus(int count, CalibrationRequest& request) {
    const auto nccl = LoadNccl();
    if (!nccl.has_value()) {
      std::fprintf(stderr, "foretrain: communication between GPUs is not measured: %s\n",
                   nccl.error().message.c_str());
      return;
    }
    for (int number = 0; number < count; ++number) request.options.devices.push_back(number);
    request.options.world = NcclWorldMaker(*nccl);
  }

  // True if the options name a split of ranks. Otherwise several usual splits are measured.
  bool OnePlan() const {
    return !plan_.plan_file.empty() || plan_.Given("dp") || plan_.Given("tp") || plan_.Given("pp");
  }

  // The model and plans whose ops are measured: the plan of the options, or the usual splits over
  // `ranks`.
  Result<std::vector<CalibrationTarget>> Targets() const {
    FT_ASSIGN(const Catalogue catalogue, BuiltInCatalogue());
    FT_ASSIGN(const ModelSpec model, model_.Resolve(catalogue));
    if (cluster_.ranks < 0 || cluster_.ranks > kMaxRanks) {
      return Fail(ErrorCode::kInvalidArgument, "--ranks: " + std::to_string(cluster_.ranks) +
                                                   " is outside 0 to " + std::to_string(kMaxRanks) +
                                                   "; 0 takes one a core");
    }
    const int one_each = device_.IsCuda() ? 1 : ThisMachine().cores;
    const int ranks = cluster_.ranks > 0 ? static_cast<int>(cluster_.ranks) : one_each;
    PlanFlags flags = plan_;
    if (device_.IsCuda()) PreferForGpu(model, flags);
    if (OnePlan()) {
      // Without --ranks the plan has one data-parallel rank; with it, dp takes the rest.
      if (cluster_.ranks == 0 && !flags.Given("dp")) flags.Text("dp") = "1";
      FT_ASSIGN(const Plan plan, PlanOf(flags, model, ranks));
      return std::vector<CalibrationTarget>{{model, plan}};
    }
    for (const char* split : {"dp", "tp", "pp"}) flags.Text(split) = "1";
    FT_ASSIGN(const Plan base, PlanOf(flags, model, 1));
    return UsualTargets(model, base, ranks);
  }

  // JSON has the rates alone; the profile's file has every point.
  void Print(const DeviceProfile& profile, const std::string& path) const {
    if (!json_) {
      std::printf("%s, %s: %zu times measured\n\n%s\nWritten to %s\n", profile.machine.c_str(),
                  profile.date.c_str(), profile.points.size(), ProfileText(profile).c_str(),
                  path.c_str());
      return;
    }
    JsonWriter json;
    json.BeginObject().Field("schema", 1).Field("profile", path).Field("date", profile.date);
    json.Field("points", profile.points.size());
    json.Field("gemm_flop_per_s", BestGemmRate(profile).value);
    json.Field("memory_bytes_per_s", profile.rates.memory_bytes_per_s.value);
    json.Field("launch_s", profile.rates.launch_s.value);
    if (profile.rates.graph_launch_s.provenance == Provenance::kMeasured) {
      json.Field("graph_launch_s", profile.rates.graph_launch_s.value);
      json.Field("graph_op_s", profile.rates.graph_op_s.value);
    }
    json.Field("gap_s", profile.rates.gap_s.value);
    json.Field("wake_s", profile.rates.wake_s.value);
    json.Field("reference_gemm_s", profile.reference.seconds);
    std::puts(json.EndObject().Take().c_str());
  }

  ModelFlags model_;
  ClusterFlags cluster_;
  PlanFlags plan_;
  DialectFlags dialect_;
  DeviceFlag device_;
  double seconds_ = 20;
  CalibrationRequest request_;  // the options that go to it as they are
  std::string out_, from_run_, step_time_;
  bool kernels_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeCalibrate() { return std::make_unique<CalibrateCommand>(); }

}  // namespace foretrain
