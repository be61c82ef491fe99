#include "app/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "app/commands/commands.h"
#include "app/device_choice.h"
#include "app/forecasting.h"
#include "app/local_gpu.h"
#include "app/output_file.h"
#include "base/file_system.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "runtime/nccl/nccl_world.h"
#include "sim/cost/cost_model.h"

namespace foretrain {
namespace {

constexpr const char* kDefaultNvmeFolder = "/tmp";

class CalibrateCommand final : public Command {
 public:
  std::string_view Name() const override { return "calibrate"; }
  std::string_view Summary() const override {
    return "Measure this machine's ops, alone and together, for forecasts";
  }

  void Declare(Arguments& arguments) override {
    model_.Declare(arguments);
    plan_.Declare(arguments);
    arguments.Section("Calibration");
    device_.Declare(arguments);
    arguments.Option(
        "--ranks", ranks_, "N",
        "Ranks that run at once on this machine; 0: the plan's, else one per core, one on "
        "a GPU");
    arguments.Option("--seconds", seconds_, "S", "Time to take, about");
    arguments.Option("--nvme", nvme_folder_, "DIR", "Folder on the disk to measure");
    arguments.Option("--cap-copy", cap_copy_, "RATE",
                     "Measure with copies between host and device capped, as `train` caps them");
    arguments.Option("--cap-nvme", cap_nvme_, "RATE", "The same for reads and writes of the disk");
    arguments.Option("--out", out_, "FILE",
                     "Where to write the profile; default: where forecasts look for it");
    DeclareJson(arguments);
    arguments.Footer(
        "  foretrain calibrate                              the usual splits of a small GPT\n"
        "  foretrain calibrate --model gpt2-124m --tp 2     the ops of one plan\n"
        "  foretrain calibrate --device cuda --seconds 120  this machine's first GPU");
  }

  Result<Exit> Run() override {
    FT_TRY(CheckOptions());
    CalibrationRequest request;
    request.seconds = seconds_;
    FT_ASSIGN(const DeviceChoice device, device_.Choose());
    request.device = device.api;
    request.device_number = device.Number();
    if (device.count > 1 && !device.number) JoinGpus(device.count, request);
    if (device_.IsCuda()) {
      FT_ASSIGN(const Catalogue catalogue, BuiltInCatalogue());
      FT_ASSIGN(request.cluster, LocalGpuCluster(catalogue, 1));
    }
    FT_ASSIGN(request.targets,
              device_.IsCuda() && !OnePlan() && !model_.Given() ? GpuTargets() : Targets());
    request.nvme.folder = nvme_folder_;
    if (!cap_copy_.empty()) {
      FT_ASSIGN(request.copy_caps.h2d_bytes_per_s, ParseBytesPerSecond("--cap-copy", cap_copy_));
      request.copy_caps.d2h_bytes_per_s = request.copy_caps.h2d_bytes_per_s;
    }
    if (!cap_nvme_.empty()) {
      FT_ASSIGN(request.copy_caps.nvme_bytes_per_s, ParseBytesPerSecond("--cap-nvme", cap_nvme_));
    }
    request.ranks = 1;
    for (const CalibrationTarget& target : request.targets) {
      request.ranks = std::max(request.ranks, target.plan.World());
    }
    FT_ASSIGN(const DeviceProfile profile, CalibrateThisMachine(request));
    const std::string path = out_.empty() ? LocalProfilePath(device_.IsCuda()) : out_;
    FT_TRY(WriteProfile(path, profile));
    Print(profile, path);
    return Exit::kDone;
  }

 private:
  // What would only show after the time that is asked for.
  Result<void> CheckOptions() const {
    if (!(seconds_ > 0) || !std::isfinite(seconds_)) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("--seconds: {} is no time; give a number above 0", seconds_));
    }
    FT_TRY(CheckOutputFile("--out", out_));
    PosixFileSystem files;
    FT_ASSIGN(const FileInfo disk, files.Stat(nvme_folder_));
    // The default may be missing: forecasts then have a disk's usual rates.
    if (nvme_folder_ != kDefaultNvmeFolder && disk.kind != FileKind::kDirectory) {
      return Fail(ErrorCode::kInvalidArgument, "--nvme: " + Printable(nvme_folder_, 512) +
                                                   " is no folder; name one on the disk to "
                                                   "measure");
    }
    return {};
  }

  // All GPUs, for what they tell each other; without NCCL one GPU is measured.
  static void JoinGpus(int count, CalibrationRequest& request) {
    const auto nccl = LoadNccl();
    if (!nccl.has_value()) {
      std::fprintf(stderr, "foretrain: communication between GPUs is not measured: %s\n",
                   nccl.error().message.c_str());
      return;
    }
    for (int number = 0; number < count; ++number) request.devices.push_back(number);
    request.world = NcclWorldMaker(*nccl);
  }

  bool OnePlan() const {
    return !plan_.plan_file.empty() || plan_.Given("dp") || plan_.Given("tp") || plan_.Given("pp");
  }

  Result<std::vector<CalibrationTarget>> Targets() const {
    FT_ASSIGN(const Catalogue catalogue, BuiltInCatalogue());
    FT_ASSIGN(const ModelSpec model, model_.Resolve(catalogue));
    if (ranks_ < 0 || ranks_ > kMaxRanks) {
      return Fail(ErrorCode::kInvalidArgument, "--ranks: " + std::to_string(ranks_) +
                                                   " is outside 0 to " + std::to_string(kMaxRanks) +
                                                   "; 0 takes one a core");
    }
    const int one_each = device_.IsCuda() ? 1 : ThisMachine().cores;
    const int ranks = ranks_ > 0 ? static_cast<int>(ranks_) : one_each;
    if (OnePlan()) {
      // What is not split takes one rank, unless --ranks says that dp takes the rest.
      PlanFlags flags = plan_;
      if (ranks_ == 0 && !flags.Given("dp")) flags.Text("dp") = "1";
      FT_ASSIGN(const Plan plan, PlanOf(flags, model, ranks));
      return std::vector<CalibrationTarget>{{model, plan}};
    }
    PlanFlags flags = plan_;
    for (const char* split : {"dp", "tp", "pp"}) flags.Text(split) = "1";
    FT_ASSIGN(const Plan base, PlanOf(flags, model, 1));
    return UsualTargets(model, base, ranks);
  }

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
  PlanFlags plan_;
  DeviceFlag device_;
  std::int64_t ranks_ = 0;
  double seconds_ = 20;
  std::string nvme_folder_ = kDefaultNvmeFolder;
  std::string cap_copy_, cap_nvme_;
  std::string out_;
};

}  // namespace

std::unique_ptr<Command> MakeCalibrate() { return std::make_unique<CalibrateCommand>(); }

}  // namespace foretrain
