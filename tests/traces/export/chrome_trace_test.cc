#include "traces/export/chrome_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/base/fault_file_system.h"
#include "tests/traces/stores.h"
#include "tests/traces/timelines.h"

namespace foretrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;

struct Run {
  const Timeline* timeline;
  ChromeRun run;
};

std::string Write(const std::vector<Run>& runs) {
  std::string text;
  ChromeTraceWriter writer([&text](std::string_view more) {
    text += more;
    return Result<void>();
  });
  EXPECT_TRUE(writer.Begin().has_value());
  for (const Run& run : runs) EXPECT_TRUE(writer.AddRun(*run.timeline, run.run).has_value());
  EXPECT_TRUE(writer.End().has_value());
  return text;
}

std::vector<json> EventsOf(const std::string& text, const std::string& phase) {
  const json trace = json::parse(text);  // throws if it is not JSON
  std::vector<json> events;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == phase) events.push_back(event);
  }
  return events;
}

TEST(ChromeTrace, OfNothingIsAValidFile) {
  EXPECT_TRUE(json::parse(Write({})).at("traceEvents").empty());
}

TEST(ChromeTrace, WritesSpansWithExactTimes) {
  const InstructionKey key{.pass = Pass::kForward, .block = 3, .micro_batch = 2};
  InstructionKey named = key;
  named.micro_batch = 0;
  Timeline timeline;
  Span span = SpanOf(Queue::kTp, OpClass::kTpComm, 1'234'567, 1'234'568, PackId(key, 5), 1, 4);
  span.ready_ns = 1'230'000;
  span.bytes = 64;
  timeline.spans = {SpanOf(Queue::kHost, OpClass::kHost, -1'005, 7), span};
  timeline.op_names = {{PackId(named, 5), "mlp.up"}};
  const std::string text = Write({{&timeline, {.title = "measured 1", .layers = 4}}});
  EXPECT_THAT(text, HasSubstr("\"ts\":-1.005,\"dur\":1.012"));
  EXPECT_THAT(text, HasSubstr("\"ts\":1234.567,\"dur\":0.001"));
  const auto events = EventsOf(text, "X");
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].at("name"), "host");
  EXPECT_FALSE(events[0].at("args").contains("op"));
  EXPECT_EQ(events[1].at("name"), "mlp.up");
  EXPECT_EQ(events[1].at("cat"), "tp_comm");
  EXPECT_EQ(events[1].at("tid"), static_cast<int>(Queue::kTp));
  const json& args = events[1].at("args");
  EXPECT_EQ(args.at("op"), "forward layer 3 mb 2 op 5");
  EXPECT_EQ(args.at("id"), std::to_string(PackId(key, 5)));
  EXPECT_EQ(args.at("step"), 4);
  EXPECT_EQ(args.at("bytes"), 64);
  EXPECT_DOUBLE_EQ(args.at("wait_us").get<double>(), 4.567);
}

TEST(ChromeTrace, WritesHowTheKernelsOfAnOpWereLaunched) {
  const OpId op = PackId({.pass = Pass::kForward, .block = 3, .micro_batch = 2}, 5);
  KernelTable kernels{.capability = 90};
  kernels.rows = {{"gemm<float>", {.grid = {64, 2, 1}, .block = {128, 1, 1}, .registers = 255}}};
  kernels.Own(op, 0);
  Timeline timeline;
  for (const Queue queue : {Queue::kCompute, Queue::kHost}) {
    timeline.spans.push_back(SpanOf(queue, OpClass::kGemm, 10, 20, op));
  }
  const auto events =
      EventsOf(Write({{&timeline, {.title = "measured 1", .kernels = &kernels}}}), "X");
  ASSERT_EQ(events.size(), 2U);
  const json& kernel = events[0].at("args").at("kernels").at(0);
  EXPECT_EQ(kernel.at("name"), "gemm<float>");
  EXPECT_EQ(kernel.at("grid"), json({64, 2, 1}));
  EXPECT_EQ(kernel.at("block"), json({128, 1, 1}));
  EXPECT_EQ(kernel.at("registers"), 255);
  EXPECT_EQ(kernel.at("occupancy"), 0.125);                // 8 of 64 warps
  EXPECT_FALSE(events[1].at("args").contains("kernels"));  // a launch
}

