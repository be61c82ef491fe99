// One run under a device's own recording: opens and closes the window, drains records on a thread
// of its own, and makes spans of them. Whatever fails in the device's capture ends the recording
// of the device with one sentence; the run goes on, and ops have the host's spans. Leaves out what
// the device's library is (profiler/cuda/) and storage (traces/store.h).
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
#include "profiler/device_spans.h"
#include "traces/timeline.h"

namespace foretrain {

struct CaptureOptions {
  CaptureLevel level = CaptureLevel::kFull;
  CaptureWindow window;
  std::vector<int> ranks{0};                      // of this process
  std::function<std::int64_t()> now;              // the clock of host spans
  std::function<std::string(int, OpId)> name_of;  // of a rank's op, as other tools show it
  std::int64_t interval_ns = 100'000'000;         // between drains
  // DeviceSpans. A buffer of records comes when it is full or all in it have ended.
  std::int64_t settle_ns = 10'000'000'000;
  std::int64_t tail_ns = 1'000'000'000;  // for which a closed window is still drained
};

class CaptureSession final : public OpCapture {
 public:
  // Null where nothing is to be recorded or the device has no recording of its own. `api` outlives
  // the session.
  static std::unique_ptr<CaptureSession> Open(const FtDeviceApi& api, CaptureOptions options);
  ~CaptureSession() override;  // Finish, its spans lost

  void BeginStep(int rank, std::int64_t step) override;
  bool BeginOp(int rank, std::int64_t step, OpId op) override;
  void EndOp() override;
  bool RecordsWork() const override { return drains_ && options_.level == CaptureLevel::kFull; }

  // Host spans in exchange for those that are ready. Neither waits for the device.
  void AddHost(std::span<const Span> spans);
  void Take(std::vector<Span>& out);
  // The last step of the window has ended on one more rank: the window closes with the last one.
  void StepEnded(const StepWindow& window);

  // Closes the window, drains what is left and moves the remaining spans to the end of `out`. No
  // op runs any more, and nothing else is called afterwards but Report.
  void Finish(std::vector<Span>& out);

  // After Finish.
  CaptureReport Report() const;
  // Why the device records nothing, or no more; empty while it does. Safe from any thread.
  std::string Trouble() const;

 private:
  CaptureSession(const FtDeviceApi& api, CaptureOptions options);

  void Run();  // the thread's
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
  std::int32_t ranks_left_ = 0;  // that have not ended the window; guarded by mutex_

  std::atomic<bool> tagging_{false};  // between start and stop, while nothing has failed
  std::atomic<bool> drains_{false};   // records are to be had
  std::atomic<bool> running_{false};  // the thread was started
  std::once_flag started_;

  mutable std::mutex mutex_;
  std::condition_variable woken_;
  bool closing_ = false;    // guarded by mutex_, as all below
  bool finishing_ = false;  // no op runs any more
  std::string problem_;
  bool records_ = false;
  std::vector<Span> host_;  // not yet given to spans_
  std::vector<Span> ready_;
  std::map<std::pair<int, OpId>, std::string> names_;

  // The thread's, and the caller's of Finish behind it.
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
