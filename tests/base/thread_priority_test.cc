#include "base/thread_priority.h"

#include <gtest/gtest.h>

#include <thread>

#ifdef __linux__
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace foretrain {
namespace {

#ifdef __linux__
int OwnNice() { return getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid))); }

TEST(ThreadPriority, OfTheCallingThreadAloneIsLowered) {
  const int before = OwnNice();
  int within = 0;
  std::thread([&within] {
    GiveWay();
    within = OwnNice();
  }).join();
  EXPECT_EQ(within, 19);
  EXPECT_EQ(OwnNice(), before);
}
#else
TEST(ThreadPriority, MayBeAskedForWhereThereIsNone) { GiveWay(); }
#endif

}  // namespace
}  // namespace foretrain
