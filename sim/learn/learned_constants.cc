#include "sim/learn/learned_constants.h"

#include <algorithm>
#include <cmath>

#include "base/numeric/cholesky.h"
#include "sim/config/rules/refuse.h"
#include "sim/program/ops/op_kind.h"

namespace foretrain {
namespace {

constexpr double kSkewUnit = 20e-6;  // seconds
constexpr double kFiveTimes = 1.61;  // ln 5

constexpr double kFastest = 1e21, kSlowest = 1e-3;   // limits of rates (ValidateProfile)
constexpr double kLongest = 1e6, kShortest = 1e-12;  // limits of seconds

// Multiplies a share or a time by e^by, limited to `max`.
void Scale(Figure& figure, double by, double max = kLongest) {
  figure = {std::min(max, figure.value * std::exp(by)), Provenance::kInterpolated};
}
void ScaleRate(Figure& rate, double by) {
  rate = {std::clamp(rate.value * std::exp(by), kSlowest, kFastest), Provenance::kInterpolated};
}

// Multiplies measured times by e^by.
template <class Point>
void ScaleTimes(Point& point, double by) {
  for (double* seconds : {&point.seconds, &point.p10_s, &point.p90_s}) {
    *seconds = std::min(kLongest, *seconds * std::exp(by));
  }
}

// Multiplies the seconds of the points of chosen kinds by e^by.
template <class Chosen>
void ScalePoints(DeviceProfile& profile, double by, Chosen&& chosen) {
  for (ProfilePoint& point : profile.points) {
    if (!chosen(point)) continue;
    ScaleTimes(point, by);
    point.seconds = std::max(kShortest, point.seconds);
  }
}

// Scales architecture constants of the kernels, where the profile has any.
template <auto... kKernelFigures>
void MoveKernels(DeviceProfile& profile, double by, double max) {
  if (profile.kernels.has_value()) {
    (Scale(profile.kernels->architecture.*kKernelFigures, by, max), ...);
  }
}

bool IsProductPoint(const ProfilePoint& point) { return IsProduct(point.kind); }
bool IsAttentionPoint(const ProfilePoint& point) { return IsAttention(point.kind); }
bool IsCommunicationPoint(const ProfilePoint& point) { return IsCommunication(point.kind); }
bool IsMemoryPoint(const ProfilePoint& point) {
  return !IsProductPoint(point) && !IsAttentionPoint(point) && !IsCommunicationPoint(point) &&
         point.kind != OpKind::kCopy;
}

// A constant moves the kernel model and the plain rates together. So it acts whether or not the
// architecture is known.
void MoveProducts(DeviceProfile& profile, double by) {
  MoveKernels<&Architecture::sustained_share, &Architecture::sustained_short_share>(profile, by, 1);
  ProfileRates& rates = profile.rates;
  for (Figure* rate :
       {&rates.gemm_flop_per_s, &rates.gemm_tf32_flop_per_s, &rates.gemm_fp16_flop_per_s,
        &rates.gemm_bf16_flop_per_s, &rates.gemm_fp8_flop_per_s, &rates.gemm_fp4_flop_per_s}) {
    if (rate->value > 0) ScaleRate(*rate, by);
  }
  ScalePoints(profile, -by, IsProductPoint);
}
void MoveMemory(DeviceProfile& profile, double by) {
  MoveKernels<&Architecture::memory_efficiency>(profile, by, 1);
  ScaleRate(profile.rates.memory_bytes_per_s, by);
  ScalePoints(profile, -by, IsMemoryPoint);
}
void MoveScores(DeviceProfile& profile, double by) {
  MoveKernels<&Architecture::score_efficiency>(profile, by, 1);
}
void MoveAttention(DeviceProfile& profile, double by) {
  MoveKernels<&Architecture::flash_forward, &Architecture::flash_backward,
              &Architecture::cudnn_forward, &Architecture::cudnn_backward>(profile, by, 1);
  ScaleRate(profile.rates.attention_forward_flop_per_s, by);
  ScaleRate(profile.rates.attention_backward_flop_per_s, by);
  ScalePoints(profile, -by, IsAttentionPoint);
}
void MoveKernel(DeviceProfile& profile, double by) {
  MoveKernels<&Architecture::kernel_s>(profile, by, 1e-3);
  Scale(profile.rates.kernel_s, by);
}
void MoveHost(DeviceProfile& profile, double by) {
  Scale(profile.rates.launch_s, by);
  for (OverheadPoint& point : profile.overheads) ScaleTimes(point, by);
}
void MoveLinks(DeviceProfile& profile, double by) {
  ScaleRate(profile.rates.link_bytes_per_s, by);
  ScalePoints(profile, -by, IsCommunicationPoint);
}
void MoveLinkLatency(DeviceProfile& profile, double by) {
  Scale(profile.rates.link_base_s, by);
  Scale(profile.rates.link_hop_s, by);
}
void MoveNetwork(DeviceProfile& profile, double by) {
  ScaleRate(profile.rates.network_bytes_per_s, by);
}
void MoveNetworkLatency(DeviceProfile& profile, double by) {
  Scale(profile.rates.network_base_s, by);
  Scale(profile.rates.network_hop_s, by);
}
void MoveSkew(DeviceProfile& profile, double by) {
  Figure& skew = profile.rates.member_skew_s;
  skew = {std::max(0.0, skew.value + kSkewUnit * by), Provenance::kInterpolated};
}

// The time of everything: all rates fall and all times grow. Where a framework is faster than
// forecast, links and networks still have the published rates.
void MoveAll(DeviceProfile& profile, double by) {
  const double wires_by = -std::max(0.0, by);
  MoveProducts(profile, -by);
  MoveMemory(profile, -by);
  MoveScores(profile, -by);
  MoveAttention(profile, -by);
  MoveKernel(profile, by);
  MoveHost(profile, by);
  MoveLinks(profile, wires_by);
  MoveLinkLatency(profile, by);
  MoveNetwork(profile, wires_by);
  MoveNetworkLatency(profile, by);
}

}  // namespace

const std::array<LearnedConstant, kLearnedConstants>& LearnedConstants() {
  static constexpr std::array<LearnedConstant, kLearnedConstants> kConstants = {{
      {"all_times", kUnfittedError, -0.5, kFiveTimes, MoveAll},
      {"product_rate", 0.15, -0.7, 0.25, MoveProducts},
      {"memory_efficiency", 0.15, -0.7, 0.2, MoveMemory},
      {"score_efficiency", 0.3, -0.7, 0.6, MoveScores},
      {"attention", 0.15, -0.7, 0.4, MoveAttention},
      {"kernel_s", 0.5, -kFiveTimes, kFiveTimes, MoveKernel},
      {"host_op_s", 0.5, -kFiveTimes, kFiveTimes, MoveHost},
      {"link_bytes_per_s", 0.3, -kFiveTimes, 0.22, MoveLinks},
      {"link_latency", 0.7, -kFiveTimes, kFiveTimes, MoveLinkLatency},
      {"network_bytes_per_s", 0.3, -kFiveTimes, 0.16, MoveNetwork},
      {"network_latency", 0.7, -kFiveTimes, kFiveTimes, MoveNetworkLatency},
      {"member_skew_s", 1.0, 0, 2.5, MoveSkew},
  }};
  return kConstants;
}

void MoveConstants(const ConstantMoves& by, DeviceProfile& profile) {
  for (std::size_t c = 0; c < kLearnedConstants; ++c) LearnedConstants()[c].move(profile, by[c]);
}

Result<void> CheckLearned(const DeviceProfile& profile) {
  if (!profile.learned.has_value()) return {};
  const LearnedState& state = *profile.learned;
  const auto same = [](const LearnedConstant& of, const std::string& name) {
    return of.name == name;
  };
  if (!std::equal(LearnedConstants().begin(), LearnedConstants().end(), state.constants.begin(),
                  state.constants.end(), same) ||
      !Cholesky::Of(state.covariance, kLearnedConstants).has_value()) {
    return Refuse(
        "learned: constants or covariance are not those of this version; learn again with "
        "`foretrain calibrate --from-run`");
  }
  return {};
}

std::vector<double> CovarianceOf(const DeviceProfile& profile) {
  if (profile.learned.has_value()) return profile.learned->covariance;
  std::vector<double> out(kLearnedConstants * kLearnedConstants, 0.0);
  for (std::size_t c = 0; c < kLearnedConstants; ++c) {
    out[c * kLearnedConstants + c] =
        LearnedConstants()[c].known_to * LearnedConstants()[c].known_to;
  }
  return out;
}

double PlanErrorOf(const DeviceProfile& profile) {
  return profile.learned.has_value() ? profile.learned->plan_error : kPlanError;
}

}  // namespace foretrain
