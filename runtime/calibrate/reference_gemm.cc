#include "runtime/calibrate/reference_gemm.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/units.h"
#include "runtime/device/device.h"

namespace foretrain {
namespace {

constexpr std::int64_t kElements = kReferenceGemmSize * kReferenceGemmSize;
constexpr std::int64_t kWarmUps = 3;  // the first call compiles or loads the library's code

// Queue and matrices of one thread.
struct Operands {
  DeviceQueue queue;
  DeviceMemory memory;

  FtGemm Args() const {
    auto* const base = reinterpret_cast<float*>(memory.data());
    FtGemm gemm{};
    gemm.a = base;
    gemm.b = base + kElements;
    gemm.c = base + 2 * kElements;
    gemm.m = gemm.n = gemm.k = kReferenceGemmSize;
    gemm.lda = gemm.ldb = gemm.ldc = kReferenceGemmSize;
    gemm.dtype = FT_F32;
    return gemm;
  }
};

// All elements are 0.5: a GEMM's time does not depend on normal values, and no sum overflows.
Result<Operands> MakeOperands(const FtDeviceApi& api, int device) {
  Operands operands;
  FT_ASSIGN(operands.queue, DeviceQueue::Make(api, device));
  FT_ASSIGN(operands.memory,
            DeviceMemory::Make(api, device, 3 * kElements * std::int64_t{sizeof(float)}));
  const std::vector<float> ones(static_cast<std::size_t>(3 * kElements), 0.5F);
  FT_TRY(Checked(
      api.copy(operands.queue.get(), operands.memory.data(), ones.data(), operands.memory.bytes()),
      "copy", api.queue_error(operands.queue.get())));
  FT_TRY(Checked(api.queue_synchronize(operands.queue.get()), "synchronize", ""));
  return operands;
}

// Threads warm up, then start together once `to_start` is 0, so that all samples have the same
// number of busy threads. Each GEMM is timed back to back: one clock read ends it and begins the
// next.
Result<Durations> Multiply(const FtDeviceApi& api, RunClock& clock, const Operands& operands,
                           std::atomic<int>& to_start, std::int64_t duration_ns) {
  const FtGemm gemm = operands.Args();
  FtQueue* const queue = operands.queue.get();
  const auto once = [&]() -> Result<void> {
    FT_TRY(Checked(api.gemm(queue, &gemm), "reference GEMM", api.queue_error(queue)));
    if (api.asynchronous == 0) return {};
    return Checked(api.queue_synchronize(queue), "reference GEMM", api.queue_error(queue));
  };
  for (std::int64_t i = 0; i < kWarmUps; ++i) FT_TRY(once());
  to_start.fetch_sub(1);
  while (to_start.load() > 0) std::this_thread::yield();
  Durations durations;
  const std::int64_t end_ns = clock.Now() + duration_ns;
  for (std::int64_t now = clock.Now(); durations.empty() || now < end_ns;) {
    FT_TRY(once());
    const std::int64_t after = clock.Now();
    durations.push_back(after - now);
    now = after;
  }
  return durations;
}

}  // namespace

// All memory is allocated before the first thread starts, so that an error cannot leave threads
// behind.
Result<Spread> MeasureReferenceGemm(const FtDeviceApi& api, int device, RunClock& clock, int ranks,
                                    double seconds) {
  std::vector<Operands> operands;
  for (int rank = 0; rank < ranks; ++rank) {
    FT_ASSIGN(Operands made, MakeOperands(api, device));
    operands.push_back(std::move(made));
  }
  std::vector<Result<Durations>> results(static_cast<std::size_t>(ranks), Durations{});
  std::atomic<int> to_start{ranks};
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    threads.emplace_back([&, rank] {
      results[rank] = Multiply(api, clock, operands[rank], to_start, NsFromSeconds(seconds));
      // A thread that failed before the start must not keep the others waiting.
      if (!results[rank].has_value()) to_start.store(0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  Durations all;
  for (const Result<Durations>& result : results) {
    if (!result.has_value()) return tl::unexpected<Error>(result.error());
    all.insert(all.end(), result->begin(), result->end());
  }
  return SpreadOf(std::move(all));
}

// The nearest measured concurrencies below and above `ranks`, then linear interpolation.
double ReferenceSeconds(const DeviceProfile& profile, int ranks) {
  const ReferenceGemm& reference = profile.reference;
  if (reference.rows == 0) return 0;
  const ProfilePoint* below = nullptr;
  const ProfilePoint* above = nullptr;
  for (const ProfilePoint& point : profile.points) {
    if (point.kind != OpKind::kGemm || point.shape.rows != reference.rows ||
        point.shape.cols != reference.cols || point.shape.inner != reference.inner ||
        point.trans_a || point.trans_b || point.accumulate) {
      continue;
    }
    if (point.concurrency <= ranks &&
        (below == nullptr || point.concurrency > below->concurrency)) {
      below = &point;
    }
    if (point.concurrency >= ranks &&
        (above == nullptr || point.concurrency < above->concurrency)) {
      above = &point;
    }
  }
  if (below == nullptr && above == nullptr) return reference.seconds;
  if (below == nullptr || above == nullptr) return (below == nullptr ? above : below)->seconds;
  if (below->concurrency == above->concurrency) return below->seconds;
  const double part =
      static_cast<double>(ranks - below->concurrency) / (above->concurrency - below->concurrency);
  return below->seconds + part * (above->seconds - below->seconds);
}

// Means on both sides: a median would hide time lost to other processes.
Result<double> MeasureDrift(const FtDeviceApi& api, int device, RunClock& clock,
                            const DeviceProfile& profile, int ranks, double seconds) {
  const double then = ReferenceSeconds(profile, ranks);
  if (then <= 0) return 1.0;
  FT_ASSIGN(const Spread now, MeasureReferenceGemm(api, device, clock, ranks, seconds));
  return now.mean / then;
}

}  // namespace foretrain
