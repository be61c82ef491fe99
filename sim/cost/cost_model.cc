#include "sim/cost/cost_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>

#include "base/checked.h"
#include "sim/cost/op_features.h"
#include "sim/spec/refuse.h"

namespace foretrain {
namespace {

// A borrowed layout, and sizes outside of what was measured, are trusted half as far.
constexpr double kBorrowedFactor = 2.0;
constexpr double kSmallestExtrapolatedError = 0.1;
// Of a normal distribution p10 and p90 lie 2.563 standard deviations apart.
constexpr double kDeviationsBetweenDeciles = 2.563;

std::size_t ClassOf(OpKind kind) {
  const bool arithmetic =
      kind == OpKind::kGemm || kind == OpKind::kGroupedGemm ||
      (kind >= OpKind::kAttentionForward && kind <= OpKind::kAttentionPartBackward);
  return arithmetic ? 0 : 1;
}

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

void CostModel::MakeTables() {
  std::map<Key, std::vector<const ProfilePoint*>> points;
  for (const ProfilePoint& point : profile_.points) {
    const bool communicates = IsCommunication(point.kind);
    // An accelerator's points are those of one rank alone.
    if (!cluster_.is_cpu && !communicates && point.concurrency != 1) continue;
    const Key key{point.kind, communicates ? point.group : VariantOf(OpOf(point)),
                  communicates ? point.nodes : 1};
    points[key].push_back(&point);
  }
  for (const auto& [key, of_key] : points) tables_.emplace(key, MakeTable(of_key));
  MakeSlowdowns(points);
}

CostModel::Table CostModel::MakeTable(const std::vector<const ProfilePoint*>& points) const {
  Table table;
  table.concurrency = (*std::min_element(points.begin(), points.end(), [](auto* a, auto* b) {
                        return a->concurrency < b->concurrency;
                      }))->concurrency;
  std::vector<TimeSample> samples;
  for (const ProfilePoint* point : points) {
    if (point->concurrency != table.concurrency) continue;
    const OpFeatures features = FeaturesOf(OpOf(*point));
    table.dimensions = features.dimensions;
    samples.push_back({features.at, features.terms, point->seconds});
  }
  table.surface = TimeSurface(samples, table.dimensions);
  table.slowdown.resize(levels_.size());
  return table;
}

// The factor of each level over the table's own, at the points that were measured there, and its
// mean over the kinds of a class for those that were not.
void CostModel::MakeSlowdowns(const std::map<Key, std::vector<const ProfilePoint*>>& points) {
  class_slowdown_.assign(levels_.size(), {1.0, 1.0});
  if (!cluster_.is_cpu) return;
  for (std::size_t level = 1; level < levels_.size(); ++level) {
    std::array<double, 2> sums{};
    std::array<int, 2> counts{};
    for (auto& [key, table] : tables_) {
      if (IsCommunication(std::get<0>(key)) || levels_[level] <= table.concurrency) continue;
      std::vector<LogPoint> at;
      std::vector<double> logs;
      for (const ProfilePoint* point : points.at(key)) {
        if (point->concurrency != levels_[level]) continue;
        const OpFeatures features = FeaturesOf(OpOf(*point));
        at.push_back(features.at);
        logs.push_back(
            std::log(point->seconds / table.surface(features.at, features.terms).seconds));
        // A disk or a cap says nothing of how compute slows down.
        if (table.concurrency == 1 && point->kind != OpKind::kCopy) {
          sums[ClassOf(point->kind)] += logs.back();
          ++counts[ClassOf(point->kind)];
        }
      }
      table.slowdown[level] = LogField(at, logs, table.dimensions);
    }
    for (std::size_t c = 0; c < 2; ++c) {
      const std::size_t from = counts[c] > 0 ? c : 1 - c;
      if (counts[from] > 0) class_slowdown_[level][c] = std::exp(sums[from] / counts[from]);
    }
  }
}

// The table of the op's own layout and accumulation, else of the same layout, else of any.
const CostModel::Table* CostModel::FindTable(const Op& op, bool* borrowed) const {
  *borrowed = false;
  const int variant = VariantOf(op);
  const auto exact = tables_.find({op.kind, variant, 1});
  if (exact != tables_.end()) return &exact->second;
  if (op.kind == OpKind::kCopy) return nullptr;  // one route says nothing of another
  *borrowed = true;
  const Table* any = nullptr;
  for (auto it = tables_.lower_bound({op.kind, 0, 0});
       it != tables_.end() && std::get<0>(it->first) == op.kind; ++it) {
    if ((std::get<1>(it->first) ^ variant) == kAccumulateBit) return &it->second;
    if (any == nullptr) any = &it->second;
  }
  return any;
}

CostModel::Estimate CostModel::FromTable(const Table& table, const Op& op) const {
  const OpFeatures features = FeaturesOf(op);
  const TimeSurface::Value value = table.surface(features.at, features.terms);
  Estimate estimate{value.seconds, Provenance::kInterpolated, table.surface.error()};
  if (value.measured) {
    estimate.provenance = Provenance::kMeasured;
    for (const ProfilePoint& point : profile_.points) {
      if (point.kind != op.kind || point.shape != op.shape || point.p90_s <= 0 ||
          point.formats != op.formats || VariantOf(OpOf(point)) != VariantOf(op)) {
        continue;
      }
      estimate.error = (point.p90_s - point.p10_s) / kDeviationsBetweenDeciles / point.seconds;
      break;
    }
  } else if (!value.inside) {
    estimate.provenance = Provenance::kExtrapolated;
    estimate.error = std::max(kSmallestExtrapolatedError, kBorrowedFactor * estimate.error);
  }
  return estimate;
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
  if (op.kind == OpKind::kGemm || op.kind == OpKind::kGroupedGemm) {
    flop_s = work.flop / GemmRate(rates, op.format).value;
    fixed_s += rates.gemm_fill_s.value;
  } else if (op.kind == OpKind::kAttentionForward ||
             op.kind == OpKind::kStandardAttentionForward ||
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

const CostModel::Table* CostModel::FindGroup(OpKind kind, int group, bool many_nodes) const {
  // Both ends of a transfer take the same time: either may have been measured.
  for (const OpKind k : {kind, kind == OpKind::kSend ? OpKind::kRecv : OpKind::kSend}) {
    for (auto it = tables_.lower_bound({k, group, 0});
         it != tables_.end() && std::get<0>(it->first) == k && std::get<1>(it->first) == group;
         ++it) {
      if ((std::get<2>(it->first) > 1) == many_nodes) return &it->second;
    }
    if (IsCollective(kind)) break;
  }
  return nullptr;
}

CommunicationTime CostModel::AssumedTime(OpKind kind, double bytes, const GroupPlace& place) const {
  if (!cluster_.is_cpu || place.nodes > 1) return TimeOfCommunication(fabric_, kind, bytes, place);
  CommunicationTime time;
  time.seconds = SharedMemorySeconds(profile_.rates, kind, bytes, place.members);
  return time;
}

CostModel::Estimate CostModel::Communication(const Op& op, const GroupPlace& place) const {
  if (place.members < 2) return {0, Provenance::kMeasured, 0};
  // An exchange of unequal parts costs what one of equal ones of as many bytes does: the part that
  // is longest is left out, up to the imbalance of the counts.
  if (op.kind == OpKind::kAllToAllV) {
    Op equal = op;
    equal.kind = OpKind::kAllToAll;
    return Communication(equal, place);
  }
  const bool many = place.nodes > 1;
  const double bytes = WorkOf(op).bytes;
  const double assumed = AssumedTime(op.kind, bytes, place).seconds;
  if (const Table* table = FindGroup(op.kind, place.members, many)) return FromTable(*table, op);
  int below = 0;
  int above = 0;
  for (const auto& [key, table] : tables_) {
    if (std::get<0>(key) != op.kind || (std::get<2>(key) > 1) != many) continue;
    const int group = std::get<1>(key);
    if (group < place.members) below = std::max(below, group);
    if (group > place.members && (above == 0 || group < above)) above = group;
  }
  if (below > 1 && above > 0) {
    const Estimate low = FromTable(*FindGroup(op.kind, below, many), op);
    const Estimate high = FromTable(*FindGroup(op.kind, above, many), op);
    const double part = std::log(static_cast<double>(place.members) / below) /
                        std::log(static_cast<double>(above) / below);
    return {low.seconds * std::pow(high.seconds / low.seconds, part),
            Worse(Provenance::kInterpolated, Worse(low.provenance, high.provenance)),
            std::max(kSmallestExtrapolatedError, std::max(low.error, high.error))};
  }
  const int nearest = below > 1 ? below : above;
  if (nearest < 2) return {assumed, Provenance::kDefault, profile_.error};
  Estimate estimate = FromTable(*FindGroup(op.kind, nearest, many), op);
  GroupPlace measured;
  measured.members = nearest;
  measured.nodes = std::min(place.nodes, nearest);
  measured.per_node = std::max(1, nearest / measured.nodes);
  estimate.seconds *= assumed / AssumedTime(op.kind, bytes, measured).seconds;
  estimate.provenance = Provenance::kExtrapolated;
  estimate.error = std::max(profile_.error, estimate.error);
  return estimate;
}

// What the system hides of a collective, or slows it down by.
CostModel::Estimate CostModel::InSystem(const Op& op, const GroupPlace& place,
                                        Estimate estimate) const {
  const SystemOptions& system = profile_.system;
  if (op.op_class == OpClass::kTpComm) estimate.seconds *= 1 - system.tp_overlap;
  if (op.op_class == OpClass::kDpComm && place.nodes > 1) estimate.seconds /= system.network_share;
  estimate.seconds += SkewOf(place);
  return estimate;
}

CostModel::Estimate CostModel::Base(const Op& op, const GroupPlace& place) const {
  if (op.kind == OpKind::kOpaque) return {op.duration_s, Provenance::kMeasured, 0};
  if (IsCommunication(op.kind)) return InSystem(op, place, Communication(op, place));
  if (IsOnHost(op, cluster_)) return FromRates(op);
  bool borrowed = false;
  const Table* table = FindTable(op, &borrowed);
  if (table == nullptr) return FromRates(op);
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

// Copies between host and device, and what communication keeps busy of each wire: a transfer one
// way, a collective both.
WireDemand CostModel::DemandOf(const Op& op, const GroupPlace& place, double seconds) const {
  WireDemand demand{};
  if (cluster_.is_cpu || seconds <= 0) return demand;
  const auto use = [&](SharedWire out, SharedWire in, double busy_s) {
    const double share = std::min(1.0, busy_s / seconds);
    if (op.kind != OpKind::kRecv) demand[static_cast<std::size_t>(out)] += share;
    if (op.kind != OpKind::kSend) demand[static_cast<std::size_t>(in)] += share;
  };
  const double bytes = WorkOf(op).bytes;
  if (IsCommunication(op.kind)) {
    const auto busy = AssumedTime(op.kind, bytes, place).busy_s;
    const auto at = [&](Wire wire) { return busy[static_cast<std::size_t>(wire)]; };
    use(SharedWire::kLinkOut, SharedWire::kLinkIn, at(Wire::kLink) + at(Wire::kTorus));
    use(SharedWire::kPcieOut, SharedWire::kPcieIn, at(Wire::kPcie));
    use(SharedWire::kNetworkOut, SharedWire::kNetworkIn, at(Wire::kNetwork));
    return demand;
  }
  if (op.kind != OpKind::kCopy || op.queue == Queue::kNvme || op.from == op.to) return demand;
  const SharedWire wire = op.from == Space::kDevice ? SharedWire::kPcieOut : SharedWire::kPcieIn;
  demand[static_cast<std::size_t>(wire)] =
      std::min(1.0, bytes / profile_.rates.copy_bytes_per_s.value / seconds);
  return demand;
}

OpCost CostModel::CostOf(const Op& op, const GroupPlace& place,
                         const GroupPlace* scattered) const {
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
  cost.launch_s =
      Overhead(OverheadKind::kLaunch, cluster_.is_cpu ? cluster_.devices_per_node : 1);
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
