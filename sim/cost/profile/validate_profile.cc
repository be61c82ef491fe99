#include <cmath>
#include <cstddef>

#include "sim/config/rules/refuse.h"
#include "sim/cost/kernels/op_features.h"
#include "sim/cost/profile/device_profile.h"

namespace foretrain {
namespace {

constexpr double kShortest = 1e-12;  // seconds of a measured op
constexpr double kLongest = 1e6;

struct FigureRange {
  const char* name;
  const Figure* figure;
  double low;
  double high;
};

// Rates that are divided by have a positive lower limit. Those of tensor core formats may be 0,
// which means unknown.
Result<void> ValidateRates(const ProfileRates& rates) {
  constexpr double kSlowest = 1e-3;  // lowest valid rate, per second
  constexpr double kFastest = 1e21;
  const FigureRange ranges[] = {
      {"gemm_flop_per_s", &rates.gemm_flop_per_s, kSlowest, kFastest},
      {"gemm_fill_s", &rates.gemm_fill_s, 0, kLongest},
      {"attention_forward_flop_per_s", &rates.attention_forward_flop_per_s, kSlowest, kFastest},
      {"attention_backward_flop_per_s", &rates.attention_backward_flop_per_s, kSlowest, kFastest},
      {"memory_bytes_per_s", &rates.memory_bytes_per_s, kSlowest, kFastest},
      {"kernel_s", &rates.kernel_s, 0, kLongest},
      {"launch_s", &rates.launch_s, 0, kLongest},
      {"gap_s", &rates.gap_s, 0, kLongest},
      {"wake_s", &rates.wake_s, 0, kLongest},
      {"copy_bytes_per_s", &rates.copy_bytes_per_s, kSlowest, kFastest},
      {"host_read_s", &rates.host_read_s, 0, kLongest},
      {"link_bytes_per_s", &rates.link_bytes_per_s, kSlowest, kFastest},
      {"link_base_s", &rates.link_base_s, 0, kLongest},
      {"link_hop_s", &rates.link_hop_s, 0, kLongest},
      {"network_bytes_per_s", &rates.network_bytes_per_s, kSlowest, kFastest},
      {"network_base_s", &rates.network_base_s, 0, kLongest},
      {"network_hop_s", &rates.network_hop_s, 0, kLongest},
      {"overlap_slowdown", &rates.overlap_slowdown, 1, 100},
      {"host_bytes_per_s", &rates.host_bytes_per_s, kSlowest, kFastest},
      {"nvme_read_bytes_per_s", &rates.nvme_read_bytes_per_s, kSlowest, kFastest},
      {"nvme_write_bytes_per_s", &rates.nvme_write_bytes_per_s, kSlowest, kFastest},
      {"member_skew_s", &rates.member_skew_s, 0, 1},
      {"graph_launch_s", &rates.graph_launch_s, 0, kLongest},
      {"graph_op_s", &rates.graph_op_s, 0, kLongest},
      {"nvme_base_s", &rates.nvme_base_s, 0, kLongest},
      {"gemm_tf32_flop_per_s", &rates.gemm_tf32_flop_per_s, 0, kFastest},
      {"gemm_fp16_flop_per_s", &rates.gemm_fp16_flop_per_s, 0, kFastest},
      {"gemm_bf16_flop_per_s", &rates.gemm_bf16_flop_per_s, 0, kFastest},
      {"gemm_fp8_flop_per_s", &rates.gemm_fp8_flop_per_s, 0, kFastest},
      {"gemm_fp4_flop_per_s", &rates.gemm_fp4_flop_per_s, 0, kFastest}};
  for (const auto& [name, figure, low, high] : ranges) {
    if (!(figure->value >= low) || !(figure->value <= high)) {
      return Refuse("rates.{} {}: must be from {} to {}", name, figure->value, low, high);
    }
  }
  return {};
}

// Besides the times, checks that all sizes of the kind are given: the logarithm of a missing size
// is not finite.
Result<void> ValidatePoint(const ProfilePoint& point, std::size_t index) {
  const auto wrong = [&](std::string_view field, double value, std::string_view remedy) {
    return Refuse("points[{}] ({}): {} {}: {}", index, Name(point.kind), field, value, remedy);
  };
  if (!(point.seconds >= kShortest) || !(point.seconds <= kLongest)) {
    return wrong("seconds", point.seconds, "must be from 1e-12 to 1e6");
  }
  if (!(point.p10_s >= 0) || !(point.p90_s >= point.p10_s) || !(point.p90_s <= kLongest)) {
    return wrong("p90_s", point.p90_s, "must be from p10_s, which is 0 or more, to 1e6");
  }
  if (point.concurrency < 1) return wrong("concurrency", point.concurrency, "must be at least 1");
  if (point.group < 1) return wrong("group", point.group, "must be at least 1");
  if (point.nodes < 1) return wrong("nodes", point.nodes, "must be at least 1");
  if (point.samples < 1) return wrong("samples", point.samples, "must be at least 1");
  const OpFeatures features = FeaturesOf(OpOf(point));
  for (std::size_t d = 0; d < features.dimensions; ++d) {
    if (!std::isfinite(features.at[d])) {
      return Refuse("points[{}] ({}): a size is missing or 0; give all sizes that the kind has",
                    index, Name(point.kind));
    }
  }
  if (point.kind == OpKind::kOpaque) {
    return Refuse("points[{}]: opaque ops have the time that they are given; leave the point out",
                  index);
  }
  return {};
}

}  // namespace

// Limits keep all times finite after division and interpolation.
Result<void> ValidateProfile(const DeviceProfile& profile) {
  constexpr std::size_t kMaxPoints = 100'000;
  FT_TRY(ValidateRates(profile.rates));
  if (profile.points.size() > kMaxPoints) {
    return Refuse("points: {}; at most {} are read", profile.points.size(), kMaxPoints);
  }
  for (std::size_t i = 0; i < profile.points.size(); ++i) {
    FT_TRY(ValidatePoint(profile.points[i], i));
  }
  for (std::size_t i = 0; i < profile.overheads.size(); ++i) {
    const OverheadPoint& point = profile.overheads[i];
    if (!(point.seconds >= 0) || !(point.seconds <= kLongest) || point.concurrency < 1) {
      return Refuse("overheads[{}] ({}): {} s at concurrency {}: must be 0 to 1e6 s at 1 or more",
                    i, Name(point.kind), point.seconds, point.concurrency);
    }
  }
  return {};
}

}  // namespace foretrain
