#include "sim/cost/profile/device_profile.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "sim/cost/kernels/op_features.h"
#include "sim/program/ops/op_work.h"

namespace foretrain {
namespace {

constexpr std::array<std::string_view, kOverheadKindCount> kOverheadNames{"launch", "gap", "wake"};

}  // namespace

std::string_view Name(OverheadKind kind) { return kOverheadNames[static_cast<std::size_t>(kind)]; }

// An unknown rate falls back to the next longer format: a shorter one would overestimate.
Figure GemmRate(const ProfileRates& rates, NumberFormat format) {
  const auto first = [&](std::initializer_list<Figure> figures) {
    for (const Figure& figure : figures) {
      if (figure.value > 0) return figure;
    }
    return rates.gemm_flop_per_s;
  };
  const Figure &tf32 = rates.gemm_tf32_flop_per_s, &fp16 = rates.gemm_fp16_flop_per_s,
               &bf16 = rates.gemm_bf16_flop_per_s, &fp8 = rates.gemm_fp8_flop_per_s;
  switch (format) {
    case NumberFormat::kFp32:
      return rates.gemm_flop_per_s;
    case NumberFormat::kTf32:
      return first({tf32});
    case NumberFormat::kFp16:
      return first({fp16, bf16, tf32});
    case NumberFormat::kBf16:
      return first({bf16, fp16, tf32});
    case NumberFormat::kFp4:
      return first({rates.gemm_fp4_flop_per_s, fp8, bf16, fp16, tf32});
    default:
      return first({fp8, bf16, fp16, tf32});
  }
}

// Copies the fields that identify a measurement. Spaces count only for copies.
ProfilePoint PointOf(const Op& op, int group, int nodes, int concurrency) {
  ProfilePoint point;
  point.kind = op.kind;
  point.shape = op.shape;
  point.accumulate = op.accumulate;
  point.trans_a = op.trans_a;
  point.trans_b = op.trans_b;
  point.rms = op.rms;
  if (op.kind == OpKind::kCopy) {
    point.from = op.from;
    point.to = op.to;
  }
  point.format = op.format;
  point.formats = op.formats;
  point.group = group;
  point.nodes = nodes;
  point.concurrency = concurrency;
  return point;
}

// Two points with the same key measure the same thing; their times are not compared.
bool SameKey(const ProfilePoint& a, const ProfilePoint& b) {
  return a.kind == b.kind && a.shape == b.shape && a.accumulate == b.accumulate &&
         a.trans_a == b.trans_a && a.trans_b == b.trans_b && a.rms == b.rms &&
         a.format == b.format && a.formats == b.formats && a.from == b.from && a.to == b.to &&
         a.group == b.group && a.nodes == b.nodes && a.concurrency == b.concurrency;
}

// A new measurement replaces the old one, so that a profile does not grow with repeated runs.
void AddPoint(DeviceProfile& profile, const ProfilePoint& point) {
  const auto same = std::find_if(profile.points.begin(), profile.points.end(),
                                 [&](const ProfilePoint& p) { return SameKey(p, point); });
  if (same == profile.points.end()) {
    profile.points.push_back(point);
  } else {
    *same = point;
  }
}

// The best rate among measured products serves as the peak of this machine.
Figure BestGemmRate(const DeviceProfile& profile) {
  Figure best;
  for (const ProfilePoint& point : profile.points) {
    if (point.kind != OpKind::kGemm || point.concurrency != 1 || point.seconds <= 0) continue;
    best.value = std::max(best.value, WorkOf(OpOf(point)).flop / point.seconds);
    best.provenance = Provenance::kMeasured;
  }
  return best.value > 0 ? best : profile.rates.gemm_flop_per_s;
}

// Measured launch overheads belong to our own software, so another system's replaces them.
void LaySystem(const SystemOptions& system, DeviceProfile& profile) {
  profile.system = system;
  profile.rates.launch_s = {system.host_op_s, Provenance::kDefault};
  std::erase_if(profile.overheads,
                [](const OverheadPoint& point) { return point.kind == OverheadKind::kLaunch; });
}

}  // namespace foretrain
