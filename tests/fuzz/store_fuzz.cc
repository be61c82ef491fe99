// A store: what opens is listed and loaded, or refused with a sentence; metrics of what was loaded
// hold.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "base/result.h"
#include "tests/fuzz/fuzz.h"
#include "traces/metrics/metrics.h"
#include "traces/store.h"

namespace {

using namespace foretrain;

void ReadAll(const std::string& path) {
  const auto reader = StoreReader::Open(path);
  if (!reader.has_value()) {
    FT_CHECK(!reader.error().message.empty());
    return;
  }
  const auto runs = reader->ListRuns();
  if (!runs.has_value()) return;
  for (const RunInfo& info : *runs) {
    const auto run = reader->LoadRun(info.id);
    if (!run.has_value()) {
      FT_CHECK(!run.error().message.empty());
      continue;
    }
    const Metrics metrics = ComputeMetrics(run->timeline);
    for (const RankStep& step : metrics.rank_steps) {
      FT_CHECK(step.classes.Sum() == step.end_ns - step.start_ns);
    }
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int file = memfd_create("store", 0);
  FT_CHECK(file >= 0);
  FT_CHECK(write(file, data, size) == static_cast<ssize_t>(size));
  ReadAll("/proc/self/fd/" + std::to_string(file));
  close(file);
  return 0;
}
