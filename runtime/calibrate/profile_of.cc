#include "runtime/calibrate/profile_of.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/checked.h"
#include "runtime/calibrate/microbenchmark.h"
#include "runtime/calibrate/reference_gemm.h"
#include "sim/cost/cost_model.h"
#include "sim/cost/kernels/op_features.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/program/ops/op_work.h"

namespace foretrain {
namespace {

constexpr double kClockTickS = 1e-9;  // min time of a point: one tick of the clock

Figure Measured(double value) { return {value, Provenance::kMeasured}; }

// `seconds` is the point's time; the spread's quantiles are kept as measured.
ProfilePoint PointFrom(const ProfilePoint& key, const Spread& spread, double seconds) {
  ProfilePoint point = key;
  point.seconds = std::max(seconds, kClockTickS);
  point.p10_s = spread.p10;
  point.p90_s = std::max(spread.p90, spread.p10);
  point.samples = spread.samples;
  return point;
}

// Max of `rate` per second over the points of one kind measured at concurrency 1; nullopt if there
// are none.
template <class Rate>
std::optional<double> BestRate(const DeviceProfile& profile, OpKind kind, Rate rate) {
  std::optional<double> best;
  for (const ProfilePoint& point : profile.points) {
    if (point.kind != kind || point.concurrency != 1) continue;
    const double value = rate(WorkOf(OpOf(point))) / point.seconds;
    if (value > 0 && (!best.has_value() || value > *best)) best = value;
  }
  return best;
}

void SetIfMeasured(Figure& figure, std::optional<double> value) {
  if (value.has_value()) figure = Measured(*value);
}

double Flop(const OpWork& work) { return work.flop; }
double Bytes(const OpWork& work) { return work.bytes; }

// The points with the fewest and the most elements among those that `wanted` accepts; null if there
// are none.
struct Extremes {
  const ProfilePoint* small = nullptr;
  const ProfilePoint* large = nullptr;
};
template <class Wanted>
Extremes ExtremesOf(const DeviceProfile& profile, Wanted wanted) {
  Extremes found;
  for (const ProfilePoint& point : profile.points) {
    if (!wanted(point)) continue;
    const std::int64_t elements = point.shape.elements;
    if (found.small == nullptr || elements < found.small->shape.elements) found.small = &point;
    if (found.large == nullptr || elements > found.large->shape.elements) found.large = &point;
  }
  return found;
}

// Bandwidth of copies between two spaces at concurrency 1: the largest copy, less the time of the
// smallest, which is stored in `base_s`. nullopt if no two sizes were measured.
std::optional<double> CopyRate(const DeviceProfile& profile, Space from, Space to, double& base_s) {
  const auto [small, large] = ExtremesOf(profile, [&](const ProfilePoint& point) {
    return point.kind == OpKind::kCopy && point.from == from && point.to == to &&
           point.concurrency == 1;
  });
  if (small == nullptr || large->seconds <= small->seconds) return std::nullopt;
  base_s = small->seconds;
  return WorkOf(OpOf(*large)).bytes / (large->seconds - small->seconds);
}

// Sets copy bandwidths and the disk's latency. Between host and device the slower direction counts.
void SetCopyRates(DeviceProfile& profile) {
  ProfileRates& rates = profile.rates;
  double read_base_s = 0, write_base_s = 0, ignored = 0;
  const auto in = CopyRate(profile, Space::kPinned, Space::kDevice, ignored);
  const auto out = CopyRate(profile, Space::kDevice, Space::kPinned, ignored);
  if (in.has_value() && out.has_value()) rates.copy_bytes_per_s = Measured(std::min(*in, *out));
  const auto read = CopyRate(profile, Space::kNvme, Space::kPinned, read_base_s);
  const auto write = CopyRate(profile, Space::kPinned, Space::kNvme, write_base_s);
  SetIfMeasured(rates.nvme_read_bytes_per_s, read);
  SetIfMeasured(rates.nvme_write_bytes_per_s, write);
  if (read.has_value() && write.has_value()) {
    rates.nvme_base_s = Measured(std::max(read_base_s, write_base_s));
  }
}

// Memory bandwidth: that of the largest op with next to no arithmetic.
std::optional<double> MemoryRate(const DeviceProfile& profile) {
  const ProfilePoint* widest = nullptr;
  for (const ProfilePoint& point : profile.points) {
    const bool streams = point.kind == OpKind::kAdamW || point.kind == OpKind::kAdd ||
                         point.kind == OpKind::kSquaredNorm || point.kind == OpKind::kBiasGrad;
    if (!streams || point.concurrency != 1) continue;
    if (widest == nullptr || WorkOf(OpOf(point)).bytes > WorkOf(OpOf(*widest)).bytes) {
      widest = &point;
    }
  }
  if (widest == nullptr) return std::nullopt;
  return WorkOf(OpOf(*widest)).bytes / widest->seconds;
}

// Latency and bandwidth of a link, from the smallest all-reduce (CPU) or transfer (GPU) and what
// the largest adds to it.
void SetLinkRates(DeviceProfile& profile, OpKind kind) {
  const auto [small, large] =
      ExtremesOf(profile, [kind](const ProfilePoint& point) { return point.kind == kind; });
  if (small == nullptr) return;
  profile.rates.link_base_s = Measured(small->seconds);
  if (large->seconds <= small->seconds) return;
  double bytes = WorkOf(OpOf(*large)).bytes;
  if (kind == OpKind::kAllReduce) {
    // Bytes that a member reads and writes (sim/cost/network/communication_cost.h).
    const double n = large->group;
    bytes *= 1 + 1 / n + 2 * (n - 1) / n;
  } else {
    bytes -= WorkOf(OpOf(*small)).bytes;
  }
  profile.rates.link_bytes_per_s = Measured(bytes / (large->seconds - small->seconds));
}

// The cost model has one slowdown, for collectives; that of copies is only noted.
void SetOverlap(DeviceProfile& profile, const SampleTable& table) {
  SetIfMeasured(profile.rates.overlap_slowdown, SlowdownOf(table.collective_overlap));
  if (const auto copies = SlowdownOf(table.copy_overlap)) {
    profile.assumptions += fmt::format(
        "; compute took {:.2f} times as long beside copies, which is not modelled", *copies);
  }
}

// Overhead at concurrency 1; nullopt if it was not measured.
std::optional<double> OverheadAlone(const DeviceProfile& profile, OverheadKind kind) {
  for (const OverheadPoint& point : profile.overheads) {
    if (point.kind == kind && point.concurrency == 1) return point.seconds;
  }
  return std::nullopt;
}

void SetRates(DeviceProfile& profile, const SampleTable& table, bool is_cpu) {
  ProfileRates& rates = profile.rates;
  SetIfMeasured(rates.gemm_flop_per_s, BestRate(profile, OpKind::kGemm, Flop));
  SetIfMeasured(rates.attention_forward_flop_per_s,
                BestRate(profile, OpKind::kAttentionForward, Flop));
  SetIfMeasured(rates.attention_backward_flop_per_s,
                BestRate(profile, OpKind::kAttentionBackward, Flop));
  SetIfMeasured(rates.copy_bytes_per_s, BestRate(profile, OpKind::kLoadBatch, Bytes));
  SetIfMeasured(rates.memory_bytes_per_s, MemoryRate(profile));
  SetIfMeasured(rates.launch_s, OverheadAlone(profile, OverheadKind::kLaunch));
  SetIfMeasured(rates.gap_s, OverheadAlone(profile, OverheadKind::kGap));
  SetIfMeasured(rates.wake_s, OverheadAlone(profile, OverheadKind::kWake));
  const Spread reads = SpreadOf(table.host_reads());
  if (reads.samples > 0) rates.host_read_s = Measured(reads.median);
  SetLinkRates(profile, is_cpu ? OpKind::kAllReduce : OpKind::kSend);
  SetOverlap(profile, table);
  SetCopyRates(profile);
}

// The reference's time is the median of the measurements' means; the spread covers all of them.
void AddReference(DeviceProfile& profile, const ReferenceSpreads& references) {
  Op op;
  op.kind = OpKind::kGemm;
  op.op_class = OpClass::kGemm;
  op.shape.rows = op.shape.cols = op.shape.inner = kReferenceGemmSize;
  for (const auto& [ranks, spreads] : references) {
    std::vector<double> means;
    Spread all = spreads.front();
    all.samples = 0;
    for (const Spread& spread : spreads) {
      means.push_back(spread.mean);
      all.p10 = std::min(all.p10, spread.p10);
      all.p90 = std::max(all.p90, spread.p90);
      all.samples += spread.samples;
    }
    // A mean over a stretch of time, disturbances included, because MeasureDrift measures it the
    // same way.
    std::sort(means.begin(), means.end());
    const double seconds = means[means.size() / 2];
    AddPoint(profile, PointFrom(PointOf(op, 1, 1, ranks), all, seconds));
    if (ranks == 1) {
      profile.reference = {kReferenceGemmSize, kReferenceGemmSize, kReferenceGemmSize, seconds};
    }
  }
}

}  // namespace

void AddLaunches(const std::vector<Span>& spans, int concurrency, SampleTable& table) {
  for (std::size_t i = 0; i < spans.size();) {
    // Spans of one rank's queue. On the compute queue the tiny ops come first, in issue order.
    std::size_t end = i;
    while (end < spans.size() && spans[end].rank == spans[i].rank &&
           spans[end].queue == spans[i].queue) {
      ++end;
    }
    if (spans[i].queue == Queue::kCompute && end - i >= static_cast<std::size_t>(kTinyOps)) {
      const std::int64_t issued = spans[i + kTinyOps - 1].ready_ns - spans[i].ready_ns;
      table.AddOverhead(OverheadKind::kLaunch, concurrency, CeilDiv(issued, kTinyOps));
    }
    i = end;
  }
}

// Begins with rates derived from the cluster's specification and replaces those that were measured.
// Compute points are multiplied by the stretch of their concurrency, because medians alone add up
// to less than a step.
Result<DeviceProfile> MakeProfile(const CalibrateOptions& options, const SampleTable& table,
                                  const ReferenceSpreads& references) {
  DeviceProfile profile = DeriveProfile(options.cluster);
  profile.machine = options.machine;
  profile.date = options.date;
  profile.kernels.reset();  // rates are measured here
  profile.assumptions = "measured; figures that are not are marked as assumed";
  std::map<int, double> stretches;
  for (const SampleTable::Series& series : table.series()) {
    stretches.try_emplace(series.key.concurrency, 0.0);
  }
  for (auto& [concurrency, stretch] : stretches) stretch = table.Stretch(concurrency);
  for (const SampleTable::Series& series : table.series()) {
    if (series.durations.empty()) continue;
    const Spread spread = SpreadOf(series.durations);
    const double stretch = IsCommunication(series.key.kind) || series.key.kind == OpKind::kCopy
                               ? 1.0
                               : stretches.at(series.key.concurrency);
    AddPoint(profile, PointFrom(series.key, spread, stretch * spread.median));
  }
  for (const auto& [key, durations] : table.overheads()) {
    const Spread spread = SpreadOf(durations);
    profile.overheads.push_back({key.first, key.second, std::max(spread.median, 0.0), spread.p10,
                                 spread.p90, spread.samples});
  }
  AddReference(profile, references);
  SetRates(profile, table, options.cluster.is_cpu);
  FT_TRY(ValidateProfile(profile));
  return profile;
}

}  // namespace foretrain
