#include "traces/metrics/gpu/throttling.h"

#include <algorithm>
#include <array>
#include <map>

#include "traces/metrics/gpu/counters.h"

namespace foretrain {
namespace {

// Bits of nvmlClocksEventReasons (NVML documentation).
constexpr std::uint64_t kSwPowerCap = 0x4, kHwSlowdown = 0x8, kSwThermal = 0x20, kHwThermal = 0x40,
                        kHwPowerBrake = 0x80;

struct Reading {
  std::optional<std::uint64_t> reasons;
  std::optional<double> clock_hz;
};
using Readings = std::map<std::int64_t, Reading>;  // by time

bool HoldsBits(double reading) { return reading >= 0 && reading < 0x1p53; }

// Clocks and reasons of one reading have the same time, so they meet in one entry.
std::map<int, Readings> ReadingsByRank(std::span<const Counter> counters) {
  std::map<int, Readings> ranks;
  for (const Counter& counter : counters) {
    if (counter.name == kThrottleCounter && HoldsBits(counter.value)) {
      ranks[counter.rank][counter.time_ns].reasons = static_cast<std::uint64_t>(counter.value);
    } else if (counter.name == "gpu_sm_clock_hz") {
      ranks[counter.rank][counter.time_ns].clock_hz = counter.value;
    }
  }
  return ranks;
}

// Mean over time of a value that may be unknown at times.
struct Mean {
  double seconds = 0, weighted = 0;
  void Add(double of_seconds, std::optional<double> value) {
    if (!value) return;
    seconds += of_seconds;
    weighted += of_seconds * *value;
  }
  std::optional<double> Value() const {
    return seconds > 0 ? std::optional(weighted / seconds) : std::nullopt;
  }
};

// Each reading holds until the next, but at most kMaxReadingNs. Clocks are averaged separately
// for the time with and without a reason, so that its cost can be shown.
void AddRank(int rank, const Readings& readings, std::int64_t start_ns, std::int64_t end_ns,
             std::vector<Throttling>& out) {
  double covered = 0;
  std::array<double, kThrottleReasonCount> held{};
  std::array<Mean, kThrottleReasonCount> then{}, else_{};
  for (auto at = readings.begin(); at != readings.end(); ++at) {
    if (!at->second.reasons) continue;
    const auto next = std::next(at);
    const std::int64_t until = std::min(
        {end_ns, at->first + kMaxReadingNs, next == readings.end() ? end_ns : next->first});
    const auto length = static_cast<double>(until - std::max(start_ns, at->first));
    if (length <= 0) continue;
    covered += length;
    for (std::size_t i = 0; i < kThrottleReasonCount; ++i) {
      const bool holds = HasReason(*at->second.reasons, static_cast<ThrottleReason>(i));
      if (holds) held[i] += length;
      (holds ? then : else_)[i].Add(length, at->second.clock_hz);
    }
  }
  for (std::size_t i = 0; i < kThrottleReasonCount; ++i) {
    if (held[i] <= 0) continue;
    out.push_back({rank, static_cast<ThrottleReason>(i), held[i] / covered, then[i].Value(),
                   else_[i].Value()});
  }
}

}  // namespace

bool IsThrottled(double reading) {
  if (!HoldsBits(reading)) return false;
  const auto bits = static_cast<std::uint64_t>(reading);
  for (int i = 0; i < kThrottleReasonCount; ++i) {
    if (HasReason(bits, static_cast<ThrottleReason>(i))) return true;
  }
  return false;
}

std::string_view Describe(ThrottleReason reason) {
  switch (reason) {
    case ThrottleReason::kPowerCap:
      return "power-capped";
    case ThrottleReason::kHeat:
      return "slowed down by heat";
    case ThrottleReason::kPowerBrake:
      return "slowed down by its power supply";
    case ThrottleReason::kHardware:
      break;
  }
  return "slowed down by its hardware";
}

// A hardware slowdown that heat or the power brake explains is not reported a second time.
bool HasReason(std::uint64_t bits, ThrottleReason reason) {
  const bool heat = (bits & (kSwThermal | kHwThermal)) != 0;
  const bool brake = (bits & kHwPowerBrake) != 0;
  switch (reason) {
    case ThrottleReason::kPowerCap:
      return (bits & kSwPowerCap) != 0;
    case ThrottleReason::kHeat:
      return heat;
    case ThrottleReason::kPowerBrake:
      return brake;
    case ThrottleReason::kHardware:
      break;
  }
  return (bits & kHwSlowdown) != 0 && !heat && !brake;
}

// Ranks and reasons come out in order, since maps and enums are ordered.
std::vector<Throttling> ThrottledRanks(std::span<const Counter> counters, std::int64_t start_ns,
                                       std::int64_t end_ns) {
  std::vector<Throttling> out;
  for (const auto& [rank, readings] : ReadingsByRank(counters)) {
    AddRank(rank, readings, start_ns, end_ns, out);
  }
  return out;
}

}  // namespace foretrain
