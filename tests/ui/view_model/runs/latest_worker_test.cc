#include "ui/view_model/runs/latest_worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/number_of_cases.h"

namespace foretrain::ui {
namespace {

template <class Worker>
auto WaitFor(Worker& worker) {
  while (true) {
    if (auto answer = worker.Take()) return answer;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(LatestWorker, AnswersTheNewestOfTheRequestsThatWait) {
  std::promise<void> open;
  std::shared_future<void> gate = open.get_future().share();
  std::atomic<int> started = 0;
  LatestWorker<int, int> worker([&](int request, const auto&) -> Result<int> {
    ++started;
    gate.wait();
    return request * 10;
  });
  EXPECT_EQ(worker.Ask(1), 1U);
  while (started == 0) std::this_thread::yield();
  EXPECT_EQ(worker.Ask(2), 2U);
  EXPECT_EQ(worker.Ask(3), 3U);  // replaces 2
  open.set_value();
  std::vector<std::uint64_t> numbers;
  while (numbers.empty() || numbers.back() != 3) {
    auto answer = WaitFor(worker);
    EXPECT_EQ(*answer->answer, static_cast<int>(answer->number) * 10);
    numbers.push_back(answer->number);
  }
  EXPECT_EQ(started, 2);
  EXPECT_FALSE(worker.IsBusy());
}

TEST(LatestWorker, TellsLongWorkThatItIsOutdatedAndDropsWhatWasCancelled) {
  std::atomic<bool> began = false;
  LatestWorker<int, int> worker([&](int request, const auto& outdated) -> Result<int> {
    if (request == 7) return 7;
    began = true;
    while (!outdated()) std::this_thread::yield();
    return Fail(ErrorCode::kAborted, "given up");
  });
  worker.Ask(1);
  while (!began) std::this_thread::yield();
  EXPECT_TRUE(worker.IsBusy());
  worker.Cancel();
  worker.Ask(7);
  const auto answer = WaitFor(worker);
  EXPECT_EQ(answer->number, 2U);
  EXPECT_EQ(*answer->answer, 7);
}

TEST(LatestWorker, AwaitsTheNewestAnswerAndGivesUpWhereItTakesTooLong) {
  std::promise<void> open;
  std::shared_future<void> gate = open.get_future().share();
  LatestWorker<int, int> worker([&](int request, const auto&) -> Result<int> {
    if (request == 2) gate.wait();
    return request * 10;
  });
  EXPECT_FALSE(worker.Await(std::chrono::hours(1)));  // nothing is in progress
  worker.Ask(1);
  EXPECT_TRUE(worker.Await(std::chrono::hours(1)));
  EXPECT_EQ(*worker.Take()->answer, 10);
  worker.Ask(2);
  EXPECT_FALSE(worker.Await(std::chrono::milliseconds(1)));
  open.set_value();
  EXPECT_TRUE(worker.Await(std::chrono::hours(1)));
  EXPECT_EQ(*worker.Take()->answer, 20);
}

TEST(LatestWorker, MakesAnErrorOfWhatTheWorkThrows) {
  LatestWorker<int, int> worker(
      [](int, const auto&) -> Result<int> { throw std::runtime_error("no memory left"); });
  worker.Ask(1);
  const auto answer = WaitFor(worker);
  ASSERT_FALSE(answer->answer.has_value());
  EXPECT_NE(answer->answer.error().message.find("no memory left"), std::string::npos);
}

TEST(LatestWorker, EndsWhileItsWorkGoesOn) {
  LatestWorker<int, int> worker([](int, const auto& outdated) -> Result<int> {
    while (!outdated()) std::this_thread::yield();
    return 0;
  });
  worker.Ask(1);  // the destructor makes it end
}

// Answers come in the order of their requests, each is that of its own request, and the last
// request is answered. FORETRAIN_OPERATIONS sets their number.
TEST(LatestWorker, AnswersTheLastOfManyRequests) {
  LatestWorker<std::int64_t, std::int64_t> worker(
      [](std::int64_t request, const auto&) -> Result<std::int64_t> { return 10 * request; });
  std::uint64_t newest = 0;
  const auto take = [&] {
    const auto answer = worker.Take();
    if (!answer) return;
    ASSERT_TRUE(answer->answer.has_value());
    EXPECT_GT(answer->number, newest);
    newest = answer->number;
    EXPECT_EQ(*answer->answer, 10 * static_cast<std::int64_t>(newest));
  };
  const std::int64_t requests = Operations();
  for (std::int64_t request = 1; request <= requests; ++request) {
    if (request % 1000 == 0) worker.Cancel();
    EXPECT_EQ(worker.Ask(request), static_cast<std::uint64_t>(request));
    take();
  }
  EXPECT_TRUE(worker.Await(std::chrono::hours(1)));
  take();
  EXPECT_EQ(newest, static_cast<std::uint64_t>(requests));
}

}  // namespace
}  // namespace foretrain::ui
