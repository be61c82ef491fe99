#include "sim/cost/cost_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "sim/cost/kernels/fused_parts.h"
#include "sim/cost/network/communication_model.h"
#include "sim/program/ops/op_work.h"

namespace foretrain {
namespace {

// Rate of attention's products. The attention rate is for fp32 and scales with the GEMM rate of the
// op's format.
double AttentionRate(const Op& op, const Figure& rate, const ProfileRates& rates) {
  return rate.value * (GemmRate(rates, op.format).value / rates.gemm_flop_per_s.value);
}

// Fixed time plus work over a rate.
struct FixedAndRate {
  double fixed_s = 0, work = 0, rate = 1;
  std::string_view unit = "B/s";

  double Seconds() const { return fixed_s + work / rate; }
  void Explain(CostTerms* terms) const {
    if (terms == nullptr) return;
    terms->Fact("rate", rate, unit);
    if (fixed_s > 0) terms->Seconds("fixed", fixed_s);
    terms->Seconds("work / rate", work / rate);
  }
};

// Host-device copies take the copy rate of the bus. NVMe has separate rates for reads and writes. A
// copy on the device reads and writes each byte.
FixedAndRate CopyTime(const Op& op, double bytes, const ProfileRates& rates) {
  if (op.to == Space::kNvme) {
    return {rates.nvme_base_s.value, bytes, rates.nvme_write_bytes_per_s.value};
  }
  if (op.from == Space::kNvme) {
    return {rates.nvme_base_s.value, bytes, rates.nvme_read_bytes_per_s.value};
  }
  if (op.from == Space::kDevice && op.to == Space::kDevice) {
    return {rates.kernel_s.value, 2 * bytes, rates.memory_bytes_per_s.value};
  }
  return {rates.kernel_s.value, bytes, rates.copy_bytes_per_s.value};
}

// True if the op runs on the host of an accelerator. Measured points are from the device, so they
// do not apply to it.
bool IsOnHost(const Op& op, const ClusterSpec& cluster) {
  return op.queue == Queue::kCpu && !cluster.is_cpu;
}

}  // namespace

Result<CostModel> CostModel::Make(const ClusterSpec& cluster, const DeviceProfile& profile) {
  FT_TRY(ValidateCluster(cluster));
  FT_TRY(ValidateProfile(profile));
  return CostModel(cluster, profile);
}

// Roofline estimate: fixed cost plus the larger of arithmetic and memory time. Kernel models, if
// the architecture is known, replace it for compute ops. A few kinds have rates of their own.
Estimate CostModel::FromRates(const Op& op, CostTerms* terms) const {
  const ProfileRates& rates = profile_.rates;
  const OpWork work = WorkOf(op);
  const double bytes = work.bytes;
  Estimate estimate{0, Provenance::kDefault, profile_.error};
  if (hot_.has_value()) {
    if (const auto seconds =
            KernelSeconds(*profile_.kernels, *hot_, profile_.system, op, bytes, terms)) {
      if (terms != nullptr) {
        terms->Fact("architecture", profile_.kernels->architecture.name);
      }
      estimate.seconds = *seconds;
      return estimate;
    }
  }
  const auto of = [&](const FixedAndRate& time) {
    time.Explain(terms);
    estimate.seconds = time.Seconds();
    return estimate;
  };
  if (IsOnHost(op, cluster_)) {
    return of({rates.kernel_s.value, bytes, rates.host_bytes_per_s.value});
  }
  if (op.kind == OpKind::kLoadBatch) {
    return of({rates.kernel_s.value, bytes, rates.copy_bytes_per_s.value});
  }
  if (op.kind == OpKind::kHostRead || op.kind == OpKind::kReadCounts) {
    return of({rates.host_read_s.value, 0, 1});
  }
  if (op.kind == OpKind::kCopy) return of(CopyTime(op, bytes, rates));
  const FixedAndRate moved{rates.kernel_s.value, bytes, rates.memory_bytes_per_s.value};
  if (IsProduct(op.kind)) {
    FixedAndRate product{rates.kernel_s.value + rates.gemm_fill_s.value, work.flop,
                         GemmRate(rates, op.format).value, "FLOP/s"};
    const FixedAndRate memory{product.fixed_s, bytes, moved.rate};
    return of(product.Seconds() >= memory.Seconds() ? product : memory);
  }
  if (IsAttention(op.kind)) {
    const Figure& rate = IsAttentionForward(op.kind) ? rates.attention_forward_flop_per_s
                                                     : rates.attention_backward_flop_per_s;
    const FixedAndRate attention{moved.fixed_s, work.flop, AttentionRate(op, rate, rates),
                                 "FLOP/s"};
    return of(attention.Seconds() >= moved.Seconds() ? attention : moved);
  }
  return of(moved);
}

// Cost of a fused op as the sum of its parts. On an accelerator with a fused kernel, only the extra
// bytes are added to the product. Errors are averaged by seconds, as if both parts err in the same
// direction.
Estimate CostModel::FromParts(const Op& op, CostTerms* terms) const {
  const FusedParts parts = PartsOf(op);
  const bool at_once = !cluster_.is_cpu && IsOneKernel(op);
  bool borrowed = false;
  if (at_once && measured_.Find(parts.product, &borrowed) == nullptr) return FromRates(op, terms);
  CostTerms of_product, of_then;
  const Estimate product = Base(parts.product, {}, terms != nullptr ? &of_product : nullptr);
  Estimate then{0, Provenance::kDefault, profile_.error};
  if (at_once) {
    const double bytes = WorkOf(op).bytes - WorkOf(parts.product).bytes;
    const FixedAndRate extra{0, bytes, profile_.rates.memory_bytes_per_s.value};
    extra.Explain(terms != nullptr ? &of_then : nullptr);
    then.seconds = extra.Seconds();
  } else {
    then = Base(parts.then, {}, terms != nullptr ? &of_then : nullptr);
  }
  if (terms != nullptr) {
    terms->Part("the product", std::move(of_product));
    terms->Part(at_once ? "the further bytes" : "what follows it", std::move(of_then));
  }
  const double seconds = product.seconds + then.seconds;
  const double off = product.error * product.seconds + then.error * then.seconds;
  return {seconds, Worse(product.provenance, then.provenance), seconds > 0 ? off / seconds : 0};
}

bool CostModel::HasDocuments(const Op& op) const {
  if (document_tokens_ <= 0) return false;
  const auto tokens = static_cast<double>(op.shape.sequence);
  if (FamilyOf(op.kind) == OpFamily::kAttentionPart) {
    const bool wide = op.shape.window == 0 || op.shape.window > PairsOfQuery();
    return document_tokens_ < tokens * op.shape.cp && wide && !op.bidirectional;
  }
  const bool flash = op.kind == OpKind::kAttentionForward || op.kind == OpKind::kAttentionBackward;
  return flash && document_tokens_ < tokens;
}

// Keys that a query sees at the mean: the tokens of its document up to its own.
std::int64_t CostModel::PairsOfQuery() const {
  return std::max<std::int64_t>(1, std::llround((document_tokens_ + 1) / 2));
}

// The same rows as samples of the documents' length. A part of a sequence keeps its rows and gets a
// window with as many keys as a query sees, since pairs then lie as near to the diagonal.
Op CostModel::OfDocuments(const Op& op) const {
  Op of = op;
  if (FamilyOf(op.kind) == OpFamily::kAttentionPart) {
    of.shape.window = PairsOfQuery();
    return of;
  }
  of.shape.sequence = std::max<std::int64_t>(1, std::llround(document_tokens_));
  const double documents = static_cast<double>(op.shape.batch * op.shape.sequence) /
                           static_cast<double>(of.shape.sequence);
  of.shape.batch = std::max<std::int64_t>(1, std::llround(documents));
  return of;
}

// Order of sources: given durations, collectives, host ops, measured tables, fused parts, then
// rates.
Estimate CostModel::Base(const Op& op, const GroupPlace& place, CostTerms* terms) const {
  if (HasDocuments(op)) {
    const Op of = OfDocuments(op);
    if (terms != nullptr) {
      terms->Fact("documents",
                  static_cast<double>(op.shape.batch * op.shape.sequence) / document_tokens_);
      terms->Fact("tokens of a document", document_tokens_);
    }
    return Base(of, place, terms);
  }
  if (op.kind == OpKind::kOpaque) {
    if (terms != nullptr) terms->Seconds("given duration", op.duration_s);
    return {op.duration_s, Provenance::kMeasured, 0};
  }
  if (IsCommunication(op.kind)) {
    const CommunicationModel model = Communication();
    return model.InSystem(op, place, model.EstimateOf(op, place, terms), terms);
  }
  if (IsOnHost(op, cluster_)) return FromRates(op, terms);
  bool borrowed = false;
  const MeasuredTables::Table* table = measured_.Find(op, &borrowed);
  if (table == nullptr) return IsFused(op.kind) ? FromParts(op, terms) : FromRates(op, terms);
  Estimate estimate = measured_.At(*table, op);
  MeasuredTables::Explain(*table, op, estimate, terms);
  if (borrowed) {
    if (terms != nullptr) terms->Fact("points", "of another layout");
    estimate.Borrow();
  }
  // If a table starts at a higher concurrency, its times include that slowdown; divide it out.
  if (cluster_.is_cpu && table->concurrency > 1) {
    const double slowdown = measured_.SlowdownWithin(op, *table);
    if (terms != nullptr) terms->Factor("1 / slowdown of the measured concurrency", 1 / slowdown);
    estimate.seconds /= slowdown;
    estimate.provenance = Worse(estimate.provenance, Provenance::kInterpolated);
  }
  return estimate;
}

// Factor of a level relative to the op alone. On an accelerator communication slows compute.
double CostModel::Slowdown(const Op& op, const MeasuredTables::Table* table,
                           std::size_t level) const {
  if (cluster_.is_cpu) return measured_.Slowdown(op, table, level);
  return IsCompute(op.op_class) ? profile_.rates.overlap_slowdown.value : 1.0;
}

// Threads that the op keeps busy. On one machine the receiver copies while the sender sleeps.
// Reading a few bytes on the host, disk transfers and opaque ops count as no load.
double CostModel::LoadOf(const Op& op) const {
  if (op.kind == OpKind::kOpaque || op.kind == OpKind::kHostRead || op.kind == OpKind::kReadCounts)
    return 0.0;
  if (op.kind == OpKind::kCopy && op.queue == Queue::kNvme) return 0.0;
  if (!cluster_.is_cpu && !IsCommunication(op.kind) && !IsCompute(op.op_class)) return 0.0;
  return cluster_.is_cpu && op.kind == OpKind::kSend ? 0.0 : 1.0;
}

// Expected maximum of n normal deviates: about sqrt(2 ln n) (see the header).
double CostModel::Straggling(int devices) const {
  const NetworkConstants& constants = Networks();
  if (cluster_.is_cpu || devices <= constants.straggler_from) return 1;
  const auto largest = [](double n) { return std::sqrt(2 * std::log(n)); };
  return 1 + constants.straggler_sigma * (largest(devices) - largest(constants.straggler_from));
}

// A scattered transfer sends 1 / tp of the tensor per rank, then gathers it on the receiving side.
// The gather's time is added to the transfer, because the next op waits for both.
OpCost CostModel::CostOf(const Op& op, const GroupPlace& place, const GroupPlace* scattered) const {
  if (scattered != nullptr && (op.kind == OpKind::kSend || op.kind == OpKind::kRecv)) {
    Op part = op, whole = op;
    part.shape.elements = CeilDiv(op.shape.elements, scattered->members);
    whole.kind = OpKind::kAllGather;
    OpCost cost = CostOf(part, place);
    const double gather_s = Communication().EstimateOf(whole, *scattered).seconds;
    for (double& seconds : cost.seconds) seconds += gather_s;
    return cost;
  }
  const Estimate base = Base(op, place);
  OpCost cost;
  cost.provenance = base.provenance;
  cost.error = base.error;
  cost.load = LoadOf(op);
  cost.demand = Communication().DemandOf(op, place, base.seconds);
  cost.launch_s = Overhead(OverheadKind::kLaunch, cluster_.is_cpu ? cluster_.devices_per_node : 1);
  // A gradient that a separate kernel accumulates costs the host a second launch.
  if (op.accumulate && !profile_.system.fused_accumulation) cost.launch_s *= 2;
  if (FamilyOf(op.kind) == OpFamily::kGroupedGemm) cost.launch_s += profile_.system.expert_host_s;
  const bool communicates = IsCommunication(op.kind);
  if (communicates) {
    cost.launch_s += Communication().SkewOf(place) + (place.members - 1) * cluster_.member_launch_s;
  }
  cost.measured_threads = levels().back();
  if (communicates) cost.measured_threads = std::max(levels().back(), 1.0 * place.members);
  bool borrowed = false;
  const MeasuredTables::Table* table = communicates ? nullptr : measured_.Find(op, &borrowed);
  const bool steady = op.kind == OpKind::kOpaque || communicates;
  for (std::size_t level = 0; level < levels().size(); ++level) {
    cost.seconds.push_back(base.seconds *
                           (level == 0 || steady ? 1.0 : Slowdown(op, table, level)));
  }
  return cost;
}

CostTerms CostModel::Explain(const Op& op, const GroupPlace& place,
                             const GroupPlace* scattered) const {
  CostTerms terms;
  if (scattered != nullptr && (op.kind == OpKind::kSend || op.kind == OpKind::kRecv)) {
    Op part = op, whole = op;
    part.shape.elements = CeilDiv(op.shape.elements, scattered->members);
    whole.kind = OpKind::kAllGather;
    CostTerms gather;
    (void)Communication().EstimateOf(whole, *scattered, &gather);
    terms.Part("a rank's part of the tensor", Explain(part, place));
    terms.Part("gather of the parts", std::move(gather));
    return terms;
  }
  (void)Base(op, place, &terms);
  return terms;
}

const Figure& CostModel::OverheadFigure(OverheadKind kind) const {
  if (kind == OverheadKind::kLaunch) return profile_.rates.launch_s;
  return kind == OverheadKind::kGap ? profile_.rates.gap_s : profile_.rates.wake_s;
}

// Linear interpolation between the nearest measured concurrencies; constant beyond them.
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
