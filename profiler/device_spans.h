// Converts a device's records to spans: an op's host span is replaced by the times at which the
// device worked on it. profiler/activity_join.h finds the op of a record.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "profiler/activity_join.h"
#include "profiler/capture.h"
#include "traces/metrics/intervals.h"
#include "traces/timeline.h"

namespace foretrain {

// One thread at a time.
class DeviceSpans {
 public:
  // Records of an op are awaited until `settle_ns` after its host span came. Work of no op is
  // `own_rank`'s.
  explicit DeviceSpans(CaptureWindow window, std::int64_t settle_ns = 10'000'000'000,
                       int own_rank = 0)
      : window_(std::move(window)), settle_ns_(settle_ns), own_rank_(own_rank) {}

  // `now_ns`: a clock that never goes back, the same in all calls. Times of activities are on the
  // host's clock.
  void AddHost(const Span& span, std::int64_t now_ns);
  void AddActivity(const OwnedActivity& activity);

  // Appends the spans of ops that have settled (Release) or of all ops (ReleaseAll):
  //
  //   compute, copies  one span for each piece of the union of its records; the first has the bytes
  //   communication    one span from the first record's start to the last one's end
  //   launches         one span on the host queue, from the first call's start to the last one's
  //   end
  //   no records       the host's span unchanged
  //   no op            a span with kNoOp and step -1, of own_rank
  //
  // An op without a host span did not end and has no span. Pieces of one queue overlap if kernels
  // of a stream do.
  void Release(std::int64_t now_ns, std::vector<Span>& out);
  void ReleaseAll(std::vector<Span>& out);

  // Records of ops that were released before, or did not end.
  std::int64_t late() const { return late_; }
  // Records of steps and ranks outside the window.
  std::int64_t outside() const { return outside_; }

 private:
  using Key = std::tuple<std::int32_t, std::int32_t, OpId>;  // step, rank, op
  struct Pending {
    std::optional<Span> host;
    std::vector<Interval> work;
    std::optional<Interval> launch;
    std::int64_t records = 0;
  };

  void AddUnknown(const FtActivity& activity);
  void Emit(const Pending& pending, std::vector<Span>& out) const;

  const CaptureWindow window_;
  const std::int64_t settle_ns_;
  const int own_rank_;
  std::map<Key, Pending> pending_;
  std::deque<std::pair<std::int64_t, Key>> order_;  // host spans by arrival
  std::vector<Span> unknown_;                       // spans without op, not yet released
  std::int32_t settled_step_ = -1;                  // newest step with a released op
  std::int64_t late_ = 0;
  std::int64_t outside_ = 0;
};

}  // namespace foretrain
