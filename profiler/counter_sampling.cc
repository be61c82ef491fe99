#include "profiler/counter_sampling.h"

#include <algorithm>
#include <array>
#include <utility>

namespace foretrain {
namespace {

constexpr std::size_t kSamplesOfADrain = 16'384;
constexpr const char* kNone = "hardware counters are not sampled: ";
constexpr const char* kNoFurther = "hardware counters are sampled no further: ";

}  // namespace

template <class Entry, class... Arguments>
bool CounterSampling::Call(const char* ends, Entry entry, Arguments... arguments) {
  std::array<char, 512> why{};
  if (entry(arguments..., why.data(), why.size()) == FT_OK) return true;
  is_ready_ = false;
  const std::lock_guard<std::mutex> lock(mutex_);
  problem_ = std::string(ends) + why.data();
  return false;
}

CounterSampling::CounterSampling(const FtDeviceApi& api, CounterOptions options, bool records)
    : api_(api), options_(std::move(options)) {
  if (options_.devices.empty()) return;
  if (!records || api_.counters_open == nullptr) {
    problem_ = std::string(kNone) +
               (records ? "this device has none" : "nor is the device's work recorded");
    return;
  }
  std::vector<std::int32_t> devices;
  for (const SampledDevice& one : options_.devices) devices.push_back(one.device);
  samples_.resize(kSamplesOfADrain);
  is_ready_ = Call(kNone, api_.counters_open, devices.data(),
                   static_cast<std::int32_t>(devices.size()), options_.interval_ns);
}

void CounterSampling::Start() {
  if (is_ready_) static_cast<void>(Call(kNone, api_.counters_start));
}

void CounterSampling::Stop() {
  if (is_ready_) static_cast<void>(Call(kNoFurther, api_.counters_stop));
  stopped_ = true;
}

// Blocks are handed on one by one: a long pause may have left many.
void CounterSampling::Drain(const ClockFit& fit) {
  const auto capacity = static_cast<std::int64_t>(samples_.size());
  for (std::int64_t count = capacity; is_ready_ && count == capacity;) {
    if (!Call(kNoFurther, api_.counters_drain, samples_.data(), capacity, &count)) return;
    std::vector<Counter> counters;
    for (std::int64_t i = 0; i < count; ++i) {
      const FtCounterSample& sample = samples_[static_cast<std::size_t>(i)];
      const auto at =
          std::find_if(options_.devices.begin(), options_.devices.end(),
                       [&](const SampledDevice& one) { return one.device == sample.device; });
      if (at == options_.devices.end()) continue;
      counters.push_back({.name = sample.name,
                          .rank = at->rank,
                          .time_ns = fit.ToHost(sample.start_ns),
                          .value = sample.value});
    }
    if (!counters.empty()) options_.take(std::move(counters));
  }
  if (stopped_) is_ready_ = false;
}

std::string CounterSampling::Problem() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return problem_;
}

}  // namespace foretrain
