// Execution traces of Chakra. The files in tests/fuzz/seeds/trace were written by Google's Python
// library for protocol buffers from Chakra's schema.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>

#include "tests/paths.h"
#include "tests/traces/import/trace_text.h"
#include "tests/traces/timelines.h"
#include "traces/chakra/wire.h"
#include "traces/export/execution_trace.h"

namespace foretrain {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

std::string Seed(const std::string& name) {
  PosixFileSystem files;
  const auto text = ReadFile(files, SourcePath("tests/fuzz/seeds/trace/" + name), 1 << 20);
  EXPECT_TRUE(text.has_value()) << name;
  return text.value_or("");
}

Result<std::vector<TraceRun>> Read(const std::string& bytes,
                                   const std::string& name = "graph.0.et") {
  FaultFileSystem files;
  files.Put(name, bytes);
  const std::vector<std::string> paths{name};
  return ReadTraces(files, paths);
}

// Queue, start and end in microseconds of each span, by the op's name.
std::map<std::string, std::tuple<Queue, std::int64_t, std::int64_t>> SpansOf(const TraceRun& run) {
  std::map<std::string, std::tuple<Queue, std::int64_t, std::int64_t>> spans;
  for (const Span& span : run.timeline.spans) {
    spans[run.timeline.op_names.at(NameKey(span.op))] = {span.queue, span.start_ns / 1000,
                                                         span.end_ns / 1000};
  }
  return spans;
}

// The host's op runs first, for 3 us. Two kernels wait for it: 10 and 20 us, one after the other;
// "c" waits for both. The reduce-scatter follows the first, the send follows "c". The copy has
// nothing to wait for. Two nodes wait for each other.
TEST(Chakra, SchedulesAGraphWithoutTimes) {
  const auto runs = Read(Seed("graph.0.et"));
  ASSERT_TRUE(runs.has_value()) << runs.error().message;
  const TraceRun& run = runs->front();
  EXPECT_THAT(SpansOf(run),
              UnorderedElementsAre(Pair("aten::linear", std::tuple(Queue::kHost, 0, 3)),
                                   Pair("load (HtoD)", std::tuple(Queue::kH2d, 0, 4)),
                                   Pair("gemm_a", std::tuple(Queue::kCompute, 3, 13)),
                                   Pair("gemm_b", std::tuple(Queue::kCompute, 13, 33)),
                                   Pair("grads", std::tuple(Queue::kReduce, 13, 21)),
                                   Pair("c", std::tuple(Queue::kCompute, 33, 38)),
                                   Pair("to next", std::tuple(Queue::kSendNext, 38, 40))));
  EXPECT_THAT(run.notes, Contains(HasSubstr("its nodes were scheduled by their dependencies")));
  EXPECT_THAT(run.notes, Contains(HasSubstr("2 nodes depend on each other in a circle")));
  EXPECT_EQ(run.totals.invalid, 2);
}

// The file's name says nothing, and the graph has control dependencies alone.
TEST(Chakra, IsKnownByItsFirstBytesAndFollowsControlIfThereIsNoData) {
  const auto runs = Read(Seed("attributes.et"), "trace");
  ASSERT_TRUE(runs.has_value()) << runs.error().message;
  EXPECT_THAT(SpansOf(runs->front()),
              UnorderedElementsAre(Pair("a", std::tuple(Queue::kCompute, 0, 10)),
                                   Pair("b", std::tuple(Queue::kGather, 10, 15))));
}

TEST(Chakra, KeepsTimesRankAndGroups) {
  const auto runs = Read(Seed("timed.2.et"), "timed.2.et");
  ASSERT_TRUE(runs.has_value()) << runs.error().message;
  const TraceRun& run = runs->front();
  EXPECT_EQ(run.timeline.world, 3);
  EXPECT_THAT(SpansOf(run),
              UnorderedElementsAre(Pair("gemm_a", std::tuple(Queue::kCompute, 0, 10)),
                                   Pair("ncclKernel", std::tuple(Queue::kReduce, 12, 17))));
  EXPECT_EQ(run.timeline.spans.back().bytes, 1000);  // a sint64
  ASSERT_EQ(run.communication.groups.size(), 1U);
  EXPECT_THAT(run.communication.groups[0].ranks, ElementsAre(0, 2));
}

TEST(Chakra, ThatIsCutKeepsWhatIsWhole) {
  const std::string whole = Seed("graph.0.et");
  const auto runs = Read(whole.substr(0, whole.size() - 3));
  ASSERT_TRUE(runs.has_value()) << runs.error().message;
  EXPECT_EQ(runs->front().timeline.spans.size(), 8U);  // "circle 1" waits for nothing now
  EXPECT_THAT(runs->front().notes,
              Contains(HasSubstr("ends too early, at byte " + std::to_string(whole.size() - 3))));
}

TEST(Chakra, WithoutANodeIsRefused) {
  const auto runs = Read(Seed("empty.1.et"));
  ASSERT_FALSE(runs.has_value());
  EXPECT_THAT(runs.error().message, HasSubstr("a trace of 0 events"));
}

TEST(Chakra, NamesTheByteOfADamagedNode) {
  std::string text = Seed("empty.1.et");
  const auto error = [&](const std::string& more) {
    const auto runs = Read(text + more);
    return runs.has_value() ? "" : runs.error().message;
  };
  EXPECT_THAT(error({"\x02\x0b\x00", 3}),
              HasSubstr("byte 8: has a node with field 1 of the unknown wire type 3"));
  EXPECT_THAT(error("\x02\x12\x05"), HasSubstr("field 2 of 5 bytes, of which 0 are there"));
  EXPECT_THAT(error("\x02\x08\xff"), HasSubstr("a number that is cut off"));
  EXPECT_THAT(error("\xff\xff\xff\xff\x7f"), HasSubstr("a message of 34359738367 bytes"));
  EXPECT_THAT(error({"\x01\x00", 2}), HasSubstr("a field without a number"));
}

TEST(Chakra, WithOneWrongByteNeverCrashes) {
  std::mt19937 random(1);
  for (const char* name : {"graph.0.et", "timed.2.et"}) {
    const std::string whole = Seed(name);
    int read = 0;
    for (int i = 0; i < 1000; ++i) {
      std::string damaged = whole;
      damaged[random() % damaged.size()] = static_cast<char>(random());
      const auto runs = Read(damaged);
      if (runs.has_value()) {
        ++read;
      } else {
        EXPECT_FALSE(runs.error().message.empty());
      }
    }
    EXPECT_GT(read, 100);
  }
}

TEST(Wire, ReadsWhatItWrites) {
  WireWriter inner, message;
  inner.Text(1, "name").Varint(9, 1ULL << 63);
  message.Varint(1, 0).Varint(3, 300).Message(10, inner).Varints(5, {1, 128, 1 << 20});
  EXPECT_EQ(message.bytes().substr(0, 5), std::string("\x08\x00\x18\xac\x02", 5));
  WireReader reader(message.bytes());
  std::vector<std::pair<int, std::uint64_t>> numbers;
  std::vector<std::string> texts;
  while (true) {
    const auto field = reader.Next();
    ASSERT_TRUE(field.has_value()) << field.error().message;
    if (!*field) break;
    if ((*field)->type == WireType::kBytes) {
      texts.emplace_back((*field)->bytes);
    } else {
      numbers.emplace_back((*field)->number, (*field)->value);
    }
  }
  EXPECT_THAT(numbers, ElementsAre(Pair(1, 0U), Pair(3, 300U)));
  EXPECT_THAT(texts, ElementsAre(inner.bytes(), std::string("\x01\x80\x01\x80\x80\x40", 6)));
}

TEST(Wire, RefusesVarintsWithoutEnd) {
  std::string_view endless("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  EXPECT_FALSE(TakeVarint(endless).has_value());
  std::string_view cut("\x80");
  EXPECT_FALSE(TakeVarint(cut).has_value());
}

TEST(ExecutionTrace, NamesTheCollectiveOfAWord) {
  using chakra::Collective;
  EXPECT_EQ(CollectiveNamed("reduce_scatter"), Collective::kReduceScatter);
  EXPECT_EQ(CollectiveNamed("tp.AllReduce"), Collective::kAllReduce);
  EXPECT_EQ(CollectiveNamed("all_to_all_v"), Collective::kAllToAll);
  EXPECT_EQ(CollectiveNamed("gather"), Collective::kGather);
  EXPECT_EQ(CollectiveNamed("rotate"), Collective::kAllReduce);
}

// Two kernels in a row on one queue and a collective beside the second, which the first one fed.
TEST(ExecutionTrace, OfATimelineFollowsQueuesAndTimes) {
  Timeline timeline;
  timeline.world = 1;
  timeline.spans = {SpanOf(Queue::kCompute, OpClass::kGemm, 0, 1'000),
                    SpanOf(Queue::kCompute, OpClass::kGemm, 1'000, 3'000),
                    SpanOf(Queue::kReduce, OpClass::kDpComm, 1'500, 4'000),
                    SpanOf(Queue::kCompute, OpClass::kGemm, 4'200, 5'000)};
  SortTimeline(timeline);
  const ExecutionTrace trace = ExecutionTraceOf(timeline, 0, 0);
  ASSERT_EQ(trace.nodes.size(), 4U);
  EXPECT_THAT(trace.nodes[1].control_dependencies, ElementsAre(0));
  EXPECT_EQ(trace.nodes[2].type, chakra::NodeType::kCollective);
  EXPECT_THAT(trace.nodes[2].data_dependencies, ElementsAre(0));
  EXPECT_THAT(trace.nodes[3].control_dependencies, ElementsAre(1));
  EXPECT_THAT(trace.nodes[3].data_dependencies, ElementsAre(2));
}

// Kinds, classes, groups and times to the nanosecond come back.
TEST(ExecutionTrace, WrittenHereIsImportedAgain) {
  ExecutionTrace trace{.rank = 1, .groups = {{4, {0, 1}}}};
  trace.nodes = {
      {.name = "mlp.up", .op_class = OpClass::kGemm, .start_ns = 0, .duration_ns = 1'234},
      {.name = "attention",
       .op_class = OpClass::kAttention,
       .start_ns = 1'234,
       .duration_ns = 777,
       .control_dependencies = {0}},
      {.name = "sum",
       .type = chakra::NodeType::kCollective,
       .op_class = OpClass::kTpComm,
       .start_ns = 2'011,
       .duration_ns = 500,
       .bytes = 4096,
       .collective = chakra::Collective::kAllReduce,
       .group = 4,
       .data_dependencies = {1}},
      {.name = "send",
       .type = chakra::NodeType::kSend,
       .op_class = OpClass::kPpComm,
       .start_ns = 2'511,
       .duration_ns = 100,
       .bytes = 64,
       .peer = 0,
       .tag = 7,
       .data_dependencies = {2}}};
  const auto runs = Read(EncodeExecutionTrace(trace), "rank.1.et");
  ASSERT_TRUE(runs.has_value()) << runs.error().message;
  ASSERT_FALSE(runs->front().communication.groups.empty());
  EXPECT_THAT(runs->front().communication.groups[0].ranks, ElementsAre(0, 1));
  const Timeline& timeline = runs->front().timeline;
  ASSERT_EQ(timeline.spans.size(), 4U);
  std::map<std::int64_t, OpClass> classes;
  for (const Span& span : timeline.spans) {
    EXPECT_EQ(span.rank, 1);
    classes[span.start_ns] = span.op_class;
  }
  EXPECT_THAT(classes, ElementsAre(Pair(0, OpClass::kGemm), Pair(1'234, OpClass::kAttention),
                                   Pair(2'011, OpClass::kTpComm), Pair(2'511, OpClass::kPpComm)));
}

// A hundred groups make a first message whose length has two bytes.
TEST(ExecutionTrace, OfManyGroupsIsKnownByItsFirstBytes) {
  ExecutionTrace trace;
  for (int group = 0; group < 100; ++group) trace.groups[group] = {0, group + 1};
  trace.nodes = {{.name = "a", .duration_ns = 10}};
  EXPECT_TRUE(Read(EncodeExecutionTrace(trace), "trace").has_value());
}

TEST(ExecutionTraceFolder, WritesTheMembersOfAllGroups) {
  FaultFileSystem files;
  ExecutionTraceFolder folder(files, "out");
  ASSERT_TRUE(folder.Add({.rank = 0, .groups = {{0, {0, 1}}}}).has_value());
  ASSERT_TRUE(folder.Add({.rank = 1, .groups = {{0, {0, 1}}, {2, {1, 3}}}}).has_value());
  ASSERT_TRUE(folder.Finish().has_value());
  EXPECT_EQ(ReadFile(files, "out/comm_groups.json", 1000).value_or(""),
            "{\"1\":[0,1],\"3\":[1,3]}\n");
}

}  // namespace
}  // namespace foretrain
