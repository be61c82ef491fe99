#include "profiler/span_recorder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <thread>

namespace foretrain {
namespace {

Span MakeSpan(std::int64_t number) {
  Span span;
  span.start_ns = number;
  span.end_ns = number + 1;
  span.op = number;
  return span;
}

TEST(SpanRecorder, DrainsEachLaneInOrderAcrossChunks) {
  SpanRecorder recorder;
  SpanLane& first = recorder.AddLane();
  SpanLane& second = recorder.AddLane();
  for (int i = 0; i < 3000; ++i) first.Record([&] { first.Add(MakeSpan(i)); });  // three chunks
  second.Record([&] { second.Add(MakeSpan(7)); });
  std::vector<Span> spans;
  recorder.Drain(spans);
  ASSERT_EQ(spans.size(), 3001U);
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(spans[static_cast<std::size_t>(i)].op, i);
  EXPECT_EQ(spans.back().op, 7);
  recorder.Drain(spans);
  EXPECT_EQ(spans.size(), 3001U) << "a span came twice";
}

TEST(SpanRecorder, LosesNothingWhileItIsDrained) {
  constexpr int kSpans = 200'000;
  SpanRecorder recorder;
  SpanLane& lane = recorder.AddLane();
  std::thread writer([&] {
    for (int i = 0; i < kSpans; ++i) lane.Record([&] { lane.Add(MakeSpan(i)); });
  });
  std::vector<Span> spans;
  while (spans.size() < kSpans) recorder.Drain(spans);
  writer.join();
  for (int i = 0; i < kSpans; ++i) ASSERT_EQ(spans[static_cast<std::size_t>(i)].op, i);
}

// A fixed amount of work of some microseconds: shorter than the cut-off of a sample.
void Work() {
  static volatile std::uint32_t sum = 0;
  for (std::uint32_t i = 0; i < 2'000; ++i) sum = sum + i;
}

// The share that a recorder measures if a recording takes as long as the work between two
// recordings: half of the thread's time.
double MeasuredShare() {
  SpanRecorder recorder;
  SpanLane& lane = recorder.AddLane();
  for (int i = 0; i < 40 * SpanLane::kSampleEvery; ++i) {
    Work();
    lane.Record([&] {
      lane.Add(MakeSpan(i));
      Work();
    });
  }
  lane.MarkStep();
  std::vector<Span> spans;
  recorder.Drain(spans);
  const RecordingCost cost = recorder.Cost();
  EXPECT_EQ(cost.spans, 40 * SpanLane::kSampleEvery);
  EXPECT_GT(cost.thread_ns, 0);
  return cost.Share();
}

// On a busy machine the thread may lose its core within a timed sample, so the median of five
// counts.
TEST(SpanRecorder, MeasuresItsOwnShareOfTheThreadsTime) {
  std::vector<double> shares;
  for (int i = 0; i < 5; ++i) shares.push_back(MeasuredShare());
  std::sort(shares.begin(), shares.end());
  EXPECT_GT(shares[2], 0.25);  // 41 samples of equal work, one in 128 timed
  EXPECT_LT(shares[2], 0.9);
}

TEST(SpanRecorder, HasNoCostBeforeTheFirstSpan) {
  SpanRecorder recorder;
  recorder.AddLane().MarkStep();
  EXPECT_EQ(recorder.Cost().thread_ns, 0);
  EXPECT_EQ(recorder.Cost().Share(), 0.0);
}

}  // namespace
}  // namespace foretrain
