#include "runtime/calibrate/calibrate.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "base/checked.h"
#include "base/units.h"
#include "runtime/calibrate/benchmark_data.h"
#include "runtime/calibrate/graph_launches.h"
#include "runtime/calibrate/microbenchmark.h"
#include "runtime/calibrate/profile_of.h"
#include "runtime/calibrate/reference_gemm.h"
#include "runtime/device/attention_kernels.h"
#include "runtime/device/gemm_algorithms.h"
#include "runtime/executor/executor.h"
#include "sim/program/ir/program.h"

namespace foretrain {
namespace {

constexpr std::int64_t kTimeoutNs = 120'000'000'000;
constexpr double kReferenceShare = 0.1;  // share of the time for the reference GEMM
// Shares of the time for the choice of GEMM algorithms, and for that of attention kernels.
constexpr double kChoicesShare = 0.2;
constexpr double kSliceSeconds = 0.4;  // a microbenchmark's turn, unless one step takes longer
constexpr int kReferenceTurns = 3;

// Min bytes of parameters between two uses of the same weight. It is several times a cache's size,
// so that no weight is still cached when it is used again.
constexpr double kRotatedBytes = 96e6;
constexpr std::int64_t kMaxRepeats = 8;

// Number of layers in an excerpt, at 12 h^2 / tp fp32 weights a layer: enough for kRotatedBytes, at
// most kMaxRepeats and the stage's layers.
int RepeatsFor(const CalibrationTarget& target) {
  const auto hidden = static_cast<double>(target.model.hidden);
  const double layer_bytes = 12 * hidden * hidden * 4 / target.plan.tp;
  const std::int64_t layers = CeilDiv(target.model.AllLayers(), target.plan.pp);
  return static_cast<int>(
      std::clamp<std::int64_t>(static_cast<std::int64_t>(kRotatedBytes / layer_bytes) + 1, 1,
                               std::min(layers, kMaxRepeats)));
}

class Calibration {
 public:
  Calibration(const CalibrateOptions& options, const FtDeviceApi& api, RunClock& clock)
      : options_(options), api_(api), clock_(clock), start_ns_(clock.Now()) {}

  Result<DeviceProfile> Run() {
    FT_TRY(MakeBenchmarks());
    FT_TRY(WarmUp());
    FT_TRY(RunRounds());
    FT_ASSIGN(DeviceProfile profile, MakeProfile(options_, table_, references_));
    profile.gemm_algorithms = algorithms_;
    profile.attention_times = attention_;
    FT_TRY(Report("launches of graphs"));
    FT_ASSIGN(const std::optional<GraphLaunches> graphs,
              TimeGraphLaunches(api_, options_.device, clock_, options_.stop));
    if (graphs) {
      profile.rates.graph_launch_s = {graphs->launch_s, Provenance::kMeasured};
      profile.rates.graph_op_s = {graphs->op_s, Provenance::kMeasured};
      FT_TRY(ValidateProfile(profile));
    }
    return profile;
  }

 private:
  struct Running {
    Microbenchmark benchmark;
    std::unique_ptr<Executor> executor;
    RandomTokens tokens;
    double step_s = 0;
  };

  double Elapsed() const { return SecondsFromNs(clock_.Now() - start_ns_); }
  bool Stopped() const { return options_.stop && options_.stop(); }

  Result<void> Report(const std::string& what) const {
    if (Stopped()) return Fail(ErrorCode::kAborted, "calibration was stopped");
    if (!options_.progress) return {};
    const double left = std::max(0.0, options_.seconds - Elapsed());
    options_.progress({what, Elapsed(), left, std::min(1.0, Elapsed() / options_.seconds)});
    return {};
  }

  // True if each rank has a device of its own.
  bool IsApart(const Program& program) const {
    return options_.world != nullptr && program.ranks.size() > 1 &&
           program.ranks.size() <= options_.devices.size();
  }
  // Device of each rank of the program.
  std::vector<int> DevicesOf(const Program& program) const {
    std::vector<int> devices(program.ranks.size(), options_.device);
    if (IsApart(program)) std::copy_n(options_.devices.begin(), devices.size(), devices.begin());
    return devices;
  }

