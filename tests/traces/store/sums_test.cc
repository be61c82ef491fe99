// Sums of spans in stores: when they are stored, and that they equal the spans'.
#include <gtest/gtest.h>

#include "tests/traces/stores.h"
#include "traces/metrics/metrics.h"
#include "traces/span_sums.h"

namespace foretrain {
namespace {

// `count` spans on two ranks and two queues, one every 10 ns, and a memory sample with every
// fourth.
Timeline LongTimeline(std::int64_t count) {
  Timeline timeline;
  timeline.world = 2;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto rank = static_cast<std::int16_t>(i % 2);
    const bool sends = i % 3 == 0;
    timeline.spans.push_back({.start_ns = 10 * i,
                              .end_ns = 10 * i + 10 + i % 7,
                              .op = PackId({.pass = Pass::kForward, .micro_batch = 1}, 3),
                              .ready_ns = 10 * i,
                              .step = static_cast<std::int32_t>(i * 10 / count),
                              .rank = rank,
                              .queue = sends ? Queue::kSendNext : Queue::kCompute,
                              .op_class = sends ? OpClass::kPpComm : OpClass::kGemm});
    if (i % 4 == 0) {
      timeline.memory.push_back(
          {.time_ns = 10 * i,
           .bytes = 1000 + i,
           .rank = static_cast<std::int16_t>(i / 4 % 2),
           .category = i % 400 == 0 ? Category::kParameters : Category::kActivations});
    }
  }
  DeriveSteps(timeline);
  SortTimeline(timeline);
  return timeline;
}

// The sums that SpanSummer computes from the spans.
SpanSums SumsOf(const Timeline& timeline) {
  SpanSummer summer(static_cast<std::int64_t>(timeline.spans.size()));
  for (const Span& span : timeline.spans) {
    summer.Add(span.rank, span.queue, span.start_ns, span.end_ns, WorkOf(span.op, span.op_class));
  }
  return summer.Take();
}

// A commit between two tables of one reading would show spans whose batch is not known.
TEST(StoreReader, ShowsNothingOfACommitThatComesWhileItReads) {
  constexpr int kSpans = 10'000;
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  const auto store = Store::Open(path);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  const auto run = (*store)->BeginRun({.world = 1});
  ASSERT_TRUE(run.has_value()) << run.error().message;
  const auto record = [&](std::int64_t first_ns) {
    std::vector<Span> spans;
    for (int i = 0; i < 2 * kSpans; ++i) {
      const std::int64_t start_ns = first_ns + i % kSpans * 10;
      spans.push_back({.start_ns = start_ns,
                       .end_ns = start_ns + 2,
                       .ready_ns = start_ns,
                       .queue = i < kSpans ? Queue::kCompute : Queue::kD2h});
    }
    EXPECT_TRUE((*run)->Add(spans).has_value());
    EXPECT_TRUE((*run)->Flush().has_value());
  };
  record(0);
  const auto reader = StoreReader::Open(path);
  ASSERT_TRUE(reader.has_value()) << reader.error().message;
  int asked = 0;
  LoadOptions options;
  options.cancelled = [&] {
    if (++asked == 2) record(5);  // the first track is being read
    return false;
  };
  const auto before = reader->LoadRun((*run)->id(), options);
  ASSERT_TRUE(before.has_value()) << before.error().message;
  EXPECT_EQ(before->timeline.spans.size(), 2U * kSpans);
  EXPECT_GT(asked, 2);
  EXPECT_EQ(LoadFrom(path, (*run)->id())->timeline.spans.size(), 4U * kSpans);
}

TEST(StoredSums, AreKeptWithALongRunAndAreThoseOfItsSpans) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  const Timeline timeline = LongTimeline(kMinSummedSpans);
  StoreTimeline(path, timeline);
  const auto reader = StoreReader::Open(path).value();
  const auto kept = UnpackSums(reader.Attachment(1, kSumsAttachment).value());
  ASSERT_TRUE(kept.has_value()) << kept.error().message;
  EXPECT_EQ(kept->tracks, SumsOf(timeline).tracks);
  EXPECT_FALSE(kept->levels.empty());
  EXPECT_EQ(reader.LoadSums(1)->tracks, kept->tracks);
}

TEST(StoredSums, AreMadeForARunThatHasNoneOrDamagedOnes) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  const Timeline timeline = LongTimeline(3'000);
  StoreTimeline(path, timeline);
  const SpanSums expected = SumsOf(timeline);
  {
    const auto reader = StoreReader::Open(path).value();
    EXPECT_FALSE(reader.Attachment(1, kSumsAttachment).has_value());
    EXPECT_EQ(reader.LoadSums(1)->tracks, expected.tracks);
  }
  // Sums of fewer spans than the run has (as after a manual change), and bytes that are no sums.
  for (const std::string& body : {PackSums(SumsOf(LongTimeline(10))), std::string("no sums")}) {
    Damage(path,
           "INSERT OR REPLACE INTO attachment(run_id, name, body) VALUES(1, 'span_sums', "
           "zeroblob(0))");
    std::string hex;
    for (const unsigned char c : body) {
      constexpr const char* kDigits = "0123456789abcdef";
      hex += {kDigits[c / 16], kDigits[c % 16]};
    }
    Damage(path, "UPDATE attachment SET body = x'" + hex + "' WHERE name = 'span_sums'");
    EXPECT_EQ(StoreReader::Open(path)->LoadSums(1)->tracks, expected.tracks);
  }
  Damage(path, "UPDATE span SET duration_ns = -5 WHERE start_ns = 0");
  EXPECT_EQ(StoreReader::Open(path)->LoadSums(1).error().code, ErrorCode::kCorruptInput);
  EXPECT_EQ(StoreReader::Open(path)->LoadSums(7).error().code, ErrorCode::kInvalidArgument);
}

TEST(StoredSums, FindTheMemorySamplesOfAWindowAsReadingAllDoes) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  const std::int64_t count = 40'000;
  StoreTimeline(path, LongTimeline(count));
  const auto reader = StoreReader::Open(path).value();
  const SpanSums sums = reader.LoadSums(1).value();
  for (const std::int64_t start : {std::int64_t{0}, 3 * count, 5 * count + 3, 9 * count}) {
    const std::pair window(start, start + 2'000);
    const Timeline whole = reader.LoadRun(1, {.window_ns = window})->timeline;
    const Timeline part = reader.LoadRun(1, {.window_ns = window, .sums = &sums})->timeline;
    ASSERT_EQ(part.memory.size(), whole.memory.size()) << start;
    for (std::size_t i = 0; i < part.memory.size(); ++i) {
      EXPECT_EQ(part.memory[i].bytes, whole.memory[i].bytes);
      EXPECT_EQ(part.memory[i].category, whole.memory[i].category);
      // A sample from before may have the time of the levels.
      EXPECT_EQ(std::max(part.memory[i].time_ns, start), std::max(whole.memory[i].time_ns, start));
    }
  }
}

TEST(StoredSums, LeaveWindowsAndNamesWhereNoSpansAreAskedFor) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  const Timeline timeline = LongTimeline(1'000);
  StoreTimeline(path, timeline);
  const Timeline read = LoadFrom(path, 1, {.spans = false})->timeline;
  EXPECT_TRUE(read.spans.empty());
  EXPECT_TRUE(read.memory.empty());
  EXPECT_EQ(read.steps.size(), timeline.steps.size());
}

}  // namespace
}  // namespace foretrain
