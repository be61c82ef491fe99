#include "runtime/processes/id_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "runtime/processes/process_group.h"
#include "tests/runtime/ranks/free_port.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(ThreadIdStore, KeepsAValueForEachRank) {
  ThreadIdStore store(kSecond / 10);
  ASSERT_TRUE(store.Put(0, "id", "of rank 0").has_value());
  ASSERT_TRUE(store.Put(1, "id", "of rank 1").has_value());
  EXPECT_EQ(store.Get(0, "id", nullptr).value_or(""), "of rank 0");
  EXPECT_EQ(store.Get(1, "id", nullptr).value_or(""), "of rank 1");
  const auto none = store.Get(2, "id", nullptr);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::kTimeout);
  EXPECT_THAT(none.error().message, HasSubstr("rank 2 has not stored id within 100"));
  EXPECT_EQ(store.Get(2, "id", [] { return true; }).error().code, ErrorCode::kAborted);
}

// Another thread may store a value under a lock that `over` takes.
TEST(ThreadIdStore, AsksWhetherToStopWithoutItsLock) {
  ThreadIdStore store(10 * kSecond);
  const auto value = store.Get(1, "x", [&] {
    EXPECT_TRUE(store.Put(1, "x", "v").has_value());
    return false;
  });
  ASSERT_TRUE(value.has_value()) << value.error().message;
  EXPECT_EQ(*value, "v");
}

TEST(ThreadIdStore, NeverChangesAValue) {
  ThreadIdStore store(kSecond);
  ASSERT_TRUE(store.Put(0, "id", "first").has_value());
  const auto again = store.Put(0, "id", "second");
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().message, "rank 0 stores id a second time");
  EXPECT_EQ(store.Get(0, "id", nullptr).value_or(""), "first");
}

// Three processes, simulated by threads.
std::vector<std::unique_ptr<ProcessGroup>> JoinThree(std::int64_t timeout_ns) {
  const int port = FreePort();
  std::vector<std::unique_ptr<ProcessGroup>> groups(3);
  std::vector<std::thread> threads;
  for (const int rank : {1, 2, 0}) {  // rank 0 comes last: the others try until it listens
    threads.emplace_back([&groups, rank, port, timeout_ns] {
      auto joined = ProcessGroup::Join({rank, 3, rank, "127.0.0.1", port}, timeout_ns);
      ASSERT_TRUE(joined.has_value()) << joined.error().message;
      groups[static_cast<std::size_t>(rank)] = *std::move(joined);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  for (std::thread& thread : threads) thread.join();
  return groups;
}

TEST(ProcessGroup, HandsValuesFromAnyRankToAnyOther) {
  const auto groups = JoinThree(10 * kSecond);
  // Arbitrary bytes, as an id has.
  const std::string value("\0\1\377 id", 6);
  for (int owner = 0; owner < 3; ++owner) {
    std::vector<std::thread> threads;
    // Ranks that ask before there is a value, and one that asks afterwards.
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(60));
        const auto got = groups[static_cast<std::size_t>(rank)]->Get(owner, "id", nullptr);
        ASSERT_TRUE(got.has_value()) << got.error().message;
        EXPECT_EQ(*got, value + std::to_string(owner));
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    ProcessGroup& of = *groups[static_cast<std::size_t>(owner)];
    ASSERT_TRUE(of.Put(owner, "id", value + std::to_string(owner)).has_value());
    EXPECT_FALSE(of.Put(owner, "id", "another").has_value());
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(ProcessGroup, WaitsInTimeForAValueAndRefusesLongOnes) {
  const auto groups = JoinThree(kSecond);
  const auto none = groups[1]->Get(2, "id", nullptr);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::kTimeout);
  EXPECT_THAT(none.error().message,
              AllOf(HasSubstr("rank 1: "), HasSubstr("rank 2 has not stored id")));
  const auto longer = groups[1]->Put(1, "id", std::string(60'000, 'x'));
  ASSERT_FALSE(longer.has_value());
  EXPECT_EQ(longer.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace foretrain