  // Builds the executor and fills its state once, so that a turn costs the steps alone. Empty
  // programs are skipped.
  Result<void> AddBenchmark(Microbenchmark benchmark) {
    if (benchmark.program->ranks.empty() || benchmark.program->ranks.front().op_count == 0)
      return {};
    ExecutorOptions executor_options;
    const std::vector<int> devices = DevicesOf(*benchmark.program);
    for (std::size_t i = 0; i < devices.size(); ++i) {
      executor_options.local.push_back({benchmark.program->ranks[i].rank, devices[i]});
    }
    if (IsApart(*benchmark.program)) executor_options.world = options_.world;
    executor_options.timeout_ns = kTimeoutNs;
    executor_options.record_memory = false;
    executor_options.nvme = options_.nvme;
    executor_options.copy_caps = options_.copy_caps;
    executor_options.gemm_algorithms = algorithms_;
    executor_options.attention_times = attention_;
    FT_ASSIGN(std::unique_ptr<Executor> executor,
              Executor::Make(benchmark.program, api_, clock_, std::move(executor_options)));
    FT_TRY(FillState(benchmark, *executor, api_, devices));
    const std::int64_t tokens = benchmark.tokens;
    running_.push_back({std::move(benchmark), std::move(executor), RandomTokens(tokens), 0});
    return {};
  }

  // Adds the disk's microbenchmark. If no file can be created in the folder, the rest is measured
  // without a disk.
  Result<void> AddDisk(int world, Coverage& covered) {
    const Result<void> added = AddBenchmark(CopyGrid(world, true, covered, table_));
    if (added.has_value() || added.error().code != ErrorCode::kIo) return added;
    return Report("no disk: " + added.error().message);
  }

  // Adds the microbenchmark of one rank alone. If the target does not fit in memory and may be
  // skipped, its ops are left to the other targets.
  Result<void> AddAlone(const Program& program, int repeats, Coverage& covered) {
    const Coverage before = covered;
    const Result<void> added =
        AddBenchmark(ComputeBenchmark(program, true, repeats, covered, table_));
    if (added.has_value() || !options_.skip_what_does_not_fit) return added;
    const ErrorCode code = added.error().code;
    if (code != ErrorCode::kInfeasible && code != ErrorCode::kResourceExhausted) return added;
    covered = before;
    return Report("left out: " + added.error().message);
  }

  // Picks the GEMM algorithms first, because the targets are then measured with them, as a run
  // would use them.
  Result<void> ChooseAlgorithms(const std::vector<Program>& programs) {
    if (api_.gemm_algorithms == nullptr) return {};
    FT_TRY(Report("algorithms of GEMMs"));
    std::vector<FtGemm> products;
    for (const Program& program : programs) {
      for (const Block& block : program.blocks) {
        for (const Op& op : block.ops) {
          if (KernelOf(op.kind) != FT_KERNEL_GEMM || WhyUnsupported(api_, op)) continue;
          products.push_back(ProductOf(op, OperandsOf(block, op)[2].slot != kNoSlot));
        }
      }
    }
    FT_ASSIGN(algorithms_,
              TuneGemms(api_, products,
                        {.device = options_.device,
                         .is_over = [&] { return Elapsed() > kChoicesShare * options_.seconds; },
                         .stop = options_.stop}));
    return {};
  }

