// Reads traces written by traces/export/chrome_trace.h back into runs with their own ids, exactly.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "traces/import/kineto/json_events.h"
#include "traces/timeline.h"

namespace foretrain::trace_import {

struct OwnRun {
  std::string title{};  // "measured 3 (8b-dp4)"
  Timeline timeline{};
};

class OwnTraceReader {
 public:
  // True if the event belongs to one of our runs and was taken. Runs are recognized by the process
  // titles, which come before their events.
  bool Take(const JsonEvent& event);

  std::vector<OwnRun> Finish();  // timelines sorted
  std::int64_t invalid() const { return invalid_; }

 private:
  static constexpr int kSteps = kQueueCount;  // thread number of the step windows
  struct Process {
    std::size_t run = 0;
    std::int16_t rank = 0;
    std::int64_t shift_ns = 0;             // that the export added to its times
    std::map<std::string, int> threads{};  // by thread number: a queue or kSteps
    std::map<std::pair<Space, Category>, std::int64_t> live{};
  };

  static std::optional<std::int64_t> StartOf(const JsonEvent& event, const Process& process);
  bool TakeTitle(const JsonEvent& event);
  void TakeSpan(const JsonEvent& event, const Process& process);
  void TakeMemory(const JsonEvent& event, Process& process);

  std::vector<OwnRun> runs_;
  std::map<std::string, Process> processes_;
  std::int64_t invalid_ = 0;
};

}  // namespace foretrain::trace_import
