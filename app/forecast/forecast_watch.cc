#include "app/forecast/forecast_watch.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <mutex>

#include "base/clock.h"

namespace foretrain {
namespace {

constexpr std::int64_t kPatienceNs = 1'000'000'000;
constexpr std::chrono::milliseconds kRedraw{250};

const char* TextOf(ForecastPart part) {
  switch (part) {
    case ForecastPart::kCompile:
      return "compiling the plan";
    case ForecastPart::kSimulate:
      return "simulating the step";
  }
  return "";
}

}  // namespace

ForecastWatch::ForecastWatch(bool show) {
  if (!show || isatty(STDERR_FILENO) == 0) return;
  thread_ = std::jthread([this](const std::stop_token& stop) { Draw(stop); });
}

ForecastWatch::~ForecastWatch() = default;  // stops and joins the thread

void ForecastWatch::Watch(ForecastOptions& options) {
  options.progress = [this](ForecastPart part) { part_ = part; };
}

// A thread of its own draws, because parts of a forecast last seconds and report only their start.
void ForecastWatch::Draw(const std::stop_token& stop) {
  SystemClock clock;
  const std::int64_t start_ns = clock.MonotonicNs();
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  bool shown = false;
  while (!wake.wait_for(lock, stop, kRedraw, [&] { return stop.stop_requested(); })) {
    const std::int64_t passed_ns = clock.MonotonicNs() - start_ns;
    if (passed_ns < kPatienceNs) continue;
    shown = true;
    std::fprintf(stderr, "\r%s, %lld s\x1b[K", TextOf(part_),
                 static_cast<long long>(passed_ns / kPatienceNs));
    std::fflush(stderr);
  }
  if (shown) std::fputs("\r\x1b[K", stderr);
}

}  // namespace foretrain
