// A process that has the job's token and sends values that cannot be: it ends the run with a
// sentence that names it, and stops no other process by a check.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "runtime/processes/group_messages.h"
#include "runtime/processes/process_group.h"
#include "runtime/processes/reception.h"
#include "runtime/processes/wire/job_key.h"
#include "runtime/processes/wire/packing.h"
#include "tests/runtime/executor/recording_sink.h"
#include "tests/runtime/ranks/free_port.h"

namespace foretrain {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kSecond = 1'000'000'000;
const std::string kToken = "a token of the tests";

std::string Key() { return *KeyOfToken(kToken); }

struct Message {
  std::string name;
  char type = 0;
  std::string text{};
  bool twice = false;
};

std::string With(std::string text, std::size_t at, char byte) {
  text.at(at) = byte;
  return text;
}

std::string Repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

Span GoodSpan() {
  Span span;
  span.op = PackId({});
  span.rank = 1;
  span.end_ns = 10;
  return span;
}
template <class Member, class Value>
std::string SpanWith(Member member, Value value) {
  Span span = GoodSpan();
  span.*member = static_cast<std::remove_reference_t<decltype(span.*member)>>(value);
  return PackSpans(std::span(&span, 1), {});
}

std::vector<Message> BadMessagesToRankZero() {
  const std::string no_text;
  StepScalars scalars;
  scalars.rank = 1;
  scalars.loss = 1.0F;
  StepWindow late;
  late.rank = 1;
  late.step = 1'000'000'000;
  Counter counter{"name", 1, 3, 0, 1};
  RunSummary nan, negative;
  nan.seconds = std::nan("");
  negative.steps = -1;
  StepScalars beyond = scalars;
  beyond.step = 3;
  MemorySample sample;
  sample.rank = 1;
  sample.space = static_cast<Space>(4);
  CaptureReport report;
  report.clocks = {{.host_ns = INT64_MAX, .device_ns = 0, .width_ns = 0}};
  return {
      {"a type that does not exist", '?'},
      {"a grant", kGrant, Pack(std::int64_t{5})},
      {"an end", kEnd, Pack(std::int64_t{5})},
      {"an end of the run", kOver},
      {"the time", kTimeIs, Pack(std::int64_t{5})},
      {"an answer", kValue, Pack(std::int32_t{1}, std::string("mesh"))},
      {"a stop with a text", kStop, "x"},
      {"a failure without a text", kFailure},
      {"a failure of another rank", kFailure, Pack(std::int32_t{0}, std::int32_t{3}, no_text)},
      {"a failure of no rank", kFailure, Pack(std::int32_t{-1}, std::int32_t{3}, no_text)},
      {"a failure of a far rank", kFailure, Pack(std::int32_t{1 << 30}, std::int32_t{3}, no_text)},
      {"an unknown code", kFailure, Pack(std::int32_t{1}, std::int32_t{99}, no_text)},
      {"a negative code", kFailure, Pack(std::int32_t{1}, std::int32_t{-1}, no_text)},
      {"a name longer than its message", kPut, Pack(std::uint64_t{1} << 63)},
      {"a value without a name", kPut},
      {"a value twice", kPut, Pack(std::string("mesh")), true},
      {"a question twice", kGet, Pack(std::int32_t{0}, std::string("never")), true},
      {"a question about no rank", kGet, Pack(std::int32_t{9}, std::string("mesh"))},
      {"a question about a negative rank", kGet, Pack(std::int32_t{-1}, std::string("mesh"))},
      {"a cut summary", kSummary, PackSummary({}).substr(1)},
      {"a summary with more", kSummary, PackSummary({}) + "x"},
      {"a summary that stopped 2", kSummary, With(PackSummary({}), 8, 2)},
      {"a summary of no time", kSummary, PackSummary(nan)},
      {"a summary of negative steps", kSummary, PackSummary(negative)},
      {"a summary twice", kSummary, PackSummary({}), true},
      {"last ops of another rank", kLastOps, "rank 0: 1 ms mlp.up (step 1)\n"},
      {"last ops with an escape", kLastOps, "rank 1: \x1b[2J (step 1)\n"},
      {"last ops without an end", kLastOps, "rank 1: 1 ms mlp.up (step 1)"},
      {"last ops of more than a ring", kLastOps, Repeated("rank 1: mlp.up\n", 1'025)},
      {"last ops twice", kLastOps, "rank 1: mlp.up\n", true},
      {"spans without a number", kSpans},
      {"more spans than bytes", kSpans, Pack(std::uint64_t{1} << 60)},
      {"a queue that does not exist", kSpans, SpanWith(&Span::queue, kQueueCount)},
      {"a class that does not exist", kSpans, SpanWith(&Span::op_class, 200)},
      {"an op that cannot be", kSpans, SpanWith(&Span::op, std::int64_t{31} << 58)},
      {"a span of another rank", kSpans, SpanWith(&Span::rank, 0)},
      {"a span of a negative rank", kSpans, SpanWith(&Span::rank, -5)},
      {"a span of a step beyond", kSpans, SpanWith(&Span::step, 3)},
      {"a span of a step before", kSpans, SpanWith(&Span::step, -1)},
      {"a span of negative bytes", kSpans, SpanWith(&Span::bytes, -1)},
      {"a span that ends before it starts", kSpans, SpanWith(&Span::end_ns, -1)},
      {"a span of another century", kSpans, SpanWith(&Span::end_ns, INT64_MAX)},
      {"a space that does not exist", kMemory, PackMemory(std::span(&sample, 1), {})},
      {"a window of a step beyond", kWindow, PackWindow(late, {})},
      {"a loss that is there twice", kScalars, With(PackScalars(scalars, {}), 20, 2)},
      {"scalars of a step beyond", kScalars, PackScalars(beyond, {})},
      {"a counter of a step beyond", kCounters, PackCounters(std::span(&counter, 1), {})},
      {"counts of a negative step", kRouting, PackRouting({-1, 1, 0, 0, "", {}})},
      {"negative counts", kRouting, PackRouting({0, 1, 0, 0, "", {-1}})},
      {"a recording of another rank", kCapture, PackCapture(0, {}, {}, {})},
      {"a recording that is there twice", kCapture, With(PackCapture(1, {}, {}, {}), 4, 2)},
      {"a clock of another century", kCapture, PackCapture(1, report, {}, {})},
  };
}

// Joins as rank 1 and sends these frames. Returns the error of rank 0. The frames are sent once
// rank 0 takes records, which it says by a value.
Error ErrorOfRankZero(const std::vector<Frame>& frames) {
  const int port = FreePort();
  std::thread insider([&] {
    const std::string hello = Pack(std::int32_t{1}, std::int32_t{2});
    for (int tries = 0; tries < 100; ++tries) {
      auto joined = Dial("127.0.0.1", port, Key(), hello, 5 * kSecond, DeadlineIn(5 * kSecond));
      if (!joined.has_value()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        continue;
      }
      static_cast<void>(joined->connection.Send(kGet, Pack(std::int32_t{0}, std::string("ready")),
                                                DeadlineIn(kSecond)));
      const auto ready = joined->connection.Await(&MaxBytesFromFirst, DeadlineIn(5 * kSecond));
      ASSERT_TRUE(ready.has_value()) << ready.error().message;
      for (const Frame& frame : frames) {
        static_cast<void>(joined->connection.Send(frame.type, frame.text, DeadlineIn(kSecond)));
      }
      // Rank 0's answers end the connection.
      while (joined->connection.Receive(&MaxBytesFromFirst).has_value()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      return;
    }
    ADD_FAILURE() << "did not join";
  });
  Error error;
  {
    auto group = ProcessGroup::Join({0, 2, 0, "127.0.0.1", port, kToken}, 5 * kSecond);
    EXPECT_TRUE(group.has_value()) << group.error().message;
    if (group.has_value()) {
      RecordingSink sink;
      (*group)->Collect(&sink, 0, 3);
      EXPECT_TRUE((*group)->Put(0, "ready", "").has_value());
      const auto end = (*group)->Get(1, "nothing", nullptr);
      EXPECT_FALSE(end.has_value());
      error = end.error();
      (*group)->Collect(nullptr);
      EXPECT_TRUE(sink.timeline.spans.empty() && sink.scalars.empty() && sink.captures.empty());
    }
  }
  insider.join();
  return error;
}

TEST(Insider, EndsTheRunByNameIfItSendsToRankZeroWhatCannotBe) {
  for (const Message& message : BadMessagesToRankZero()) {
    std::vector<Frame> frames = {{message.type, message.text}};
    if (message.twice) frames.push_back(frames.front());
    const Error error = ErrorOfRankZero(frames);
    EXPECT_EQ(error.code, ErrorCode::kIo) << message.name << ": " << error.message;
    EXPECT_THAT(error.message, HasSubstr("rank 1: it sent a message")) << message.name;
  }
}

// The text goes to a terminal and into the store.
TEST(Insider, CannotWriteToTheTerminal) {
  const std::string text =
      "rank 1: \033[2J\033]0;title\007\xc2\x9b"
      "31m\r\n\xe2\x80\xae";
  const Error error =
      ErrorOfRankZero({{kFailure, Pack(std::int32_t{1}, ErrorCode::kCorruptInput, text)}});
  EXPECT_EQ(error.code, ErrorCode::kCorruptInput);
  EXPECT_THAT(error.message, HasSubstr("\\x1b[2J"));
  for (const char byte : error.message) {
    EXPECT_TRUE(byte >= ' ' && byte != 0x7f) << error.message;
  }
}

// A false rank 0 that has the token, too.
Error ErrorOfRankOne(const std::vector<Frame>& frames) {
  const int port = FreePort();
  const auto listener = ListenAt("127.0.0.1", port);
  EXPECT_TRUE(listener.has_value());
  std::thread insider([&] {
    Reception reception(*listener, Key(), 5 * kSecond);
    std::optional<Joined> joined;
    for (int tries = 0; tries < 500 && !joined; ++tries) joined = reception.Next(10);
    ASSERT_TRUE(joined.has_value());
    ASSERT_TRUE(Welcome(joined->connection, "a run").has_value());
    for (const Frame& frame : frames) {
      static_cast<void>(joined->connection.Send(frame.type, frame.text, DeadlineIn(kSecond)));
    }
    while (joined->connection.Receive(&MaxBytesToFirst).has_value()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  Error error;
  {
    auto group = ProcessGroup::Join({1, 2, 1, "127.0.0.1", port, kToken}, 5 * kSecond);
    EXPECT_TRUE(group.has_value()) << group.error().message;
    if (group.has_value()) {
      const auto end = (*group)->Get(0, "nothing", nullptr);
      EXPECT_FALSE(end.has_value());
      error = end.error();
    }
  }
  insider.join();
  return error;
}

TEST(Insider, EndsTheRunByNameIfRankZeroSendsWhatCannotBe) {
  const std::string no_text;
  const std::vector<Message> messages = {
      {"a type that does not exist", '?'},
      {"a record", kSpans, PackSpans({}, {})},
      {"a stop", kStop},
      {"a negative grant", kGrant, Pack(std::int64_t{-1})},
      {"a grant beyond all steps", kGrant, Pack(INT64_MAX)},
      {"a cut grant", kGrant, "1234567"},
      {"a negative end", kEnd, Pack(std::int64_t{-1})},
      {"two ends", kEnd, Pack(std::int64_t{5}), true},
      {"a time of another century", kTimeIs, Pack(INT64_MIN)},
      {"an answer to no question", kValue, Pack(std::int32_t{0}, std::string("other")) + "x"},
      {"two answers", kValue, Pack(std::int32_t{0}, std::string("other")) + "x", true},
      {"an answer for this rank", kValue, Pack(std::int32_t{1}, std::string("nothing")) + "x"},
      {"a failure of a far rank", kFailure, Pack(std::int32_t{2}, std::int32_t{3}, no_text)},
  };
  for (const Message& message : messages) {
    std::vector<Frame> frames = {{message.type, message.text}};
    if (message.twice) frames.push_back(frames.front());
    const Error error = ErrorOfRankOne(frames);
    EXPECT_EQ(error.code, ErrorCode::kIo) << message.name << ": " << error.message;
    EXPECT_THAT(error.message, HasSubstr("rank 0: it sent a message")) << message.name;
  }
}

TEST(Insider, CannotJoinInAnothersPlace) {
  struct Case {
    std::string hello, why;
  };
  const std::vector<Case> cases = {
      {Pack(std::int32_t{0}, std::int32_t{3}), "two processes say that they are rank 0"},
      {Pack(std::int32_t{3}, std::int32_t{3}), "two processes say that they are rank 3"},
      {Pack(std::int32_t{-1}, std::int32_t{3}), "two processes say that they are rank -1"},
      {Pack(std::int32_t{1}, std::int32_t{2}), "one of 2 processes, rank 0 as one of 3"},
      {"hello", "another build"},
      {"", "another build"},
  };
  for (const Case& one : cases) {
    const int port = FreePort();
    std::string told;
    std::thread insider([&] {
      for (int tries = 0; tries < 100; ++tries) {
        const auto joined =
            Dial("127.0.0.1", port, Key(), one.hello, kSecond, DeadlineIn(5 * kSecond));
        ASSERT_FALSE(joined.has_value());
        told = joined.error().message;
        if (joined.error().code == ErrorCode::kInvalidArgument) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    });
    const auto group = ProcessGroup::Join({0, 3, 0, "127.0.0.1", port, kToken}, 5 * kSecond);
    insider.join();
    ASSERT_FALSE(group.has_value());
    EXPECT_EQ(group.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(group.error().message, HasSubstr(one.why));
    EXPECT_THAT(told, HasSubstr(one.why));
  }
}

}  // namespace
}  // namespace foretrain
