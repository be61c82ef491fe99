// Converts Chrome events, as written by PyTorch's profiler (Kineto) and other programs, to raw
// events. foretrain's own exports are read by own_trace.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "traces/import/kineto/json_events.h"
#include "traces/import/raw_events.h"

namespace foretrain::trace_import {

// Takes the events of one file in the order of the text, which need not be the order of time.
class KinetoReader {
 public:
  void Take(const JsonEvent& event);
  void Take(const JsonNote& note);
  // Returns the events, with B and E pairs combined and flows joined to correlations.
  RankEvents Finish();

 private:
  struct Flow {
    RawPoint at{};
    std::int64_t number = 0;
  };
  struct Open {
    std::int64_t start_ns = 0;
    std::uint32_t name = 0;
    RawKind kind = RawKind::kRange;
  };

  void TakeComplete(const JsonEvent& event);
  void TakeBegin(const JsonEvent& event);
  void TakeEnd(const JsonEvent& event);
  void TakeFlow(const JsonEvent& event);
  void TakeInstant(const JsonEvent& event);
  void TakeMetadata(const JsonEvent& event);
  void CloseOpen();
  void JoinLaunches();
  std::int64_t NumberOf(const std::string& flow);

  RankEvents out_;
  std::map<std::uint32_t, std::vector<Open>> open_;  // by track, innermost last
  std::vector<Flow> launches_;                       // "ac2g"
  // numbers for ids that are not numbers
  std::unordered_map<std::string, std::int64_t> flow_numbers_;
  std::int64_t process_groups_ = 0;  // 0: unknown
  std::int64_t host_bytes_ = 0;      // live bytes, summed from the changes
  std::int64_t last_ns_ = 0;
};

}  // namespace foretrain::trace_import
