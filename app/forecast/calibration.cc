#include "app/forecast/calibration.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <set>
#include <tuple>
#include <utility>

#include "base/clock.h"
#include "base/io/file_system.h"
#include "base/table.h"
#include "base/units.h"
#include "kernels/cpu/cpu_device.h"
#include "sim/cost/kernels/op_features.h"
#include "sim/cost/profile/profile_json.h"
#include "sim/program/ops/op_work.h"

namespace foretrain {
namespace {

constexpr std::int64_t kReportEveryNs = 1'000'000'000;

std::string HostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

// A line on stderr with the op that is timed and the time left.
class ProgressLine {
 public:
  ProgressLine() : terminal_(isatty(STDERR_FILENO) != 0) {}
  ~ProgressLine() {
    if (terminal_ && shown_) std::fputs("\r\x1b[K", stderr);
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // At most one line a second in a file; on a terminal the line is redrawn.
  void Show(const CalibrationProgress& progress) {
    const std::int64_t now = clock_.MonotonicNs();
    if (!terminal_ && shown_ && now - last_ns_ < kReportEveryNs) return;
    last_ns_ = now;
    shown_ = true;
    // Every op is timed a few times at least, so a short --seconds may be exceeded.
    const std::string time =
        progress.done < 1
            ? fmt::format("{:3.0f} %, {} left", 100 * progress.done, FormatSeconds(progress.left_s))
            : fmt::format("{} so far, longer than asked", FormatSeconds(progress.elapsed_s));
    std::fprintf(stderr, "%scalibrating %s: %s%s", terminal_ ? "\r\x1b[K" : "", time.c_str(),
                 progress.what.c_str(), terminal_ ? "" : "\n");
    std::fflush(stderr);
  }

 private:
  SystemClock clock_;
  const bool terminal_;
  bool shown_ = false;
  std::int64_t last_ns_ = 0;
};

// The point of a class with the most work. Rates are read from it, because launches and caches
// weigh least there. `route`: of a copy.
const ProfilePoint* Largest(const DeviceProfile& profile, int concurrency,
                            const std::vector<OpKind>& kinds,
                            std::pair<Space, Space> route = {Space::kDevice, Space::kDevice}) {
  const ProfilePoint* largest = nullptr;
  const auto work = [](const ProfilePoint& point) {
    const OpWork of = WorkOf(OpOf(point));
    return of.flop + of.bytes;
  };
  for (const ProfilePoint& point : profile.points) {
    if (point.concurrency != concurrency || std::pair(point.from, point.to) != route ||
        std::find(kinds.begin(), kinds.end(), point.kind) == kinds.end()) {
      continue;
    }
    if (largest == nullptr || work(point) > work(*largest)) largest = &point;
  }
  return largest;
}

// The rate of the largest op of `kinds`, with half the distance between its 10 % and 90 %
// quantiles. "-" if none was measured.
std::string RateCell(const DeviceProfile& profile, int concurrency,
                     const std::vector<OpKind>& kinds, bool flop,
                     std::pair<Space, Space> route = {Space::kDevice, Space::kDevice}) {
  const ProfilePoint* point = Largest(profile, concurrency, kinds, route);
  if (point == nullptr) return "-";
  const OpWork work = WorkOf(OpOf(*point));
  const double rate = (flop ? work.flop : work.bytes) / point->seconds;
  const double spread = (point->p90_s - point->p10_s) / 2 / point->seconds;
  return fmt::format("{} +-{:.0f} %", FormatSi(rate, flop ? "FLOP/s" : "B/s"), 100 * spread);
}

// Time and size, because a collective's rate depends on both.
std::string TimeCell(const DeviceProfile& profile, int concurrency,
                     const std::vector<OpKind>& kinds) {
  const ProfilePoint* point = Largest(profile, concurrency, kinds);
  if (point == nullptr) return "-";
  return fmt::format("{} for {}", FormatSeconds(point->seconds),
                     FormatBytes(point->shape.elements * 4));
}

std::string OverheadCell(const DeviceProfile& profile, int concurrency, OverheadKind kind) {
  for (const OverheadPoint& point : profile.overheads) {
    if (point.kind == kind && point.concurrency == concurrency) {
      return FormatSeconds(point.seconds);
    }
  }
  return "-";
}

// Always has 1, the column that other columns are compared with.
std::vector<int> Concurrencies(const DeviceProfile& profile) {
  std::set<int> levels{1};
  for (const ProfilePoint& point : profile.points) levels.insert(point.concurrency);
  return {levels.begin(), levels.end()};
}

// A note if a quarter of the ops has times that spread widely, which means that other work
// disturbed the measurement. Short ops do not count: they spread on any machine.
std::string UnsteadyNote(const DeviceProfile& profile) {
  constexpr double kSpread = 0.2;     // half of what lies between the tenth and the ninetieth
  constexpr double kShortest = 1e-4;  // seconds; shorter ones spread on any machine
  std::size_t timed = 0, unsteady = 0;
  for (const ProfilePoint& point : profile.points) {
    if (point.seconds < kShortest) continue;
    ++timed;
    if ((point.p90_s - point.p10_s) / 2 > kSpread * point.seconds) ++unsteady;
  }
  if (4 * unsteady < timed || timed == 0) return "";
  return fmt::format(
      "\n{} of {} ops above {} took times that spread by over {:.0f} %: the machine was "
      "busy with other work, it seems. Forecasts from this have wide intervals; calibrate again "
      "when it is idle.\n",
      unsteady, timed, FormatSeconds(kShortest), 100 * kSpread);
}

}  // namespace

// Covers each kind of op that the usual splits need: one rank alone, then data, tensor and pipeline
// parallel over all ranks. Splits that the model does not allow are left out.
std::vector<CalibrationTarget> UsualTargets(const ModelSpec& model, const Plan& base, int ranks) {
  std::vector<CalibrationTarget> targets;
  const auto add = [&](int dp, int tp, int pp) {
    Plan plan = base;
    plan.dp = dp;
    plan.tp = tp;
    plan.pp = pp;
    // Two micro-batches, because the first one of a step overwrites gradients and later ones add.
    plan.global_batch = std::max<std::int64_t>(2, pp) * plan.micro_batch * dp;
    if (ValidatePlan(plan, model).has_value()) targets.push_back({model, plan});
  };
  add(1, 1, 1);
  if (ranks < 2) return targets;
  add(ranks, 1, 1);
  add(1, ranks, 1);
  add(1, 1, ranks);
  return targets;
}

// Small and large GEMMs, several precisions, a gated MLP and experts. One or two layers are enough,
// because layers repeat. bf16 comes first: the choice of algorithms ends when its time is spent.
Result<std::vector<CalibrationTarget>> GpuTargets() {
  struct Shape {
    const char* model;
    std::int64_t layers, sequence, micro_batch;
    std::vector<Precision> precisions;
  };
  using enum Precision;
  const Shape shapes[] = {
      {"gpt2-124m", 2, 1024, 4, {kBf16}},         {"gpt2-124m", 2, 1024, 64, {kBf16}},
      {"gpt2-1558m", 1, 1024, 16, {kBf16}},       {"llama3.1-8b", 1, 4096, 1, {kBf16}},
      {"qwen1.5-moe-a2.7b", 1, 2048, 1, {kBf16}}, {"gpt2-124m", 2, 1024, 4, {kTf32, kFp32}},
      {"gpt2-124m", 2, 1024, 64, {kTf32, kFp32}}};
  FT_ASSIGN(const Catalogue catalogue, BuiltInCatalogue());
  std::vector<CalibrationTarget> targets;
  for (const Shape& shape : shapes) {
    FT_ASSIGN(const ModelEntry entry, FindModel(catalogue, shape.model));
    for (const Precision precision : shape.precisions) {
      CalibrationTarget target{entry.spec, {}};
      target.model.layers = shape.layers;
      target.plan.sequence = shape.sequence;
      target.plan.micro_batch = shape.micro_batch;
      target.plan.global_batch = 2 * shape.micro_batch;  // gradients are overwritten, then added to
      target.plan.precision = precision;
      target.plan.vocab_multiple = GpuVocabMultiple(target.model);
      target.plan.logits = GradientFormat::kCompute;
      target.plan.fuse = FusionKind::kAll;
      FT_TRY(ValidatePlan(target.plan, target.model));
      targets.push_back(std::move(target));
    }
  }
  return targets;
}

// Measures on the request's cluster, or on this machine as one node. On a GPU, ops too large for it
// are skipped.
Result<DeviceProfile> CalibrateThisMachine(const CalibrationRequest& request) {
  const Machine machine = ThisMachine();
  SystemClock system;
  CalibrateOptions options = request.options;
  if (request.cluster.has_value()) {
    options.cluster = *request.cluster;
    options.skip_what_does_not_fit = true;
  } else {
    FT_ASSIGN(options.cluster, LocalCluster(machine.cores, machine.memory_bytes, request.ranks));
  }
  options.machine = HostName() + ": " +
                    (request.cluster.has_value() ? options.cluster.device.name : machine.name);
  options.date = IsoTime(system.RealtimeNs());
  ProgressLine line;
  if (request.show_progress) {
    options.progress = [&line](const CalibrationProgress& progress) { line.Show(progress); };
  }
  RealClock clock;
  return Calibrate(options, request.device != nullptr ? *request.device : CpuDeviceApi(), clock);
}

// Written atomically, so that a forecast never reads half a profile.
Result<void> WriteProfile(const std::string& path, const DeviceProfile& profile) {
  PosixFileSystem files;
  FT_TRY(files.CreateDirectories(ParentFolder(path)));
  return WriteFileAtomically(files, path, ProfileToJson(profile) + "\n");
}

// One column for each number of ranks that ran at once. Rows without a measurement are left out.
std::string ProfileText(const DeviceProfile& profile) {
  const std::vector<int> levels = Concurrencies(profile);
  std::vector<std::string> titles{""};
  for (const int level : levels) {
    titles.push_back(level == 1 ? ">alone" : fmt::format(">{} ranks at once", level));
  }
  Table table(titles);
  const auto row = [&](const std::string& name, auto cell) {
    std::vector<std::string> cells{name};
    for (const int level : levels) cells.push_back(cell(level));
    table.AddRow(std::move(cells));
  };
  const auto rate = [&](const std::string& name, std::vector<OpKind> kinds, bool flop) {
    row(name, [&](int level) { return RateCell(profile, level, kinds, flop); });
  };
  rate("GEMM", {OpKind::kGemm}, true);
  rate("attention", {OpKind::kAttentionForward}, true);
  rate("attention backward", {OpKind::kAttentionBackward}, true);
  rate("memory", {OpKind::kAdamW}, false);
  using enum Space;
  for (const auto& [name, from, to] : {std::tuple{"copies to the device", kPinned, kDevice},
                                       {"copies from it", kDevice, kPinned},
                                       {"disk reads", kNvme, kPinned},
                                       {"disk writes", kPinned, kNvme}}) {
    const std::pair route{from, to};
    if (Largest(profile, 1, {OpKind::kCopy}, route) == nullptr) continue;
    row(name, [&](int level) { return RateCell(profile, level, {OpKind::kCopy}, false, route); });
  }
  const auto time = [&](const std::string& name, OpKind kind) {
    if (std::none_of(levels.begin(), levels.end(),
                     [&](int level) { return Largest(profile, level, {kind}) != nullptr; })) {
      return;
    }
    row(name, [&](int level) { return TimeCell(profile, level, {kind}); });
  };
  time("all-reduce", OpKind::kAllReduce);
  time("reduce-scatter", OpKind::kReduceScatter);
  time("all-gather", OpKind::kAllGather);
  time("send", OpKind::kSend);
  for (const auto& [name, kind] : {std::pair{"launch", OverheadKind::kLaunch},
                                   {"gap", OverheadKind::kGap},
                                   {"wake", OverheadKind::kWake}}) {
    row(name, [&, kind = kind](int level) { return OverheadCell(profile, level, kind); });
  }
  return table.Text() + UnsteadyNote(profile);
}

std::string IsoTime(std::int64_t realtime_ns) {
  const std::time_t seconds = realtime_ns / 1'000'000'000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace foretrain
