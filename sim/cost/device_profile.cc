#include "sim/cost/device_profile.h"

#include <algorithm>
#include <array>

#include "sim/cost/op_features.h"

namespace foretrain {
namespace {

constexpr std::array<std::string_view, kOverheadKindCount> kOverheadNames{"launch", "gap", "wake"};

}  // namespace

std::string_view Name(OverheadKind kind) { return kOverheadNames[static_cast<std::size_t>(kind)]; }

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
  point.group = group;
  point.nodes = nodes;
  point.concurrency = concurrency;
  return point;
}

bool SameKey(const ProfilePoint& a, const ProfilePoint& b) {
  return a.kind == b.kind && a.shape == b.shape && a.accumulate == b.accumulate &&
         a.trans_a == b.trans_a && a.trans_b == b.trans_b && a.rms == b.rms &&
         a.format == b.format && a.from == b.from && a.to == b.to && a.group == b.group &&
         a.nodes == b.nodes && a.concurrency == b.concurrency;
}

void AddPoint(DeviceProfile& profile, const ProfilePoint& point) {
  const auto same = std::find_if(profile.points.begin(), profile.points.end(),
                                 [&](const ProfilePoint& p) { return SameKey(p, point); });
  if (same == profile.points.end()) {
    profile.points.push_back(point);
  } else {
    *same = point;
  }
}

Figure BestGemmRate(const DeviceProfile& profile) {
  Figure best;
  for (const ProfilePoint& point : profile.points) {
    if (point.kind != OpKind::kGemm || point.concurrency != 1 || point.seconds <= 0) continue;
    best.value = std::max(best.value, WorkOf(OpOf(point)).flop / point.seconds);
    best.provenance = Provenance::kMeasured;
  }
  return best.value > 0 ? best : profile.rates.gemm_flop_per_s;
}

}  // namespace foretrain