TEST(ChromeTrace, GivesEachRunAndRankAProcessAndEachQueueAThread) {
  std::mt19937_64 random(71);
  const Timeline predicted = RandomTimeline(random, 2, 50);
  const Timeline measured = RandomTimeline(random, 2, 50);
  const std::string text =
      Write({{&predicted, {.title = "predicted 1"}}, {&measured, {.title = "measured 2"}}});
  std::map<int, std::string> processes;
  std::set<std::pair<int, int>> threads;
  for (const json& event : EventsOf(text, "M")) {
    if (event.at("name") == "process_name") {
      EXPECT_TRUE(processes.emplace(event.at("pid"), event.at("args").at("name").get<std::string>())
                      .second);
    }
    if (event.at("name") == "thread_name") {
      EXPECT_TRUE(threads.emplace(event.at("pid"), event.at("tid")).second);
    }
  }
  EXPECT_THAT(processes, testing::ElementsAre(
                             std::pair(1, "predicted 1 rank 0"), std::pair(2, "predicted 1 rank 1"),
                             std::pair(3, "measured 2 rank 0"), std::pair(4, "measured 2 rank 1")));
  std::size_t steps = 0;
  for (const json& event : EventsOf(text, "X")) {
    EXPECT_TRUE(threads.contains({event.at("pid"), event.at("tid")}));
    if (event.at("cat") == "step") ++steps;
  }
  EXPECT_EQ(EventsOf(text, "X").size() - steps, 200U);
  EXPECT_EQ(steps, predicted.steps.size() + measured.steps.size());
}

