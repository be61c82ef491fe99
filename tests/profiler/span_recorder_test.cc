#include "profiler/span_recorder.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

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

// A thread that does nothing but the work that tests tell: both clocks stand still between.
thread_local std::int64_t worked_ns = 0;
std::int64_t WorkedNs() { return worked_ns; }
constexpr RecorderClocks kWorkClocks{WorkedNs, WorkedNs};

TEST(SpanRecorder, MeasuresItsOwnShareOfTheThreadsTime) {
  constexpr int kSpans = 40 * SpanLane::kSampleEvery;
  SpanRecorder recorder(kWorkClocks);
  SpanLane& lane = recorder.AddLane();
  for (int i = 0; i < kSpans; ++i) {
    lane.Record([&] {
      lane.Add(MakeSpan(i));
      worked_ns += 100;
    });
    worked_ns += 300;
  }
  lane.MarkStep();
  std::vector<Span> spans;
  recorder.Drain(spans);
  const RecordingCost cost = recorder.Cost();
  EXPECT_EQ(cost.spans, kSpans);
  EXPECT_EQ(cost.recording_ns, 100 * kSpans);
  EXPECT_EQ(cost.thread_ns, 400 * kSpans);
  EXPECT_EQ(cost.Share(), 0.25);
}

TEST(SpanRecorder, CutsOffASampleInWhichTheThreadLostItsProcessor) {
  SpanRecorder recorder(kWorkClocks);
  SpanLane& lane = recorder.AddLane();
  lane.Record([&] { worked_ns += 1'000'000'000; });
  EXPECT_EQ(recorder.Cost().recording_ns, SpanLane::kMaxSampleNs);
}

TEST(SpanRecorder, MeasuresByTheClocksOfThisMachine) {
  SpanRecorder recorder;
  SpanLane& lane = recorder.AddLane();
  for (int i = 0; i < 1'000; ++i) lane.Record([&] { lane.Add(MakeSpan(i)); });
  lane.MarkStep();
  EXPECT_GT(recorder.Cost().recording_ns, 0);
  EXPECT_GT(recorder.Cost().thread_ns, 0);
}

TEST(SpanRecorder, HasNoCostBeforeTheFirstSpan) {
  SpanRecorder recorder;
  recorder.AddLane().MarkStep();
  EXPECT_EQ(recorder.Cost().thread_ns, 0);
  EXPECT_EQ(recorder.Cost().Share(), 0.0);
}

}  // namespace
}  // namespace foretrain