  // Times attention with the device's own kernels and with its library's, so that the executor can
  // use the faster.
  Result<void> ChooseAttention(const std::vector<Program>& programs) {
    if (api_.attention_library == nullptr) return {};
    FT_TRY(Report("kernels of attention"));
    std::vector<AttentionPass> passes;
    for (const Program& program : programs) {
      for (const Block& block : program.blocks) {
        for (const Op& op : block.ops) {
          const std::optional<AttentionPass> pass = AttentionPassOf(op);
          if (pass && !WhyUnsupported(api_, op)) passes.push_back(*pass);
        }
      }
    }
    FT_ASSIGN(attention_, TimeAttention(api_, passes,
                                        {.device = options_.device,
                                         .is_over =
                                             [&, begin = Elapsed()] {
                                               return Elapsed() - begin >
                                                      kChoicesShare * options_.seconds;
                                             },
                                         .stop = options_.stop}));
    return {};
  }

  // Adds the microbenchmarks of GPUs: overlap of GEMMs with copies and, between two and between all
  // devices, communication by size and overlap with an all-reduce.
  Result<void> AddDeviceBenchmarks(std::map<int, Coverage>& covered) {
    if (options_.cluster.is_cpu || !options_.grid) return {};
    const GpuSizes& sizes = options_.gpu;
    FT_TRY(AddBenchmark(OverlapBenchmark(1, sizes.gemm, sizes.elements, table_)));
    overlap_benchmarks_[running_.size() - 1] = &table_.copy_overlap;
    const auto all = static_cast<int>(options_.devices.size());
    for (const int world : std::set<int>{std::min(2, all), all}) {
      if (world < 2 || options_.world == nullptr) continue;
      FT_TRY(AddBenchmark(CommunicationGrid(world, sizes.max, covered[world], table_)));
      FT_TRY(AddBenchmark(OverlapBenchmark(world, sizes.gemm, sizes.elements, table_)));
      overlap_benchmarks_[running_.size() - 1] = &table_.collective_overlap;
    }
    return {};
  }

  // All targets are compiled first, then measured in order. `covered` keeps an op from being timed
  // twice at the same concurrency; grids and overheads follow once for each concurrency.
  Result<void> MakeBenchmarks() {
    std::map<int, Coverage> covered;  // by concurrency
    std::set<int> worlds{1};
    std::vector<Program> programs;
    for (const CalibrationTarget& target : options_.targets) {
      FT_TRY(Report("compiling " + Describe(target.plan)));
      FT_ASSIGN(Program program, Compile(target.model, target.plan));
      programs.push_back(std::move(program));
    }
    FT_TRY(ChooseAlgorithms(programs));
    FT_TRY(ChooseAttention(programs));
    for (std::size_t i = 0; i < programs.size(); ++i) {
      const CalibrationTarget& target = options_.targets[i];
      const Program& program = programs[i];
      const int world = target.plan.World();
      const int repeats = RepeatsFor(target);
      FT_TRY(AddAlone(program, repeats, covered[1]));
      if (world == 1) continue;
      worlds.insert(world);
      FT_TRY(AddBenchmark(ComputeBenchmark(program, false, repeats, covered[world], table_)));
      FT_TRY(AddBenchmark(CommunicationBenchmark(program, repeats, covered[world], table_)));
    }
    for (const int world : worlds) {
      if (options_.grid) {
        FT_TRY(AddBenchmark(ComputeGrid(world, covered[world], table_)));
        if (world > 1) {
          FT_TRY(AddBenchmark(CommunicationGrid(world, kMaxOfProcessors, covered[world], table_)));
        }
        FT_TRY(AddBenchmark(CopyGrid(world, false, covered[world], table_)));
        FT_TRY(AddDisk(world, covered[world]));
      }
      FT_TRY(AddBenchmark(OverheadBenchmark(world, table_)));
      overhead_benchmarks_.insert(running_.size() - 1);
    }
    worlds_.assign(worlds.begin(), worlds.end());
    return AddDeviceBenchmarks(covered);
  }

  Result<std::vector<Span>> RunBenchmark(Running& running, std::int64_t steps) {
    FT_TRY(Report(running.benchmark.name));
    SpanSink sink;
    FT_ASSIGN(const RunSummary summary, running.executor->Run(steps, running.tokens, sink));
    if (steps > 1 || running.step_s == 0) {
      running.step_s = summary.seconds / static_cast<double>(steps);
    }
    return sink.Take();
  }

