// Hand-written traces for tests, read from memory.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/base/fault_file_system.h"
#include "traces/import/import.h"

namespace foretrain {

// A PyTorch profiler trace with `events`, separated by commas.
inline std::string KinetoTrace(const std::string& events, const std::string& more = "") {
  return R"({"schemaVersion":1,"deviceProperties":[{"id":0,"name":"NVIDIA H100","totalGlobalMem":)"
         R"(85017493504}],)" +
         more + R"("displayTimeUnit":"ms","baseTimeNanoseconds":1000000,"traceEvents":[)" + events +
         "]}";
}

// Times in microseconds. `place`: "7" is thread 7 of process 1, "d7" stream 7 of device 0.
inline std::string Complete(const std::string& category, const std::string& name,
                            const std::string& place, double start_us, double length_us,
                            const std::string& arguments = "") {
  const bool device = place.starts_with('d');
  return R"({"ph":"X","cat":")" + category + R"(","name":")" + name + R"(","pid":)" +
         (device ? "0" : "1") + R"(,"tid":)" + (device ? place.substr(1) : place) + R"(,"ts":)" +
         std::to_string(start_us) + R"(,"dur":)" + std::to_string(length_us) + R"(,"args":{)" +
         arguments + "}}";
}

inline Result<std::vector<TraceRun>> ReadTexts(const std::vector<std::string>& texts,
                                               const ImportOptions& options = {}) {
  FaultFileSystem files;
  std::vector<std::string> paths;
  for (const std::string& text : texts) {
    paths.push_back("rank" + std::to_string(paths.size()) + ".json");
    files.Put(paths.back(), text);
  }
  return ReadTraces(files, paths, options);
}

// The single run of a trace that must be valid.
inline TraceRun ReadGood(const std::vector<std::string>& texts, const ImportOptions& options = {}) {
  Result<std::vector<TraceRun>> runs = ReadTexts(texts, options);
  if (!runs.has_value()) {
    ADD_FAILURE() << runs.error().message;
    return {};
  }
  EXPECT_EQ(runs->size(), 1U);
  return std::move(runs->front());
}

// The spans of that name in order, without launches.
inline std::vector<Span> SpansNamed(const TraceRun& run, const std::string& name) {
  std::vector<Span> spans;
  for (const Span& span : run.timeline.spans) {
    const auto known = run.timeline.op_names.find(NameKey(span.op));
    if (span.queue == Queue::kHost) continue;
    if (known != run.timeline.op_names.end() && known->second == name) spans.push_back(span);
  }
  return spans;
}

}  // namespace foretrain
