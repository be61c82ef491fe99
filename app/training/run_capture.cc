#include "app/training/run_capture.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "app/runs/stored_runs.h"
#include "base/units.h"
#include "traces/metrics/gpu/faults.h"

namespace foretrain {
namespace {

// Joins equal problems of several ranks into one note. A problem of all ranks needs no list of
// ranks.
Result<void> AddProblems(RunRecorder& recorder, const CaptureReports& reports) {
  std::map<std::string, std::vector<int>> who;
  for (const auto& [rank, report] : reports) {
    for (const std::string& problem : {report.problem, report.counters_problem}) {
      if (!problem.empty()) who[problem].push_back(rank);
    }
  }
  for (const auto& [problem, ranks] : who) {
    std::string note;
    for (const int rank : ranks) {
      note +=
          (note.empty() ? (ranks.size() > 1 ? "ranks " : "rank ") : ", ") + std::to_string(rank);
    }
    FT_TRY(recorder.AddNote(ranks.size() == reports.size() ? problem : note + ": " + problem));
  }
  return {};
}

// Corrected errors need no action, so they are told only with the stored run. On a terminal a line
// of progress may be open.
void TellFaults(const std::vector<GpuFault>& faults, const GpuMonitor& monitor) {
  for (const GpuFault& fault : faults) {
    if (fault.kind == GpuFaultKind::kCorrectedEcc) continue;
    std::fprintf(stderr, "%sforetrain: %s\n", isatty(STDERR_FILENO) != 0 ? "\n" : "",
                 Describe(fault, monitor.BusIdOf(fault.rank)).c_str());
  }
}

}  // namespace

// Without `local`, all ranks are in this process. Trouble is printed and not an error: the run is
// worth more than its recording.
std::unique_ptr<CaptureSession> OpenCapture(const FtDeviceApi& device, const Program& program,
                                            const std::vector<LocalRank>& local,
                                            const RunClock& clock, CaptureLevel level,
                                            const CaptureWindow& window, CounterOptions counters) {
  CaptureOptions options;
  options.level = level;
  options.window = window;
  options.ranks.clear();
  for (const LocalRank& at : local) options.ranks.push_back(at.rank);
  for (int rank = 0; local.empty() && rank < program.plan.World(); ++rank) {
    options.ranks.push_back(rank);
  }
  options.now = [&clock] { return clock.Now(); };
  options.counters = std::move(counters);
  options.name_of = [&program, names = OpNamesOf(program)](int, OpId op) {
    const auto name = names.find(NameKey(op));
    const std::string instruction =
        Describe(InstructionOf(op), static_cast<int>(program.model.AllLayers()));
    return name == names.end() ? instruction : instruction + ", " + name->second;
  };
  auto session = CaptureSession::Open(device, std::move(options));
  if (session != nullptr) PrintTroubles(session->Troubles(), {});
  return session;
}

void PrintTroubles(std::span<const std::string> troubles, std::span<const std::string> known) {
  for (const std::string& trouble : troubles) {
    if (std::find(known.begin(), known.end(), trouble) != known.end()) continue;
    std::fprintf(stderr, "foretrain: %s\n", trouble.c_str());
  }
}

// By device, the first of its recorded ranks.
CounterOptions CountersOf(const std::vector<LocalRank>& local, const CaptureWindow& window,
                          std::int64_t interval_ns,
                          std::function<void(std::vector<Counter>)> take) {
  CounterOptions options;
  if (interval_ns == 0) return options;
  std::map<int, int> first;  // rank, by device
  for (const LocalRank& at : local) {
    if (window.CoversRank(at.rank)) first.emplace(at.device, at.rank);
  }
  if (local.empty()) first.emplace(0, window.ranks.empty() ? 0 : window.ranks.front());
  for (const auto& [device, rank] : first) options.devices.push_back({device, rank});
  options.interval_ns = interval_ns;
  options.take = std::move(take);
  return options;
}

// Monitors each GPU once, for the first rank on it. `nullptr` on the CPU or without NVML.
std::unique_ptr<GpuMonitor> StartMonitor(const FtDeviceApi& device,
                                         const std::vector<LocalRank>& local, const RunClock& clock,
                                         std::function<void(std::vector<Counter>)> take) {
  if (std::string_view(device.name) != "cuda") return nullptr;
  std::map<int, int> first;  // rank, by device
  for (const LocalRank& at : local) first.emplace(at.device, at.rank);
  if (local.empty()) first.emplace(0, 0);
  std::vector<MonitoredRank> gpus;
  for (const auto& [number, rank] : first) gpus.push_back({.rank = rank, .device = number});
  auto monitor = GpuMonitor::Open({}, gpus);
  if (!monitor.has_value()) {
    std::fprintf(stderr, "foretrain: counters and errors of the GPU are not recorded: %s\n",
                 monitor.error().message.c_str());
    return nullptr;
  }
  GpuMonitor& started = **monitor;
  started.Start([&clock] { return clock.Now(); },
                [&started, take = std::move(take),
                 watch = GpuFaultWatch()](std::vector<Counter> readings) mutable {
                  TellFaults(watch.Take(readings), started);
                  take(std::move(readings));
                });
  return *std::move(monitor);
}

// Stores what each rank lost, how well its clock was known, and the kernels of all ranks together.
// Without records of the device there are no metrics of it.
Result<void> StoreCapture(RunRecorder& recorder, const CaptureReports& reports, int capability) {
  FT_TRY(AddProblems(recorder, reports));
  ActivityCounts counts;
  KernelTable kernels;
  bool records = false;
  for (const auto& [rank, report] : reports) {
    FT_TRY(recorder.AddTotals({.dropped = report.dropped + report.late,
                               .invalid = report.counts.invalid,
                               .overhead_ns = report.counts.overhead_ns,
                               .clock_error_ns = report.clock_error_ns}));
    for (const ClockSample& sample : report.clocks) {
      FT_TRY(recorder.AddClock({rank, sample.host_ns, sample.device_ns, sample.width_ns}));
    }
    records = records || report.records;
    counts.Add(report.counts);
    kernels.Add(report.kernels);
  }
  if (!records) return {};
  const std::vector<MetricValue> metrics = {
      {.name = "device_records", .value = static_cast<double>(counts.records)},
      {.name = "device_records_without_op", .value = static_cast<double>(counts.unknown)},
      {.name = "device_s", .value = SecondsFromNs(counts.device_ns)},
      {.name = "launches", .value = static_cast<double>(counts.launches)},
      {.name = "launch_s", .value = SecondsFromNs(counts.launch_ns)},
      {.name = "device_wait_s", .value = SecondsFromNs(counts.wait_ns)},
      {.name = "device_capture_s", .value = SecondsFromNs(counts.overhead_ns)}};
  FT_TRY(recorder.AddMetrics(metrics));
  kernels.capability = capability;
  return recorder.Attach(kKernelsAttachment, KernelsToJson(kernels));
}

}  // namespace foretrain
