#include "sim/cost/cost_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>

#include "base/checked.h"
#include "sim/cost/fused_parts.h"
#include "sim/cost/op_features.h"
#include "sim/spec/refuse.h"

namespace foretrain {
namespace {

// Seconds of attention's products at the rate that fp32 has, in proportion to GEMMs of its format.
double AttentionSeconds(const Op& op, double flop, const Figure& rate, const ProfileRates& rates) {
  const double faster = GemmRate(rates, op.format).value / rates.gemm_flop_per_s.value;
  return flop / (rate.value * faster);
}

// Between host and device the slower of the two directions counts; a disk has a rate for each. On
// the device bytes are read and written.
double CopySeconds(const Op& op, double bytes, const ProfileRates& rates) {
  if (op.to == Space::kNvme) {
    return rates.nvme_base_s.value + bytes / rates.nvme_write_bytes_per_s.value;
  }
  if (op.from == Space::kNvme) {
    return rates.nvme_base_s.value + bytes / rates.nvme_read_bytes_per_s.value;
  }
  if (op.from == Space::kDevice && op.to == Space::kDevice) {
    return rates.kernel_s.value + 2 * bytes / rates.memory_bytes_per_s.value;
  }
  return rates.kernel_s.value + bytes / rates.copy_bytes_per_s.value;
}

// Whether the op has a time of its own on the host of accelerators, whose points are no guide.
bool IsOnHost(const Op& op, const ClusterSpec& cluster) {
  return op.queue == Queue::kCpu && !cluster.is_cpu;
}

}  // namespace

std::size_t CostModel::ClassOf(OpKind kind) {
  const bool arithmetic =
      IsGemm(kind) || kind == OpKind::kGroupedGemm ||
      (kind >= OpKind::kAttentionForward && kind <= OpKind::kAttentionPartBackward);
  return arithmetic ? 0 : 1;
}

Result<CostModel> CostModel::Make(const ClusterSpec& cluster, const DeviceProfile& profile) {
  FT_TRY(ValidateCluster(cluster));
  FT_TRY(ValidateProfile(profile));
  CostModel model(cluster, profile);
  model.MakeLevels();
  model.MakeTables();
  return model;
}

void CostModel::MakeLevels() {
  if (!cluster_.is_cpu) {
    if (profile_.rates.overlap_slowdown.value > 1) levels_.push_back(2.0);
    return;
  }
  std::set<int> levels{1};
  for (const ProfilePoint& point : profile_.points) {
    if (!IsCommunication(point.kind)) levels.insert(point.concurrency);
  }
  levels_.assign(levels.begin(), levels.end());
}

CostModel::Estimate CostModel::FromRates(const Op& op) const {
  const ProfileRates& rates = profile_.rates;
  const OpWork work = WorkOf(op);
  const double bytes = work.bytes;
  Estimate estimate{0, Provenance::kDefault, profile_.error};
  if (profile_.kernels.has_value()) {
    if (const auto seconds = KernelSeconds(*profile_.kernels, profile_.system, op, bytes)) {
      estimate.seconds = *seconds;
      return estimate;
    }
  }
  double flop_s = 0;
  double fixed_s = rates.kernel_s.value;
  if (IsGemm(op.kind) || op.kind == OpKind::kGroupedGemm) {
    flop_s = work.flop / GemmRate(rates, op.format).value;
    fixed_s += rates.gemm_fill_s.value;
  } else if (op.kind == OpKind::kAttentionForward || op.kind == OpKind::kStandardAttentionForward ||
             op.kind == OpKind::kAttentionPartForward) {
    flop_s = AttentionSeconds(op, work.flop, rates.attention_forward_flop_per_s, rates);
  } else if (op.kind == OpKind::kAttentionBackward ||
             op.kind == OpKind::kStandardAttentionBackward ||
             op.kind == OpKind::kAttentionPartBackward) {
    flop_s = AttentionSeconds(op, work.flop, rates.attention_backward_flop_per_s, rates);
  }
  estimate.seconds = fixed_s + std::max(flop_s, bytes / rates.memory_bytes_per_s.value);
  if (op.kind == OpKind::kLoadBatch) {
    estimate.seconds = rates.kernel_s.value + work.bytes / rates.copy_bytes_per_s.value;
  }
  if (op.kind == OpKind::kHostRead || op.kind == OpKind::kReadCounts) {
    estimate.seconds = rates.host_read_s.value;
  }
  if (op.kind == OpKind::kCopy) estimate.seconds = CopySeconds(op, bytes, rates);
  if (IsOnHost(op, cluster_)) {
    estimate.seconds = rates.kernel_s.value + bytes / rates.host_bytes_per_s.value;
  }
  return estimate;
}

CostModel::Estimate CostModel::FromParts(const Op& op) const {
  const FusedParts parts = PartsOf(op);
  const bool at_once = !cluster_.is_cpu && IsOneKernel(op);
  bool borrowed = false;
  if (at_once && FindTable(parts.product, &borrowed) == nullptr) return FromRates(op);
  const Estimate product = Base(parts.product, {});
  Estimate then{0, Provenance::kDefault, profile_.error};
  if (at_once) {
    const double bytes = WorkOf(op).bytes - WorkOf(parts.product).bytes;
    then.seconds = bytes / profile_.rates.memory_bytes_per_s.value;
  } else {
    then = Base(parts.then, {});
  }
  const double seconds = product.seconds + then.seconds;
  const double off = product.error * product.seconds + then.error * then.seconds;
  return {seconds, Worse(product.provenance, then.provenance), seconds > 0 ? off / seconds : 0};
}

CostModel::Estimate CostModel::Base(const Op& op, const GroupPlace& place) const {
  if (op.kind == OpKind::kOpaque) return {op.duration_s, Provenance::kMeasured, 0};
  if (IsCommunication(op.kind)) return InSystem(op, place, Communication(op, place));
  if (IsOnHost(op, cluster_)) return FromRates(op);
  bool borrowed = false;
  const Table* table = FindTable(op, &borrowed);
  if (table == nullptr) return IsFused(op.kind) ? FromParts(op) : FromRates(op);
  Estimate estimate = FromTable(*table, op);
  if (borrowed) {
    estimate.provenance = Provenance::kExtrapolated;
    estimate.error = std::max(kSmallestExtrapolatedError, kBorrowedFactor * estimate.error);
  }
  // Points that start at a higher concurrency hold its slowdown: take it out again.
  if (cluster_.is_cpu && table->concurrency > 1) {
    const auto level = std::find(levels_.begin(), levels_.end(), table->concurrency);
    estimate.seconds /=
        class_slowdown_[static_cast<std::size_t>(level - levels_.begin())][ClassOf(op.kind)];
    estimate.provenance = Worse(estimate.provenance, Provenance::kInterpolated);
  }
  return estimate;
}

// The factor of a level over the op alone.
double CostModel::Slowdown(const Op& op, const Table* table, std::size_t level) const {
  if (!cluster_.is_cpu) {
    return IsCompute(op.op_class) ? profile_.rates.overlap_slowdown.value : 1.0;
  }
  if (table != nullptr && table->concurrency == 1 && !table->slowdown[level].empty()) {
    return std::exp(table->slowdown[level](FeaturesOf(op).at));
  }
  return class_slowdown_[level][ClassOf(op.kind)];
}

// Threads that the op keeps busy. On one machine the receiver copies while the sender sleeps; the
// host reads a few bytes, a disk works by itself, and an opaque op is no work.
double CostModel::LoadOf(const Op& op) const {
  if (op.kind == OpKind::kOpaque || op.kind == OpKind::kHostRead || op.kind == OpKind::kReadCounts)
    return 0.0;
  if (op.kind == OpKind::kCopy && op.queue == Queue::kNvme) return 0.0;
  if (!cluster_.is_cpu && !IsCommunication(op.kind) && !IsCompute(op.op_class)) return 0.0;
  return cluster_.is_cpu && op.kind == OpKind::kSend ? 0.0 : 1.0;
}

double CostModel::Straggling(int devices) const {
  const NetworkConstants& constants = Networks();
  if (cluster_.is_cpu || devices <= constants.straggler_from) return 1;
  const auto largest = [](double n) { return std::sqrt(2 * std::log(n)); };
  return 1 + constants.straggler_sigma * (largest(devices) - largest(constants.straggler_from));
}

OpCost CostModel::CostOf(const Op& op, const GroupPlace& place, const GroupPlace* scattered) const {
  if (scattered != nullptr && (op.kind == OpKind::kSend || op.kind == OpKind::kRecv)) {
    Op part = op, whole = op;
    part.shape.elements = CeilDiv(op.shape.elements, scattered->members);
    whole.kind = OpKind::kAllGather;
    OpCost cost = CostOf(part, place);
    const double gather_s = Communication(whole, *scattered).seconds;
    for (double& seconds : cost.seconds) seconds += gather_s;
    return cost;
  }
  const Estimate base = Base(op, place);
  OpCost cost;
  cost.provenance = base.provenance;
  cost.error = base.error;
  cost.load = LoadOf(op);
  cost.demand = DemandOf(op, place, base.seconds);
  cost.launch_s = Overhead(OverheadKind::kLaunch, cluster_.is_cpu ? cluster_.devices_per_node : 1);
  // A gradient that is added up behind its kernel is one op more to the host.
  if (op.accumulate && !profile_.system.fused_accumulation) cost.launch_s *= 2;
  const bool communicates = IsCommunication(op.kind);
  if (communicates) cost.launch_s += SkewOf(place);
  cost.measured_threads = levels_.back();
  if (communicates) cost.measured_threads = std::max(levels_.back(), 1.0 * place.members);
  bool borrowed = false;
  const Table* table = communicates ? nullptr : FindTable(op, &borrowed);
  const bool steady = op.kind == OpKind::kOpaque || communicates;
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    cost.seconds.push_back(base.seconds *
                           (level == 0 || steady ? 1.0 : Slowdown(op, table, level)));
  }
  return cost;
}

const Figure& CostModel::OverheadFigure(OverheadKind kind) const {
  if (kind == OverheadKind::kLaunch) return profile_.rates.launch_s;
  return kind == OverheadKind::kGap ? profile_.rates.gap_s : profile_.rates.wake_s;
}

double CostModel::Overhead(OverheadKind kind, double concurrency) const {
  const OverheadPoint* below = nullptr;
  const OverheadPoint* above = nullptr;
  for (const OverheadPoint& point : profile_.overheads) {
    if (point.kind != kind) continue;
    if (point.concurrency <= concurrency &&
        (below == nullptr || point.concurrency > below->concurrency)) {
      below = &point;
    }
    if (point.concurrency >= concurrency &&
        (above == nullptr || point.concurrency < above->concurrency)) {
      above = &point;
    }
  }
  if (below == nullptr && above == nullptr) return OverheadFigure(kind).value;
  if (below == nullptr || above == nullptr || below->concurrency == above->concurrency) {
    return (below != nullptr ? below : above)->seconds;
  }
  const double part =
      (concurrency - below->concurrency) / (above->concurrency - below->concurrency);
  return below->seconds + part * (above->seconds - below->seconds);
}

}  // namespace foretrain