  // Runs one step of each: libraries compile and load their kernels, and the step's time sets the
  // length of later turns.
  Result<void> WarmUp() {
    for (Running& running : running_) FT_TRY(RunBenchmark(running, 1));
    return {};
  }

  // The same GEMM three times over the calibration tells a drift of the machine from a property of
  // an op.
  Result<void> MeasureReferences() {
    for (const int world : worlds_) {
      FT_TRY(
          Report("reference GEMM on " + std::to_string(world) + (world == 1 ? " rank" : " ranks")));
      const double seconds = std::clamp(options_.seconds * kReferenceShare / kReferenceTurns /
                                            static_cast<double>(worlds_.size()),
                                        0.02, 1.0);
      FT_ASSIGN(const Spread spread,
                MeasureReferenceGemm(api_, options_.device, clock_, world, seconds));
      references_[world].push_back(spread);
    }
    return {};
  }

  // Rounds over all microbenchmarks until the time is spent. The first round is always complete, so
  // each op has at least one sample. References come at the start, halfway and at the end.
  Result<void> RunRounds() {
    FT_TRY(MeasureReferences());
    const double reference_s = Elapsed();
    bool halfway = false;
    for (int round = 0; round == 0 || Elapsed() < options_.seconds; ++round) {
      for (std::size_t i = 0; i < running_.size(); ++i) {
        if (round > 0 && Elapsed() >= options_.seconds) break;
        FT_TRY(RunTurn(i));
      }
      if (!halfway && Elapsed() > (reference_s + options_.seconds) / 2) {
        halfway = true;
        FT_TRY(MeasureReferences());
      }
    }
    return MeasureReferences();
  }

  // One turn: as many steps as fit into the slice, at most 64.
  Result<void> RunTurn(std::size_t i) {
    Running& running = running_[i];
    const double slice = std::min(kSliceSeconds, options_.seconds / 20);
    const auto steps = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(slice / std::max(running.step_s, 1e-6)), 1, 64);
    FT_ASSIGN(const std::vector<Span> spans, RunBenchmark(running, steps));
    AddSpans(spans, running.benchmark.concurrency, running.benchmark.series, table_);
    if (const auto found = overlap_benchmarks_.find(i); found != overlap_benchmarks_.end()) {
      found->second->Add(OverlapOf(spans));
    }
    if (overhead_benchmarks_.count(i) == 0) return {};
    // A run of one step has an empty queue, so issuing an op never waits for space.
    FT_ASSIGN(const std::vector<Span> first, RunBenchmark(running, 1));
    AddLaunches(first, running.benchmark.concurrency, table_);
    return {};
  }

  const CalibrateOptions& options_;
  const FtDeviceApi& api_;
  RunClock& clock_;
  const std::int64_t start_ns_;
  SampleTable table_;
  std::vector<Running> running_;
  std::set<std::size_t> overhead_benchmarks_;  // indices into running_
  std::map<std::size_t, Overlap*> overlap_benchmarks_;
  std::vector<int> worlds_;
  GemmAlgorithms algorithms_;
  AttentionTimes attention_;
  ReferenceSpreads references_;
};

Result<void> CheckOptions(const CalibrateOptions& options) {
  if (!(options.seconds > 0)) {
    return Fail(ErrorCode::kInvalidArgument, "calibrate: --seconds must be above 0");
  }
  if (options.targets.empty() && !options.grid) {
    return Fail(ErrorCode::kInvalidArgument, "calibrate: neither plans nor a grid to measure");
  }
  return {};
}

}  // namespace

Result<DeviceProfile> Calibrate(const CalibrateOptions& options, const FtDeviceApi& api,
                                RunClock& clock) {
  FT_TRY(CheckOptions(options));
  return Calibration(options, api, clock).Run();
}

}  // namespace foretrain
