// Time and memory of importing a trace of many events on many tracks. Slow: it writes and reads
// 200,000 events. FORETRAIN_TRACE_EVENTS sets their number.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/units.h"
#include "tests/base/peak_memory.h"
#include "tests/traces/import/trace_text.h"
#include "tests/traces/temp_folder.h"

namespace foretrain {
namespace {

constexpr double kEventsPerSecond = 20'000;  // of the processor; sanitizers are slow

std::int64_t Events() {
  const char* const asked = std::getenv("FORETRAIN_TRACE_EVENTS");
  return asked == nullptr ? 200'000 : std::max(1'000LL, std::atoll(asked));
}

// One event in two is a kernel of one of a thousand streams, the others are ops of a hundred
// thousand threads. Every seventh takes no time, and the last is years after the first.
void WriteTrace(const std::string& path, std::int64_t events) {
  std::ofstream out(path);
  const std::string around = KinetoTrace("@");
  out << around.substr(0, around.find('@'));
  for (std::int64_t i = 0; i < events; ++i) {
    const double start_us = i + 1 < events ? 10.0 * static_cast<double>(i) : 1e14;
    const double length_us = i % 7 == 0 ? 0 : 5;
    out << (i == 0 ? "" : ",\n")
        << (i % 2 == 0 ? Complete("kernel", "gemm", "d" + std::to_string(i / 2 % 1'000), start_us,
                                  length_us)
                       : Complete("cpu_op", "aten::mm", std::to_string(i / 2 % 100'000), start_us,
                                  length_us));
  }
  out << around.substr(around.find('@') + 1);
}

TEST(LargeTrace, IsImportedInTimeAndMemoryThatGrowWithItsSize) {
  const TempFolder folder;
  const std::string path = folder.File("large.json");
  const std::int64_t events = Events();
  WriteTrace(path, events);
  const auto file_bytes = static_cast<std::int64_t>(std::filesystem::file_size(path));
  PosixFileSystem files;
  const std::clock_t begin = std::clock();
  std::size_t spans = 0;
  const auto read = [&] {
    const auto runs = ReadTraces(files, std::span(&path, 1), {});
    ASSERT_TRUE(runs.has_value()) << runs.error().message;
    spans = runs->at(0).timeline.spans.size();
  };
  read();
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  EXPECT_GE(spans, static_cast<std::size_t>(events) / 2);
  EXPECT_LE(seconds, 1 + static_cast<double>(events) / kEventsPerSecond);
  const std::int64_t bytes = CanMeasureMemory() ? PeakGrowthBytes(read) : 0;
  EXPECT_LE(bytes, 64 * kMiB + 4 * file_bytes);
  std::printf("%lld events of %.0f MiB: %.0f events/s, %.1f bytes of memory a byte\n",
              static_cast<long long>(events), static_cast<double>(file_bytes) / kMiB,
              static_cast<double>(events) / seconds,
              static_cast<double>(bytes) / static_cast<double>(file_bytes));
}

}  // namespace
}  // namespace foretrain
