// Longer than 400 lines: what a store takes and gives back, a test for each kind of row and state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "tests/traces/stores.h"
#include "tests/traces/timelines.h"
#include "traces/store.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kFarNs = std::int64_t{1} << 60;

Timeline NamedTimeline(int ranks, int spans) {
  std::mt19937_64 random(29);
  Timeline timeline = RandomTimeline(random, ranks, spans);
  timeline.op_names = {{PackId({.pass = Pass::kForward, .block = 1}, 0), "mlp.up"},
                       {PackId({.pass = Pass::kForward, .block = 1}, 1), "mlp.down"}};
  return timeline;
}

TEST(Store, ReadsBackTheTimelineItWasGiven) {
  const TempFolder folder;
  const std::string path = folder.File("a store.db");
  const Timeline timeline = NamedTimeline(/*ranks=*/3, /*spans=*/2'000);
  const RunId id = StoreTimeline(path, timeline);
  EXPECT_EQ(id, 1);
  const auto run = LoadFrom(path, id);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  ExpectSameTimeline(run->timeline, timeline);
  EXPECT_EQ(run->info.spans, 6'000);
  EXPECT_EQ(run->info.totals, RecordingTotals{});
}

// The largest values of each field, and queues whose spans start at the same time.
TEST(Store, KeepsExtremeValuesAndTies) {
  Timeline timeline;
  timeline.world = 1 << 15;
  const OpId last = PackId({.kind = InstructionKind::kHostRead,
                            .pass = Pass::kUpdate,
                            .block = 8191,
                            .micro_batch = (1 << 18) - 1,
                            .part = 4095},
                           4095);
  Span far = SpanOf(Queue::kNvme, OpClass::kHost, -kFarNs, kFarNs, last, 32'767,
                    std::numeric_limits<std::int32_t>::max());
  far.bytes = std::int64_t{1} << 56;
  far.ready_ns = kFarNs;
  timeline.spans = {far};
  for (int i = 0; i < 5; ++i) {
    timeline.spans.push_back(SpanOf(Queue::kCompute, OpClass::kGemm, 7, 7, i));
  }
  timeline.memory = {{.time_ns = -kFarNs, .bytes = std::int64_t{1} << 56, .rank = 3},
                     {.time_ns = -kFarNs, .bytes = 5, .rank = 3}};
  timeline.steps = {{-kFarNs, kFarNs, -1, 0}};
  SortTimeline(timeline);
  const TempFolder folder;
  const auto run = LoadFrom(folder.File("s.db"), StoreTimeline(folder.File("s.db"), timeline));
  ASSERT_TRUE(run.has_value()) << run.error().message;
  ExpectSameTimeline(run->timeline, timeline);
}

TEST(Store, CountsRowsThatCannotBeInsteadOfStoringThem) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  Timeline timeline;
  timeline.world = 2;
  timeline.spans = {
      SpanOf(Queue::kCompute, OpClass::kGemm, 0, 5),
      SpanOf(Queue::kCompute, OpClass::kGemm, 9, 5),           // ends before it starts
      SpanOf(Queue::kCompute, OpClass::kGemm, 0, kFarNs + 1),  // too far
      SpanOf(Queue::kCompute, OpClass::kGemm, 0, 5, 0, /*rank=*/2),
      SpanOf(Queue::kCompute, OpClass::kGemm, 0, 5, /*op=*/-5),
  };
  timeline.spans.push_back(timeline.spans.front());
  timeline.spans.back().bytes = -1;
  timeline.memory = {{.time_ns = 0, .bytes = 1, .rank = -1}, {.time_ns = 0, .bytes = -1}};
  timeline.steps = {{0, 9, 0, 1}, {9, 5, 1, 1}, {0, 9, 0, 2}};
  const auto run = LoadFrom(path, StoreTimeline(path, timeline));
  ASSERT_TRUE(run.has_value()) << run.error().message;
  EXPECT_EQ(run->timeline.spans.size(), 1U);
  EXPECT_EQ(run->timeline.steps.size(), 1U);
  EXPECT_EQ(run->info.totals.invalid, 5 + 2 + 2);
  EXPECT_EQ(run->info.totals.dropped, 0);
}

TEST(Store, KeepsAllThatBelongsToARun) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  auto store = Store::Open(path);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  RunSetup setup{.kind = RunKind::kPredicted, .label = "first", .world = 4};
  setup.specs = {.model_json = R"({"name":"gpt2"})",
                 .hardware_json = "{}",
                 .plan_json = R"({"dp":4})",
                 .program_hash = 0xfedcba9876543210U,
                 .program = std::string("\0\x01 blocks", 9)};
  auto predicted = (*store)->BeginRun(setup);
  ASSERT_TRUE(predicted.has_value()) << predicted.error().message;
  FT_ASSERT_OK((*predicted)->Finish(RunStatus::kFinished));
  setup.kind = RunKind::kMeasured;
  setup.label = "second";
  setup.forecast = (*predicted)->id();
  setup.details_json = R"({"command":"foretrain train"})";
  auto run = (*store)->BeginRun(setup);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  const std::vector<Counter> counters = {
      {.name = "loss", .step = 0, .time_ns = 10, .value = 5.5},
      {.name = "loss", .step = 1, .time_ns = 20, .value = std::nan("")},
      {.name = "tokens_per_s", .rank = 2, .step = 1, .time_ns = 20, .value = 1e300},
      {.name = "loss", .step = 0, .time_ns = 10, .value = 5.25}};  // replaces the first
  FT_ASSERT_OK((*run)->AddCounters(counters));
  const std::vector<MetricValue> metrics = {{.name = "step_time_s", .value = 0.5},
                                            {.rank = 1, .step = 2, .name = "mfu", .value = 0.4}};
  FT_ASSERT_OK((*run)->AddMetrics(metrics));
  FT_ASSERT_OK((*run)->AddClock({.rank = 1, .host_ns = 5, .device_ns = 6, .width_ns = 1}));
  FT_ASSERT_OK((*run)->AddNote("loss spike at step 1"));
  FT_ASSERT_OK((*run)->Attach("routing/step 3", std::string("\0\x02", 2)));
  FT_ASSERT_OK((*run)->Attach("routing/step 3", std::string("\0\x03", 2)));
  FT_ASSERT_OK((*run)->Attach("empty", ""));
  FT_ASSERT_OK((*run)->AddTotals({.dropped = 1, .overhead_ns = 100, .clock_error_ns = 7}));
  FT_ASSERT_OK((*run)->AddTotals({.dropped = 2, .invalid = 3, .clock_error_ns = 5}));
  FT_ASSERT_OK((*run)->Finish(RunStatus::kFailed, "rank 2: out of device memory"));
  FT_ASSERT_OK((*store)->Close());

  const auto reader = StoreReader::Open(path);
  ASSERT_TRUE(reader.has_value()) << reader.error().message;
  const auto loaded = reader->LoadRun(2);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(loaded->info.kind, RunKind::kMeasured);
  EXPECT_EQ(loaded->info.status, RunStatus::kFailed);
  EXPECT_EQ(loaded->info.message, "rank 2: out of device memory");
  EXPECT_EQ(loaded->info.label, "second");
  EXPECT_EQ(loaded->info.forecast, 1);
  EXPECT_EQ(loaded->info.last_step, 1);
  EXPECT_TRUE(loaded->info.finished_unix_ns.has_value());
  EXPECT_EQ(loaded->info.program_hash, 0xfedcba9876543210U);
  EXPECT_EQ(loaded->info.totals, (RecordingTotals{3, 3, 100, 7}));
  EXPECT_THAT(loaded->info.metrics, ElementsAre(MetricValue{.name = "step_time_s", .value = 0.5}));
  EXPECT_EQ(loaded->specs.model_json, setup.specs.model_json);
  EXPECT_EQ(loaded->specs.plan_json, setup.specs.plan_json);
  EXPECT_EQ(loaded->specs.program, setup.specs.program);
  EXPECT_EQ(loaded->details_json, setup.details_json);
  ASSERT_EQ(loaded->counters.size(), 3U);
  EXPECT_EQ(loaded->counters[0].value, 5.25);
  EXPECT_TRUE(std::isnan(loaded->counters[1].value));
  EXPECT_EQ(loaded->counters[2], counters[2]);
  EXPECT_THAT(loaded->metrics, testing::UnorderedElementsAreArray(metrics));
  ASSERT_EQ(loaded->clocks.size(), 1U);
  EXPECT_EQ(loaded->clocks[0].device_ns, 6);
  ASSERT_EQ(loaded->notes.size(), 1U);
  EXPECT_EQ(loaded->notes[0].text, "loss spike at step 1");
  EXPECT_THAT(Query(path, "SELECT name FROM attachment WHERE run_id = 2 ORDER BY name"),
              ElementsAre("empty", "routing/step 3", "row_counts"));
  EXPECT_EQ(*reader->Attachment(2, "routing/step 3"), std::string("\0\x03", 2));
  EXPECT_EQ(*reader->Attachment(2, "empty"), "");
  EXPECT_THAT(reader->Attachment(2, "other").error().message, HasSubstr("nothing attached"));
  // Both runs share their specs.
  EXPECT_THAT(Query(path, "SELECT count(*) FROM program"), ElementsAre("1"));
  EXPECT_THAT(Query(path, "SELECT count(*) FROM plan"), ElementsAre("1"));
}

