// Records one run by the device's own profiler: opens and closes the window, drains records on a
// thread, and converts them to spans. If the device's capture fails, its recording ends with one
// sentence; the run continues, and ops keep the host's spans. The device library is in
// profiler/cuda/.
//
//   executor ─ BeginStep, BeginOp, EndOp ─► device ─ records ─┐  thread: drain, clocks, join
//            └ host spans ─ AddHost ──────────────────────────┴──► Take ─► store
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/device_api.h"
#include "profiler/activity_join.h"
#include "profiler/capture.h"
#include "profiler/capture_report.h"
#include "profiler/clock_fit.h"
#include "profiler/counter_sampling.h"
#include "profiler/device_spans.h"
#include "traces/timeline.h"

namespace foretrain {

struct CaptureOptions {
  CaptureLevel level = CaptureLevel::kFull;
  CaptureWindow window;
  std::vector<int> ranks{0};                      // ranks of this process
  std::function<std::int64_t()> now;              // clock of host spans
  std::function<std::string(int, OpId)> name_of;  // name of a rank's op for external tools
  std::int64_t interval_ns = 100'000'000;         // time between drains
  CounterOptions counters;                        // hardware counters, sampled in the window
  // For DeviceSpans. The device delivers a buffer when it is full or all its records have ended.
  std::int64_t settle_ns = 10'000'000'000;
  std::int64_t tail_ns = 1'000'000'000;  // a closed window is drained for this long
};

class CaptureSession final : public OpCapture {
 public:
  // Null if nothing is to be recorded or the device has no profiler. `api` outlives the session.
  static std::unique_ptr<CaptureSession> Open(const FtDeviceApi& api, CaptureOptions options);
  ~CaptureSession() override;  // calls Finish and drops its spans

  void BeginStep(int rank, std::int64_t step) override;
  bool BeginOp(int rank, std::int64_t step, OpId op) override;
  void EndOp() override;
  bool RecordsWork() const override { return drains_ && options_.level == CaptureLevel::kFull; }

  // Exchanges host spans for spans that are ready. Neither call waits for the device.
  void AddHost(std::span<const Span> spans);
  void Take(std::vector<Span>& out);
  // The window's last step has ended on one more rank. The last such call closes the window.
  void StepEnded(const StepWindow& window);

  // Closes the window, drains all records and appends the remaining spans to `out`. No op may run
  // any more; only Report may be called afterwards.
  void Finish(std::vector<Span>& out);

  // Valid after Finish.
  CaptureReport Report() const;
  // Sentences why the device records or samples nothing, or no more; empty while all is well. Safe
  // from any thread.
  std::vector<std::string> Troubles() const;

 private:
  CaptureSession(const FtDeviceApi& api, CaptureOptions options);

  void Run();  // main function of the thread
  void Round(bool idle, bool last);
  bool Drain(bool idle);
  void ReadClocks();
  void SettleRecords(bool last);
  void Problem(const char* what, const char* why);
  template <class Entry, class... Arguments>
  bool Call(const char* what, Entry entry, Arguments... arguments);
  const char* NameOf(int rank, OpId op);

  const FtDeviceApi& api_;
  const CaptureOptions options_;
  std::int32_t ranks_left_ = 0;  // ranks still inside the window; guarded by mutex_

  std::atomic<bool> tagging_{false};  // between start and stop, while nothing has failed
  std::atomic<bool> drains_{false};   // records can be read
  std::atomic<bool> running_{false};  // the thread was started
  std::once_flag started_;

  mutable std::mutex mutex_;
  std::condition_variable woken_;
  bool closing_ = false;    // guarded by mutex_, as all below
  bool finishing_ = false;  // no op runs any more
  std::string problem_;
  bool records_ = false;
  std::vector<Span> host_;  // not yet passed to spans_
  std::vector<Span> ready_;
  std::map<std::pair<int, OpId>, std::string> names_;

  // Opened and started before the thread, used by it from then on.
  std::unique_ptr<CounterSampling> counters_;

  // Used by the thread, and by Finish after it has ended:
  ActivityJoin join_;
  DeviceSpans spans_;
  std::vector<ClockSample> clocks_;
  ClockFit fit_;
  std::vector<FtActivity> records_of_drain_;
  std::vector<OwnedActivity> settled_;
  std::int64_t dropped_ = 0;
  std::thread thread_;
};

}  // namespace foretrain
