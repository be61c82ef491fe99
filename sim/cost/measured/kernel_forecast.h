// Forecasts the hot time of single kernels on a device: from its own measured kernels, or from
// those of the nearest architecture with the device's own peak, bandwidth and multiprocessors.
// Leaves out the sustained clock under a power limit and all that a framework adds.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/config/cluster/cluster_spec.h"
#include "sim/cost/cost_terms.h"
#include "sim/cost/measured/kernel_profile.h"
#include "sim/cost/profile/architecture.h"

namespace foretrain {

// Facts of a device that the choice of a profile and the models need.
struct KernelDevice {
  std::string name;
  std::string architecture;  // of architectures.json; empty: unknown
  KernelMachine machine;
  double memory_bytes = 0;
  double best_flop_per_s = 0;  // best product in 16 bits that was published; 0: unknown
};

// `nullopt` if peak, bandwidth or multiprocessors are unknown.
std::optional<KernelDevice> KernelDeviceOf(const DeviceSpec& device, double best_flop_per_s,
                                           const std::vector<Architecture>& architectures);
KernelDevice DeviceOf(const KernelProfile& profile);

// A part of a profile that is used for a device.
template <class Part>
struct ChosenPart {
  const Part* part = nullptr;  // NULL: no profile has it
  KernelMachine machine;       // the device's, with its peak in the units of the part's rate_share
  bool same_architecture = false;  // the residual field applies
  std::string device;              // of the profile
};

// One device. Every call is a pure function and safe from any thread. Times are `nullopt` if no
// profile has the kernel in that format.
//
// A part (products of one format, attention forward, ...) comes from the device's own profile, else
// from the nearest profile that has it: the same architecture first, then related ones. Among
// several of one architecture, the smallest sum of |ln ratio| of peak, bandwidth and capacity is
// nearest. Terms are shares of the device's own peak and bandwidth. If both devices have a
// published best product, their ratio replaces that of the peaks, because it includes the clock
// that the power limit allows. The residual field of another device is used only within an
// architecture.
class KernelForecast {
 public:
  // `profiles` must outlive the forecast. `leave_out` names a device whose profile is not used.
  KernelForecast(const KernelDevice& device, std::span<const KernelProfile> profiles,
                 std::string_view leave_out = {});

  // One product. `with_cast`: includes the cast of its activations from 16 bits, as the published
  // tables do.
  std::optional<double> ProductSeconds(ProductFormat format, const ProductShape& shape,
                                       bool with_cast) const;
  // The same without the cast, in the best library, as training takes it. `terms`: takes the
  // derivation; NULL: none.
  std::optional<double> BestProductSeconds(ProductFormat format, const ProductShape& shape,
                                           CostTerms* terms = nullptr) const;
  std::optional<double> AttentionForwardSeconds(const AttentionShape& shape) const;
  std::optional<double> ExpertsForwardSeconds(ProductFormat format,
                                              const ExpertsShape& shape) const;
  // Kernels of training's libraries, in bf16.
  std::optional<double> TrainingProductSeconds(const TrainingProduct& product) const;
  // `with_host`: includes the host time in which the benchmark launched it, as its table does.
  std::optional<double> TrainingAttentionForwardSeconds(const AttentionShape& shape,
                                                        bool with_host) const;
  std::optional<double> AttentionBackwardSeconds(const AttentionShape& shape) const;
  // Time of grouped products in training relative to one product with all their tiles; 1.2, as
  // SimuMax measured on B200, where no profile of the architecture has them.
  double GroupedTime() const {
    constexpr double kUsual = 1.2;
    return training_.same_architecture ? training_.part->terms.grouped_time : kUsual;
  }
  // Whether training's attention kernels were measured on this architecture.
  bool KnowsTrainingAttention() const {
    return training_.same_architecture && attention_backward_.same_architecture;
  }

  // One collective from the arrival of its last member, in a group that one node or link domain
  // holds.
  //
  //   kind     all-gather, all-reduce, all-to-all or reduce-scatter; `nullopt` for others
  //   bytes    of the whole tensor (CollectiveShape), > 0
  //   members  >= 1; 0 s for one
  //
  // Devices with links use profiles with links of their own architecture; devices without use the
  // nearest profile without, because all share PCIe. Transfers scale by the published link rates,
  // latencies do not. All-reduce also needs a profile whose switches reduce as the device's do.
  // Beyond measured sizes and members the model goes on (CollectiveModelSeconds) with the
  // correction of the nearest measured one. `nullopt` without such a profile or link rate.
  std::optional<double> CollectiveSeconds(OpKind kind, double bytes, int members,
                                          CostTerms* terms = nullptr) const;

  // Dispatch or combine of experts' tokens (ExchangeModelSeconds), from the nearest profile with
  // links or without as the device.
  std::optional<double> ExchangeSeconds(ExchangePart part, const ExchangeShape& shape) const;

 private:
  std::optional<double> BestOfFormatSeconds(ProductFormat format, const ProductShape& shape,
                                            CostTerms* terms = nullptr) const;
  template <class Part, class Get>
  ChosenPart<Part> Choose(const Get& get) const;
  ChosenPart<CollectiveFit> ChooseCollective(std::size_t at) const;
  ChosenPart<MeasuredKernel<ExchangeTerms>> ChooseExchange(std::size_t part) const;

  KernelDevice device_;
  std::vector<const KernelProfile*> nearest_;  // nearest first
  std::array<ChosenPart<MeasuredKernel<GemmTerms>>, kProductFormatCount> products_;
  std::array<ChosenPart<MeasuredKernel<ExpertsTerms>>, kProductFormatCount> experts_;
  std::array<ChosenPart<BestShare>, kProductFormatCount> best_products_;
  ChosenPart<MeasuredKernel<AttentionTerms>> attention_forward_, attention_backward_;
  ChosenPart<MeasuredKernel<TrainingTerms>> training_;
  std::array<ChosenPart<CollectiveFit>, kCollectiveCount> collectives_;
  std::array<ChosenPart<MeasuredKernel<ExchangeTerms>>, kExchangePartCount> exchanges_;
};

}  // namespace foretrain
