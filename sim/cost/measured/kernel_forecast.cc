#include "sim/cost/measured/kernel_forecast.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

namespace foretrain {
namespace {

// Related architectures, nearest first. Ada and the Blackwell of workstations share the warp-level
// tensor core instructions of Ampere; Hopper and the Blackwell of data centres load tiles
// asynchronously. An unknown architecture counts as Hopper.
struct Kin {
  std::string_view architecture;
  std::array<std::string_view, 3> others;
};
constexpr std::array<Kin, 7> kKin = {{
    {"volta", {"ampere", "ada", "blackwell-rtx"}},
    {"ampere", {"blackwell-rtx", "ada", "hopper"}},
    {"hopper", {"ampere", "blackwell", "blackwell-rtx"}},
    {"blackwell", {"hopper", "ampere", "blackwell-rtx"}},
    {"ada", {"blackwell-rtx", "ampere", "hopper"}},
    {"blackwell-rtx", {"ada", "ampere", "hopper"}},
    {"blackwell-geforce", {"blackwell-rtx", "ada", "ampere"}},
}};

// 0: the same architecture; larger numbers are less related.
int Kinship(std::string_view device, std::string_view profile) {
  if (device == profile) return 0;
  for (const Kin& kin : kKin) {
    if (kin.architecture != device) continue;
    const auto at = std::find(kin.others.begin(), kin.others.end(), profile);
    return 1 + static_cast<int>(at - kin.others.begin());
  }
  return profile == "hopper" ? 1 : 2;
}

double LogRatio(double a, double b) { return a > 0 && b > 0 ? std::abs(std::log(a / b)) : 1; }

double Distance(const KernelDevice& device, const KernelProfile& profile) {
  return LogRatio(device.machine.half_flop_per_s, profile.machine.half_flop_per_s) +
         LogRatio(device.machine.memory_bytes_per_s, profile.machine.memory_bytes_per_s) +
         LogRatio(device.memory_bytes, profile.memory_bytes);
}

// The peak whose share with `profile`'s terms is the device's rate.
KernelMachine MachineFor(const KernelDevice& device, const KernelProfile& profile) {
  KernelMachine machine = device.machine;
  if (device.best_flop_per_s > 0 && profile.best_flop_per_s > 0) {
    machine.half_flop_per_s =
        profile.machine.half_flop_per_s * device.best_flop_per_s / profile.best_flop_per_s;
  }
  return machine;
}

// Both reach other devices by the same kind of wires, at known rates.
bool SameWires(const KernelMachine& a, const KernelMachine& b) {
  return a.linked == b.linked && a.link_bytes_per_s > 0 && b.link_bytes_per_s > 0;
}

// `at`, moved into the box of the anchors. Beyond it the correction is that of the nearest end.
FieldPoint WithinAnchors(FieldPoint at, const ResidualField& field) {
  FieldPoint low = field.anchors.front(), high = low;
  for (const FieldPoint& anchor : field.anchors) {
    for (std::size_t i = 0; i < kFieldDimensions; ++i) {
      low[i] = std::min(low[i], anchor[i]);
      high[i] = std::max(high[i], anchor[i]);
    }
  }
  for (std::size_t i = 0; i < kFieldDimensions; ++i) at[i] = std::clamp(at[i], low[i], high[i]);
  return at;
}

template <class Shape>
double CorrectionWithin(const ResidualField& field, bool applies, const Shape& shape) {
  if (!applies || field.anchors.empty()) return 1;
  return std::exp(field(WithinAnchors(PointOf(shape), field)));
}

// Seconds of a model, corrected by the field where it applies.
template <class Part, class Shape>
double Corrected(const ChosenPart<Part>& chosen, const Shape& shape, double model_s) {
  if (chosen.part->field.anchors.empty() || !chosen.same_architecture) return model_s;
  return model_s * std::exp(chosen.part->field(PointOf(shape)));
}

// The field of a group's single product does not apply to a grouped kernel.
ProductShape Single(const ProductShape& shape) { return {shape.m, shape.n, shape.k, 1}; }

}  // namespace

std::optional<KernelDevice> KernelDeviceOf(const DeviceSpec& device, double best_flop_per_s,
                                           const std::vector<Architecture>& architectures) {
  KernelDevice out;
  out.name = device.name;
  out.machine = {.multiprocessors = device.multiprocessors,
                 .half_flop_per_s = std::max(device.bf16_flop_per_s, device.fp16_flop_per_s),
                 .memory_bytes_per_s = device.memory_bytes_per_s,
                 .halves_fp32_sums = device.halves_fp32_sums};
  out.memory_bytes = static_cast<double>(device.memory_bytes);
  out.best_flop_per_s = best_flop_per_s;
  const Architecture* architecture = FindArchitecture(architectures, device.name);
  if (architecture != nullptr) out.architecture = architecture->name;
  out.machine.linked = device.link_bytes_per_s > 0;
  out.machine.link_reduces = device.link_reduces;
  out.machine.link_bytes_per_s = out.machine.linked   ? device.link_bytes_per_s
                                 : device.peer_access ? device.pcie_bytes_per_s
                                                      : device.pcie_bytes_per_s / 2;
  if (device.link_peer_bytes_per_s > 0) out.machine.link_bytes_per_s = 0;
  if (out.machine.multiprocessors < 1 || out.machine.half_flop_per_s <= 0 ||
      out.machine.memory_bytes_per_s <= 0) {
    return std::nullopt;
  }
  return out;
}

KernelDevice DeviceOf(const KernelProfile& profile) {
  return {.name = profile.device,
          .architecture = profile.architecture,
          .machine = profile.machine,
          .memory_bytes = profile.memory_bytes,
          .best_flop_per_s = profile.best_flop_per_s};
}

template <class Part, class Get>
ChosenPart<Part> KernelForecast::Choose(const Get& get) const {
  for (const KernelProfile* profile : nearest_) {
    const std::optional<Part>& part = get(*profile);
    if (!part.has_value()) continue;
    return {.part = &*part,
            .machine = MachineFor(device_, *profile),
            .same_architecture = profile->architecture == device_.architecture,
            .device = profile->device};
  }
  return {};
}

// All-reduce in switches moves half of a ring's bytes, so it needs a profile of the same kind.
ChosenPart<CollectiveFit> KernelForecast::ChooseCollective(std::size_t at) const {
  const KernelMachine& own = device_.machine;
  for (const KernelProfile* profile : nearest_) {
    const std::optional<CollectiveFit>& part = profile->collectives[at];
    const bool same = profile->architecture == device_.architecture;
    if (!part.has_value() || !SameWires(own, profile->machine) || (own.linked && !same)) continue;
    if (kMeasuredCollectives[at].kind == OpKind::kAllReduce &&
        own.link_reduces != profile->machine.link_reduces) {
      continue;
    }
    return {.part = &*part, .machine = own, .same_architecture = same, .device = profile->device};
  }
  return {};
}

ChosenPart<MeasuredKernel<ExchangeTerms>> KernelForecast::ChooseExchange(std::size_t part) const {
  for (const KernelProfile* profile : nearest_) {
    const auto& kernel = profile->exchanges[part];
    if (!kernel.has_value() || !SameWires(device_.machine, profile->machine)) continue;
    return {.part = &*kernel,
            .machine = device_.machine,
            .same_architecture = profile->architecture == device_.architecture,
            .device = profile->device};
  }
  return {};
}

// Ties keep the order of the profiles, so that the choice is the same on every machine.
KernelForecast::KernelForecast(const KernelDevice& device, std::span<const KernelProfile> profiles,
                               std::string_view leave_out)
    : device_(device) {
  std::vector<std::pair<double, const KernelProfile*>> order;
  for (const KernelProfile& profile : profiles) {
    if (profile.device == leave_out) continue;
    const bool own = profile.device == device.name;
    constexpr double kFar = 1000;  // above every distance within an architecture
    order.emplace_back(
        own ? -1
            : kFar * Kinship(device.architecture, profile.architecture) + Distance(device, profile),
        &profile);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [distance, profile] : order) nearest_.push_back(profile);
  for (std::size_t i = 0; i < products_.size(); ++i) {
    products_[i] =
        Choose<MeasuredKernel<GemmTerms>>([i](const KernelProfile& profile) -> const auto& {
          return profile.products.formats[i];
        });
    best_products_[i] = Choose<BestShare>([i](const KernelProfile& profile) -> const auto& {
      return profile.best_products[i];
    });
    experts_[i] =
        Choose<MeasuredKernel<ExpertsTerms>>([i](const KernelProfile& profile) -> const auto& {
          return profile.experts.formats[i];
        });
  }
  attention_forward_ = Choose<MeasuredKernel<AttentionTerms>>(
      [](const KernelProfile& profile) -> const auto& { return profile.attention_forward; });
  attention_backward_ = Choose<MeasuredKernel<AttentionTerms>>(
      [](const KernelProfile& profile) -> const auto& { return profile.attention_backward; });
  training_ = Choose<MeasuredKernel<TrainingTerms>>(
      [](const KernelProfile& profile) -> const auto& { return profile.training; });
  for (std::size_t i = 0; i < collectives_.size(); ++i) collectives_[i] = ChooseCollective(i);
  for (std::size_t i = 0; i < exchanges_.size(); ++i) exchanges_[i] = ChooseExchange(i);
}

std::optional<double> KernelForecast::ProductSeconds(ProductFormat format,
                                                     const ProductShape& shape,
                                                     bool with_cast) const {
  const auto& chosen = products_[static_cast<std::size_t>(format)];
  if (chosen.part == nullptr) return std::nullopt;
  const GemmTerms& terms = chosen.part->terms;
  const double cast_s = with_cast ? CastSeconds(terms, chosen.machine, format, shape) : 0;
  const double model_s = GemmModelSeconds(terms, chosen.machine, format, shape) + cast_s;
  return shape.groups > 1 ? model_s : Corrected(chosen, Single(shape), model_s);
}

std::optional<double> KernelForecast::BestOfFormatSeconds(ProductFormat format,
                                                          const ProductShape& shape,
                                                          CostTerms* terms) const {
  const std::optional<double> median_s = ProductSeconds(format, shape, false);
  const BestShare* best = best_products_[static_cast<std::size_t>(format)].part;
  if (!median_s.has_value()) return median_s;
  const double share = best == nullptr ? 1 : BestShareAt(*best, shape);
  if (terms != nullptr) {
    const auto& chosen = products_[static_cast<std::size_t>(format)];
    const double model_s = GemmModelSeconds(chosen.part->terms, chosen.machine, format, shape);
    terms->Fact("kernel profile", chosen.device);
    terms->Seconds("hot loop: tiles, clock, memory", model_s);
    terms->Factor("residual correction", *median_s / model_s);
    terms->Factor("best library over the median", share);
  }
  return *median_s * share;
}

// A product with one scale a tensor is a block-scaled product with equal scales: it is never
// slower.
std::optional<double> KernelForecast::BestProductSeconds(ProductFormat format,
                                                         const ProductShape& shape,
                                                         CostTerms* terms) const {
  if (format != ProductFormat::kFp8) return BestOfFormatSeconds(format, shape, terms);
  const std::optional<double> own_s = BestOfFormatSeconds(format, shape);
  const std::optional<double> block_s = BestOfFormatSeconds(ProductFormat::kFp8Block, shape);
  const bool by_blocks = own_s.has_value() && block_s.has_value() && *block_s < *own_s;
  return BestOfFormatSeconds(by_blocks ? ProductFormat::kFp8Block : format, shape, terms);
}

std::optional<double> KernelForecast::AttentionForwardSeconds(const AttentionShape& shape) const {
  if (attention_forward_.part == nullptr) return std::nullopt;
  return Corrected(attention_forward_, shape,
                   AttentionForwardModelSeconds(attention_forward_.part->terms,
                                                attention_forward_.machine, shape));
}

std::optional<double> KernelForecast::ExpertsForwardSeconds(ProductFormat format,
                                                            const ExpertsShape& shape) const {
  const auto& chosen = experts_[static_cast<std::size_t>(format)];
  if (chosen.part == nullptr) return std::nullopt;
  return Corrected(chosen, shape,
                   ExpertsForwardModelSeconds(chosen.part->terms, chosen.machine, format, shape));
}

std::optional<double> KernelForecast::TrainingProductSeconds(const TrainingProduct& product) const {
  const std::optional<double> hot = ProductSeconds(ProductFormat::kBf16, product.shape, false);
  if (!hot.has_value() || !training_.same_architecture) return hot;
  return TrainingProductModelSeconds(training_.part->terms, training_.machine, product, *hot);
}

std::optional<double> KernelForecast::TrainingAttentionForwardSeconds(const AttentionShape& shape,
                                                                      bool with_host) const {
  const std::optional<double> hot = AttentionForwardSeconds(shape);
  if (!hot.has_value() || !training_.same_architecture) return hot;
  if (!with_host) return training_.part->terms.forward_time * *hot;
  return TrainingAttentionModelSeconds(training_.part->terms, *hot);
}

std::optional<double> KernelForecast::AttentionBackwardSeconds(const AttentionShape& shape) const {
  if (attention_backward_.part == nullptr) return std::nullopt;
  return AttentionBackwardModelSeconds(attention_backward_.part->terms, attention_backward_.machine,
                                       shape);
}

std::optional<double> KernelForecast::CollectiveSeconds(OpKind kind, double bytes, int members,
                                                        CostTerms* terms) const {
  constexpr double kMaxBytes = 1e18;
  const std::optional<std::size_t> at = CollectiveAt(kind);
  if (!at.has_value() || collectives_[*at].part == nullptr) return std::nullopt;
  if (members < 2) return 0;
  const auto& [fit, machine, same_architecture, of_device] = collectives_[*at];
  const CollectiveShape shape = {
      static_cast<std::int64_t>(std::clamp(std::round(bytes), 1.0, kMaxBytes)), members};
  const double correction = CorrectionWithin(fit->kernel.field, same_architecture, shape);
  if (terms != nullptr) {
    terms->Fact("kernel profile", of_device);
    terms->Fact("published link rate", machine.link_bytes_per_s, "B/s");
    terms->Fact("residual correction, included", correction);
  }
  return CollectiveModelSeconds(fit->kernel.terms, machine, kind, shape) * correction;
}

// Terms are shares of the device's own link rate; a stated network replaces the measured one.
std::optional<double> KernelForecast::ExchangeSeconds(ExchangePart part,
                                                      const ExchangeShape& shape) const {
  const auto& [kernel, machine, same_architecture, of_device] =
      exchanges_[static_cast<std::size_t>(part)];
  if (kernel == nullptr) return std::nullopt;
  return ExchangeModelSeconds(kernel->terms, machine, part, shape) *
         CorrectionWithin(kernel->field, same_architecture, shape);
}

}  // namespace foretrain