TEST(Store, NamesTheRunsThereAreWhereOneIsMissing) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  StoreTimeline(path, NamedTimeline(1, 10));
  StoreTimeline(path, NamedTimeline(1, 10));
  const auto run = LoadFrom(path, 7);
  ASSERT_FALSE(run.has_value());
  EXPECT_EQ(run.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(run.error().message, HasSubstr("there is no run 7: it holds runs 1, 2"));
}

TEST(Store, LoadsStepsWindowsAndRanks) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  const Timeline timeline = NamedTimeline(3, 3'000);
  const RunId id = StoreTimeline(path, timeline);
  const auto expect = [&](const LoadOptions& options, const auto& keeps) {
    const auto run = LoadFrom(path, id, options);
    ASSERT_TRUE(run.has_value()) << run.error().message;
    std::vector<Span> spans;
    std::copy_if(timeline.spans.begin(), timeline.spans.end(), std::back_inserter(spans), keeps);
    ASSERT_GT(spans.size(), 0U);
    Timeline expected = run->timeline;
    expected.spans = spans;
    ExpectSameTimeline(run->timeline, expected);
  };
  expect({.steps = std::pair{2, 3}},
         [](const Span& span) { return span.step >= 2 && span.step <= 3; });
  expect({.ranks = {1, 2}}, [](const Span& span) { return span.rank >= 1; });
  expect({.window_ns = std::pair{20'000, 30'000}, .ranks = {0}}, [](const Span& span) {
    return span.rank == 0 && span.start_ns < 30'000 &&
           (span.end_ns > 20'000 || span.start_ns >= 20'000);
  });
}

