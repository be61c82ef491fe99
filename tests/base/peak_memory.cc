#include "tests/base/peak_memory.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

#include <string>

#include "base/units.h"
#include "tests/base/child.h"

namespace foretrain {
namespace {

// The peak of a forked process begins at its size when it was forked.
std::int64_t PeakBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * kKiB;
}

}  // namespace

bool CanMeasureMemory() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#else
  return true;
#endif
}

std::int64_t PeakGrowthBytes(const std::function<void()>& work) {
  malloc_trim(0);
  Child child([&work](const Child::Report& report) -> std::string {
    const std::int64_t before = PeakBytes();
    work();
    report(PeakBytes() - before);
    return "ok";
  });
  const auto growth = child.NextReport();
  EXPECT_TRUE(growth.has_value()) << "the child died";
  child.Wait();
  return growth.value_or(0);
}

}  // namespace foretrain