TEST(ChromeTrace, WritesMemoryByCategoryWhereItChanges) {
  Timeline timeline;
  timeline.memory = {
      {.time_ns = 0, .bytes = 10, .category = Category::kParameters},
      {.time_ns = 5'000, .bytes = 4, .category = Category::kActivations},
      {.time_ns = 5'000, .bytes = 2, .category = Category::kGradients},
      {.time_ns = 6'000, .bytes = 1, .category = Category::kStaging, .space = Space::kPinned}};
  const auto events = EventsOf(Write({{&timeline, {.title = "x"}}}), "C");
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].at("args"), (json{{"parameters", 10}}));
  EXPECT_EQ(events[1].at("ts"), 5.0);
  EXPECT_EQ(events[1].at("args"), (json{{"parameters", 10}, {"activations", 4}, {"gradients", 2}}));
  EXPECT_EQ(events[2].at("name"), "pinned memory");
  EXPECT_EQ(events[2].at("args"), (json{{"staging", 1}}));
}

TEST(ChromeTrace, EscapesAnyName) {
  const std::vector<std::pair<std::string, std::string>> names = {
      {"plain", "plain"},
      {"\"quoted\" \\ back", "\"quoted\" \\ back"},
      {"line\nend\ttab\x1b[2J\x7f", "line\nend\ttab\x1b[2J\x7f"},
      {std::string("nul\0in", 6), std::string("nul\0in", 6)},
      {"\xc3\xa9 \xe2\x80\xae \xf0\x9f\x9a\x80", "\xc3\xa9 \xe2\x80\xae \xf0\x9f\x9a\x80"},
      {"\xff", "\xef\xbf\xbd"},
      {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},                  // overlong
      {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},  // a surrogate
      {"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"},                  // cut off
      {"</script>\xe2\x80\xa8", "</script>\xe2\x80\xa8"},
      {std::string(200'000, '"'), std::string(200'000, '"')},
  };
  for (const auto& [name, shown] : names) {
    Timeline timeline;
    timeline.spans = {SpanOf(Queue::kCompute, OpClass::kGemm, 0, 1, /*op=*/4)};
    timeline.op_names = {{4, name}};
    const std::string text = Write({{&timeline, {.title = name}}});
    EXPECT_EQ(EventsOf(text, "X").at(0).at("name"), shown);
    EXPECT_EQ(EventsOf(text, "M").at(0).at("args").at("name"), shown + " rank 0");
  }
}

TEST(ChromeTrace, WritesInPiecesAndPassesOnWhatTheSinkSays) {
  std::mt19937_64 random(73);
  const Timeline timeline = RandomTimeline(random, 1, 20'000);
  std::size_t max = 0;
  int pieces = 0;
  ChromeTraceWriter writer([&](std::string_view text) -> Result<void> {
    max = std::max(max, text.size());
    if (++pieces == 5) return Fail(ErrorCode::kResourceExhausted, "full");
    return {};
  });
  ASSERT_TRUE(writer.Begin().has_value());
  const auto result = writer.AddRun(timeline, {.title = "x"});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().message, "full");
  EXPECT_EQ(pieces, 5);
  EXPECT_LT(max, 66'000U);
}

StoredRun RunOf(Timeline timeline, RunId id, RunKind kind, const std::string& label = "") {
  StoredRun run;
  run.info = {.id = id, .kind = kind, .label = label};
  run.timeline = std::move(timeline);
  return run;
}

TEST(WriteChromeTrace, NamesRunsByKindNumberAndLabel) {
  std::mt19937_64 random(79);
  const Timeline timeline = RandomTimeline(random, 2, 100);
  const StoredRun predicted = RunOf(timeline, 1, RunKind::kPredicted);
  const StoredRun measured = RunOf(timeline, 2, RunKind::kMeasured, "8b");
  FaultFileSystem files;
  const std::vector<StoredChromeRun> runs = {{.run = &predicted}, {.run = &measured}};
  FT_ASSERT_OK(WriteChromeTrace(runs, files, "trace.json"));
  const std::string text = files.Get("trace.json");
  EXPECT_THAT(text, HasSubstr("\"predicted 1 rank 0\""));
  EXPECT_THAT(text, HasSubstr("\"measured 2 (8b) rank 1\""));
  EXPECT_EQ(EventsOf(text, "X").size(), 2 * (200 + timeline.steps.size()));
}

TEST(WriteChromeTrace, KeepsTheFileThatAFailedOneWouldHaveReplaced) {
  std::mt19937_64 random(80);
  const StoredRun run = RunOf(RandomTimeline(random, 1, 100), 1, RunKind::kMeasured);
  FaultFileSystem files;
  const std::vector<StoredChromeRun> runs = {{.run = &run}};
  FT_ASSERT_OK(WriteChromeTrace(runs, files, "trace.json"));
  const std::size_t calls = files.calls().size();
  files.Put("trace.json", "the one before");
  // The last call syncs the folder: then the new file is in place.
  for (std::size_t n = 0; n + 1 < calls; ++n) {
    files.FailAt(static_cast<std::int64_t>(n), /*sticky=*/true);
    EXPECT_FALSE(WriteChromeTrace(runs, files, "trace.json").has_value()) << n;
    EXPECT_EQ(files.Get("trace.json"), "the one before") << n;
    files.FailNever();
  }
}

// The ends of each flow, by its id: what is written of "s" and of "f".
std::map<int, std::pair<json, json>> FlowsOf(const std::string& text, const std::string& name) {
  std::map<int, std::pair<json, json>> flows;
  for (const json& event : EventsOf(text, "s")) {
    if (event.at("name") == name) flows[event.at("id")].first = event;
  }
  for (const json& event : EventsOf(text, "f")) {
    if (event.at("name") == name) flows.at(event.at("id")).second = event;
  }
  return flows;
}

// The measured op starts 5 us before the shifted forecast, so the flow begins in it.
TEST(ChromeTrace, JoinsOpsOfThePairedSteps) {
  const OpId a = PackId({.pass = Pass::kForward, .block = 1}, 0);
  const OpId b = PackId({.pass = Pass::kForward, .block = 1}, 1);
  Timeline predicted, measured;
  predicted.spans = {SpanOf(Queue::kCompute, OpClass::kGemm, 0, 10'000, a, 0, 1),
                     SpanOf(Queue::kCompute, OpClass::kGemm, 10'000, 20'000, b, 0, 1)};
  measured.spans = {SpanOf(Queue::kCompute, OpClass::kGemm, 50'000, 55'000, a, 0, 6),
                    SpanOf(Queue::kCompute, OpClass::kGemm, 95'000, 130'000, a, 0, 7),
                    SpanOf(Queue::kCompute, OpClass::kGemm, 130'000, 140'000, kNoOp, 0, 7)};
  const std::string text = Write(
      {{&predicted, {.title = "predicted 1", .shift_ns = 100'000, .flows = {.paired_step = 1}}},
       {&measured, {.title = "measured 2", .flows = {.paired_step = 7}}}});
  const auto flows = FlowsOf(text, "counterpart");
  ASSERT_EQ(flows.size(), 1U);
  const auto& [from, to] = flows.begin()->second;
  EXPECT_EQ(from.at("pid"), 2);
  EXPECT_EQ(from.at("ts"), 95.0);
  EXPECT_EQ(to.at("pid"), 1);
  EXPECT_EQ(to.at("ts"), 100.0);
  EXPECT_EQ(to.at("bp"), "e");
  // The forecast's slices are moved too.
  EXPECT_EQ(EventsOf(text, "X").at(0).at("ts"), 100.0);
}

// Kernels of a trace are joined by the ids of their counterparts.
TEST(ChromeTrace, JoinsKernelsByTheirCounterparts) {
  const OpId a = PackId({.pass = Pass::kForward, .block = 1}, 0);
  Timeline predicted, traced;
  predicted.spans = {SpanOf(Queue::kCompute, OpClass::kGemm, 0, 10, a)};
  traced.spans = {SpanOf(Queue::kCompute, OpClass::kGemm, 0, 10, 4),
                  SpanOf(Queue::kCompute, OpClass::kGemm, 10, 20, 8)};
  const std::vector<OpId> counterparts = {kNoOp, a};
  const std::string text =
      Write({{&predicted, {.title = "predicted 1", .flows = {.paired_step = 0}}},
             {&traced,
              {.title = "imported 2", .flows = {.paired_step = 0, .counterparts = counterparts}}}});
  const auto flows = FlowsOf(text, "counterpart");
  ASSERT_EQ(flows.size(), 1U);
  EXPECT_EQ(flows.begin()->second.second.at("ts"), 0.010);
}

// Two pipelines with the same sends: each receive is joined to the send of its own pipeline.
TEST(ChromeTrace, JoinsSendsAndReceivesOfAPipeline) {
  InstructionKey send{.kind = InstructionKind::kSend, .pass = Pass::kForward, .block = 3};
  InstructionKey receive = send;
  receive.kind = InstructionKind::kRecv;
  Timeline timeline;
  for (int rank = 0; rank < 4; ++rank) {
    const bool sends = rank < 2;
    timeline.spans.push_back(SpanOf(sends ? Queue::kSendNext : Queue::kRecvPrev, OpClass::kPpComm,
                                    std::int64_t{1'000} * rank, 9'000,
                                    PackId(sends ? send : receive, 0), rank));
  }
  CommunicationGroups groups;
  groups.of.fill({0, 1, 0, 1});
  const std::string text =
      Write({{&timeline, {.title = "measured 1", .flows = {.groups = &groups}}}});
  const auto flows = FlowsOf(text, "transfer");
  ASSERT_EQ(flows.size(), 2U);
  std::set<std::pair<int, int>> processes;
  for (const auto& [id, flow] : flows) {
    processes.emplace(flow.first.at("pid"), flow.second.at("pid"));
  }
  EXPECT_THAT(processes, testing::ElementsAre(std::pair(1, 3), std::pair(2, 4)));
}

// Three overlapping spans of a queue stand on two threads, where no slice crosses another.
TEST(ChromeTrace, PutsOverlappingSpansOnFurtherThreads) {
  Timeline timeline;
  timeline.spans = {SpanOf(Queue::kCompute, OpClass::kGemm, 0, 10),
                    SpanOf(Queue::kCompute, OpClass::kGemm, 5, 15),
                    SpanOf(Queue::kCompute, OpClass::kGemm, 10, 20)};
  const std::string text = Write({{&timeline, {.title = "imported 1"}}});
  const auto events = EventsOf(text, "X");
  EXPECT_EQ(events.at(0).at("tid"), events.at(2).at("tid"));
  EXPECT_NE(events.at(0).at("tid"), events.at(1).at("tid"));
  EXPECT_THAT(text, HasSubstr("\"name\":\"compute 2\""));
}

// A counter of a step stands at the step's end, one with a time at its time; a number that JSON
// cannot have is left out.
TEST(ChromeTrace, WritesTheCountersOfARun) {
  Timeline timeline;
  timeline.spans = {SpanOf(Queue::kCompute, OpClass::kGemm, 0, 10'000)};
  timeline.steps = {{0, 20'000, 4, 0}};
  const std::vector<Counter> counters = {
      {"loss", -1, 4, 0, 2.5},
      {"gpu_power_w", 0, -1, 7'000, 300},
      {"loss", -1, 5, 0, 9},
      {"gradient_norm", -1, 4, 0, std::numeric_limits<double>::infinity()}};
  const std::string text = Write({{&timeline, {.title = "measured 1", .counters = counters}}});
  const auto events = EventsOf(text, "C");
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].at("name"), "loss");
  EXPECT_EQ(events[0].at("ts"), 20.0);
  EXPECT_EQ(events[0].at("args").at("value"), 2.5);
  EXPECT_EQ(events[1].at("ts"), 7.0);
}

}  // namespace
}  // namespace foretrain