TEST(Store, LoadsWhatIsLiveAtTheStartOfAPart) {
  Timeline timeline;
  timeline.world = 1;
  timeline.memory = {{.time_ns = 0, .bytes = 10, .category = Category::kParameters},
                     {.time_ns = 10, .bytes = 4, .category = Category::kActivations},
                     {.time_ns = 20, .bytes = 8, .category = Category::kActivations},
                     {.time_ns = 50, .bytes = 9, .category = Category::kActivations},
                     {.time_ns = 90, .bytes = 1, .category = Category::kActivations}};
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  const auto run = LoadFrom(path, StoreTimeline(path, timeline), {.window_ns = std::pair{40, 60}});
  ASSERT_TRUE(run.has_value()) << run.error().message;
  ASSERT_EQ(run->timeline.memory.size(), 3U);
  EXPECT_EQ(run->timeline.memory[0].bytes, 10);  // parameters, long before
  EXPECT_EQ(run->timeline.memory[1].bytes, 8);   // activations, the last before
  EXPECT_EQ(run->timeline.memory[2].bytes, 9);
}

TEST(Store, LoadsInfoWithoutTheTimelineAndStopsWhenAsked) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  const RunId id = StoreTimeline(path, NamedTimeline(2, 40'000));
  const auto info = LoadFrom(path, id, {.timeline = false});
  ASSERT_TRUE(info.has_value());
  EXPECT_TRUE(info->timeline.spans.empty());
  EXPECT_EQ(info->info.spans, 80'000);
  const auto cancelled = LoadFrom(path, id, {.cancelled = [] { return true; }});
  ASSERT_FALSE(cancelled.has_value());
  EXPECT_EQ(cancelled.error().code, ErrorCode::kAborted);
}

TEST(Store, LoadsARunWithoutItsCounters) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  auto store = Store::Open(path);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  auto run = (*store)->BeginRun({.world = 1});
  ASSERT_TRUE(run.has_value()) << run.error().message;
  const Counter counter{"gpu_power_w", 0, -1, 5, 650.0};
  const MetricValue metric{.name = "step_time_s", .value = 0.5};
  ASSERT_TRUE((*run)->AddCounters(std::span(&counter, 1)).has_value());
  ASSERT_TRUE((*run)->AddMetrics(std::span(&metric, 1)).has_value());
  ASSERT_TRUE((*run)->Finish(RunStatus::kFinished).has_value());
  const auto whole = LoadFrom(path, (*run)->id(), {});
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(whole->counters, std::vector<Counter>{counter});
  const auto without = LoadFrom(path, (*run)->id(), {.counters = false});
  ASSERT_TRUE(without.has_value());
  EXPECT_TRUE(without->counters.empty());
  EXPECT_EQ(without->metrics.size(), 1U);
}

TEST(Store, TakesSpansFromManyThreads) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  const Timeline timeline = NamedTimeline(/*ranks=*/8, /*spans=*/3'000);
  auto store = Store::Open(path, {.commit_rows = 500, .commit_interval_ns = 1'000'000});
  ASSERT_TRUE(store.has_value()) << store.error().message;
  auto run = (*store)->BeginRun({.world = 8});
  ASSERT_TRUE(run.has_value()) << run.error().message;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 8; ++rank) {
    ranks.emplace_back([&, rank] {
      std::vector<Span> spans;
      for (const Span& span : timeline.spans) {
        if (span.rank != rank) continue;
        spans.push_back(span);
        if (spans.size() < 37) continue;
        EXPECT_TRUE((*run)->Add(spans).has_value());
        EXPECT_TRUE(spans.empty());
      }
      EXPECT_TRUE((*run)->Add(spans).has_value());
      EXPECT_TRUE(spans.empty());
      EXPECT_TRUE((*run)->Flush().has_value());
    });
  }
  for (std::thread& rank : ranks) rank.join();
  FT_ASSERT_OK((*run)->Finish(RunStatus::kFinished));
  FT_ASSERT_OK((*store)->Close());
  const auto loaded = LoadFrom(path, 1);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  Timeline spans_alone = loaded->timeline;
  EXPECT_EQ(spans_alone.spans.size(), timeline.spans.size());
  spans_alone.memory = timeline.memory;
  spans_alone.steps = timeline.steps;
  spans_alone.op_names = timeline.op_names;
  ExpectSameTimeline(spans_alone, timeline);
}

TEST(Store, HoldsNoMoreThanItsBoundInMemory) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  auto store = Store::Open(path, {.commit_rows = 100, .max_waiting_rows = 250});
  ASSERT_TRUE(store.has_value());
  auto run = (*store)->BeginRun({});
  ASSERT_TRUE(run.has_value());
  for (int i = 0; i < 100; ++i) {
    std::vector<Span> spans(200, SpanOf(Queue::kCompute, OpClass::kGemm, i, i + 1));
    FT_ASSERT_OK((*run)->Add(spans));  // waits for the disk
  }
  FT_ASSERT_OK((*run)->Finish(RunStatus::kFinished));
  const auto loaded = LoadFrom(path, 1);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(loaded->timeline.spans.size(), 20'000U);
  EXPECT_EQ(loaded->info.totals.dropped, 0);
}

TEST(Store, RefusesUseAfterTheEnd) {
  const TempFolder folder;
  auto store = Store::Open(folder.File("s.db"));
  ASSERT_TRUE(store.has_value());
  auto run = (*store)->BeginRun({});
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ((*run)->Finish(RunStatus::kRunning).error().code, ErrorCode::kInvalidArgument);
  FT_ASSERT_OK((*run)->Finish(RunStatus::kFinished));
  std::vector<Span> spans(3);
  EXPECT_EQ((*run)->Add(spans).error().code, ErrorCode::kAborted);
  EXPECT_EQ((*run)->Finish(RunStatus::kFinished).error().code, ErrorCode::kAborted);
  FT_ASSERT_OK((*store)->Close());
  FT_ASSERT_OK((*store)->Close());
  EXPECT_EQ((*run)->Flush().error().code, ErrorCode::kAborted);
  EXPECT_EQ((*store)->BeginRun({}).error().code, ErrorCode::kAborted);
  EXPECT_EQ((*run)->AddNote("late").error().code, ErrorCode::kAborted);
}

TEST(Store, ChecksTheSetupOfARun) {
  const TempFolder folder;
  auto store = Store::Open(folder.File("s.db"));
  ASSERT_TRUE(store.has_value());
  EXPECT_THAT((*store)->BeginRun({.world = 0}).error().message, HasSubstr("world 0"));
  EXPECT_EQ(Store::Open(folder.File("t.db"), {.commit_rows = 0}).error().code,
            ErrorCode::kInvalidArgument);
}

TEST(Store, ClosesARunThatWasNotFinishedAsInterrupted) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  {
    auto store = Store::Open(path);
    ASSERT_TRUE(store.has_value());
    auto first = (*store)->BeginRun({});
    auto second = (*store)->BeginRun({});
    ASSERT_TRUE(second.has_value());
    first->reset();                   // destroys its recorder
    FT_ASSERT_OK((*store)->Close());  // the other recorder is still open
  }
  const auto reader = StoreReader::Open(path);
  ASSERT_TRUE(reader.has_value());
  const auto runs = reader->ListRuns();
  ASSERT_EQ(runs->size(), 2U);
  for (const RunInfo& info : *runs) {
    EXPECT_EQ(info.status, RunStatus::kInterrupted);
    EXPECT_THAT(info.message, HasSubstr("before it was finished"));
  }
}

// Labels and names are data: never SQL, never a format.
TEST(Store, KeepsHostileTextsLiterally) {
  const TempFolder folder;
  const std::string path = folder.File("s%20?mode=memory#x.db");
  const std::vector<std::string> texts = {"'); DROP TABLE run; --",  "%n%s%s%s",
                                          "\x1b[2J\x1b]0;owned\x07", std::string("a\0b", 3),
                                          "\xff\xfe broken utf-8",   "\xe2\x80\xae reversed",
                                          "../../etc/passwd",        ""};
  for (const std::string& text : texts) {
    Timeline timeline = NamedTimeline(1, 5);
    for (auto& [op, name] : timeline.op_names) name = text;
    const RunId id = StoreTimeline(path, timeline, {.label = text});
    const auto run = LoadFrom(path, id);
    ASSERT_TRUE(run.has_value()) << run.error().message;
    EXPECT_EQ(run->info.label, text);
    ExpectSameTimeline(run->timeline, timeline);
  }
  Timeline none;
  none.world = 1;
  const RunId id = StoreTimeline(path, none, {.label = std::string(1 << 20, 'x')});
  EXPECT_EQ(LoadFrom(path, id)->info.label.size(), 4'096U);
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(Store, OffersDocumentedViews) {
  const TempFolder folder;
  const std::string path = folder.File("s.db");
  const InstructionKey key{.pass = Pass::kBackward, .block = 3, .micro_batch = 2, .part = 1};
  InstructionKey named = key;
  named.micro_batch = 0;
  Timeline timeline;
  timeline.world = 2;
  Span span = SpanOf(Queue::kRecvPrev, OpClass::kPpComm, 30, 50, PackId(key, 7), 1, 4);
  span.ready_ns = 25;
  span.bytes = 64;
  timeline.spans = {SpanOf(Queue::kCompute, OpClass::kGemm, 0, 10, kNoOp, 0, 4), span};
  timeline.memory = {{.time_ns = 3, .bytes = 9, .rank = 1, .category = Category::kLogits}};
  timeline.steps = {{0, 60, 4, 1}};
  timeline.op_names = {{PackId(named, 7), "recv x"}};
  StoreTimeline(path, timeline, {.kind = RunKind::kImported, .label = "views"});
  EXPECT_THAT(Query(path, "SELECT run_id, kind, status, label, world, last_step, spans FROM v_run"),
              ElementsAre("1|imported|finished|views|2|4|2"));
  EXPECT_THAT(Query(path,
                    "SELECT run_id, rank, queue, start_ns, end_ns, duration_ns, ready_ns, "
                    "name, step, class, bytes, kind, pass, block, micro_batch, part, "
                    "op_number FROM v_span ORDER BY rank"),
              ElementsAre("1|0|compute|0|10|10|0|NULL|4|gemm|0|NULL|NULL|NULL|NULL|NULL|NULL",
                          "1|1|recv-1|30|50|20|25|recv x|4|pp_comm|64|block|backward|3|2|1|7"));
  EXPECT_THAT(Query(path, "SELECT rank, step, name, spans, duration_ns FROM v_op"),
              ElementsAre("1|4|recv x|1|20"));
  EXPECT_THAT(Query(path, "SELECT * FROM v_step"), ElementsAre("1|1|4|0|60|60|NULL"));
  EXPECT_THAT(Query(path, "SELECT * FROM v_memory"), ElementsAre("1|1|3|device|logits|9"));
}

}  // namespace
}  // namespace foretrain
