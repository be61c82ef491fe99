// Memory snapshots of PyTorch. The pickles in tests/fuzz/seeds/trace were written by Python's own
// pickle module.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <tuple>

#include "base/pickle/pickle.h"
#include "tests/paths.h"
#include "tests/traces/import/trace_text.h"
#include "tests/traces/timelines.h"
#include "traces/export/memory/allocations.h"
#include "traces/export/memory/memory_snapshot.h"
#include "traces/export/memory/pickle_writer.h"
#include "traces/held_memory.h"
#include "traces/metrics/memory.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Seed(const std::string& name) {
  PosixFileSystem files;
  const auto text = ReadFile(files, SourcePath("tests/fuzz/seeds/trace/" + name), 1 << 20);
  EXPECT_TRUE(text.has_value()) << name;
  return text.value_or("");
}

Result<std::vector<TraceRun>> Read(const std::string& bytes) {
  FaultFileSystem files;
  files.Put("memory.pickle", bytes);
  const std::vector<std::string> paths{"memory.pickle"};
  return ReadTraces(files, paths);
}

std::string ErrorOf(const std::string& bytes) {
  const auto runs = Read(bytes);
  return runs.has_value() ? "" : runs.error().message;
}

auto Fields(const MemorySample& sample) {
  return std::tuple(sample.time_ns, sample.category, sample.bytes);
}

class Snapshots : public testing::TestWithParam<const char*> {};

// 4,096 bytes of parameters and 700 without a stack are live from the start: no event allocates
// them. 1,000 of activations live from 10 to 30 us, 3,000 of gradients from 20 to 50, 5,000 of the
// optimizer from 40 us on; the 700 are freed at 60. The peak is 4,096 + 700 + 3,000 + 5,000.
TEST_P(Snapshots, GiveMemoryByPurposeAndWhatHoldsItAtThePeak) {
  const auto runs = Read(Seed(GetParam()));
  ASSERT_TRUE(runs.has_value()) << runs.error().message;
  ASSERT_EQ(runs->size(), 1U);
  const TraceRun& run = runs->front();
  std::vector<std::tuple<std::int64_t, Category, std::int64_t>> samples;
  for (const MemorySample& sample : run.timeline.memory) samples.push_back(Fields(sample));
  EXPECT_THAT(samples, ElementsAre(std::tuple(10'000, Category::kParameters, 4096),
                                   std::tuple(10'000, Category::kWorkspace, 700),
                                   std::tuple(10'000, Category::kActivations, 1000),
                                   std::tuple(20'000, Category::kGradients, 3000),
                                   std::tuple(30'000, Category::kActivations, 0),
                                   std::tuple(40'000, Category::kOptimizerState, 5000),
                                   std::tuple(50'000, Category::kGradients, 0),
                                   std::tuple(60'000, Category::kWorkspace, 0)));
  ASSERT_EQ(run.timeline.steps.size(), 2U);
  EXPECT_EQ(run.timeline.steps[0].step, 3);
  EXPECT_EQ(run.timeline.steps[0].end_ns, 35'000);
  EXPECT_EQ(run.timeline.steps[1].step, 4);
  EXPECT_EQ(MemoryPeaks(run.timeline).front().bytes, 12'796);
  const auto held = HeldFromJson(run.attachments.at(std::string(kHeldAttachment)), "held");
  ASSERT_TRUE(held.has_value()) << held.error().message;
  EXPECT_THAT(*held,
              ElementsAre(HeldOfRank{0,
                                     {{"train.py:91 main", Category::kOptimizerState, 5000, 1},
                                      {"train.py:75 main", Category::kParameters, 4096, 1},
                                      {"train.py:90 main", Category::kGradients, 3000, 1},
                                      {"", Category::kWorkspace, 700, 1}}}));
}

INSTANTIATE_TEST_SUITE_P(Protocols, Snapshots,
                         testing::Values("snapshot_protocol2.pickle", "snapshot_protocol4.pickle",
                                         "snapshot_protocol5.pickle"),
                         [](const auto& of) { return std::string(of.param).substr(9, 9); });

TEST(Snapshot, WithoutTimesKeepsTheOrder) {
  const auto runs = Read(Seed("snapshot_without_times.pickle"));
  ASSERT_TRUE(runs.has_value()) << runs.error().message;
  const Timeline& timeline = runs->front().timeline;
  EXPECT_EQ(timeline.world, 2);  // it is device 1
  ASSERT_EQ(timeline.memory.size(), 3U);
  EXPECT_EQ(Fields(timeline.memory[0]), std::tuple(0, Category::kWorkspace, 512));
  EXPECT_EQ(Fields(timeline.memory[1]), std::tuple(0, Category::kWorkspace, 512 + 2048));
  EXPECT_EQ(Fields(timeline.memory[2]), std::tuple(1'000, Category::kWorkspace, 512));
  EXPECT_THAT(runs->front().notes, testing::Contains(HasSubstr("a microsecond apart")));
}

TEST(Snapshot, ThatWouldCallSomethingIsRefused) {
  EXPECT_THAT(ErrorOf(Seed("calls.pickle")),
              HasSubstr("operation STACK_GLOBAL makes a Python object, and could run code"));
  EXPECT_THAT(ErrorOf(Seed("calls_protocol2.pickle")), HasSubstr("byte 50: operation GLOBAL"));
}

TEST(Snapshot, ThatHoldsItselfIsNoAllocation) {
  EXPECT_THAT(ErrorOf(Seed("in_itself.pickle")), HasSubstr("without an allocation"));
}

TEST(Snapshot, OfAnotherDictSaysWhatIsMissing) {
  EXPECT_THAT(ErrorOf("\x80\x04}."), HasSubstr("without \"segments\" and \"device_traces\""));
  EXPECT_THAT(ErrorOf("\x80\x04]."), HasSubstr("no memory snapshot"));
}

// Each cut names the byte at which the file ends.
TEST(Snapshot, CutAnywhereIsRefused) {
  const std::string whole = Seed("snapshot_protocol4.pickle");
  for (std::size_t size = 2; size < whole.size(); ++size) {
    const auto runs = Read(whole.substr(0, size));
    ASSERT_FALSE(runs.has_value()) << size;
    EXPECT_EQ(runs.error().code, ErrorCode::kCorruptInput);
    EXPECT_THAT(runs.error().message,
                HasSubstr("byte " + std::to_string(size) + ": the pickle ends too early"));
  }
}

TEST(Snapshot, WithOneWrongByteNeverCrashes) {
  const std::string whole = Seed("snapshot_protocol4.pickle");
  std::mt19937 random(1);
  int read = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = whole;
    damaged[2 + random() % (damaged.size() - 2)] = static_cast<char>(random());
    const auto runs = Read(damaged);
    if (runs.has_value()) {
      ++read;
    } else {
      EXPECT_FALSE(runs.error().message.empty());
    }
  }
  EXPECT_GT(read, 0);
}

TEST(PickleWriter, FindsTheLastMembersOfADictOfManyBatches) {
  std::string bytes;
  PickleWriter writer([&bytes](std::string_view more) {
    bytes += more;
    return Result<void>();
  });
  writer.BeginDict();
  for (int i = 0; i < 3000; ++i) writer.Field("key " + std::to_string(i), i);
  ASSERT_TRUE(writer.EndDict().Finish().has_value());
  const auto tree = ReadPickle(bytes, "x");
  ASSERT_TRUE(tree.has_value()) << tree.error().message;
  EXPECT_EQ(tree->Integer(tree->Find(tree->root(), "key 2999")), 2999);
  EXPECT_EQ(tree->Find(tree->root(), "key 0"), PickleTree::kNoValue) << "too far from the end";
}

// More items than a batch holds, numbers of each width, and a list that is recalled where batches
// end.
TEST(PickleWriter, WrittenHereKeepsNumbersAndSharedLists) {
  std::string bytes;
  PickleWriter writer([&bytes](std::string_view more) {
    bytes += more;
    return Result<void>();
  });
  writer.BeginDict().Name("numbers").BeginList();
  std::vector<std::int64_t> numbers;
  for (int i = 0; i < 5000; ++i) {
    numbers.push_back((i % 2 == 0 ? 1 : -1) * (std::int64_t{1} << (i % 62)) + i);
    writer.Integer(numbers.back());
  }
  writer.EndList().Name("lists").BeginList();
  writer.BeginList().Text("same").Text(std::string(300, 'x')).EndList();
  const std::uint32_t remembered = writer.Remember();
  for (int i = 0; i < 4500; ++i) writer.Recall(remembered);
  ASSERT_TRUE(writer.EndList().EndDict().Finish().has_value());
  const auto tree = ReadPickle(bytes, "x");
  ASSERT_TRUE(tree.has_value()) << tree.error().message;
  const auto items = tree->Items(tree->Find(tree->root(), "numbers"));
  ASSERT_EQ(items.size(), numbers.size());
  for (std::size_t i = 0; i < items.size(); ++i) EXPECT_EQ(tree->Integer(items[i]), numbers[i]);
  const auto lists = tree->Items(tree->Find(tree->root(), "lists"));
  ASSERT_EQ(lists.size(), 4501U);
  for (const PickleIndex list : lists) {
    ASSERT_EQ(tree->Items(list).size(), 2U);
    EXPECT_EQ(tree->Text(tree->Items(list)[0]), "same");
  }
}

// Rises of 100, 200 and 100 and falls of 200 and 150. The second 100 and half of the first are
// freed by the last one.
TEST(Allocations, FreeThoseOfTheirSizeElseTheNewest) {
  Timeline timeline;
  timeline.world = 1;
  const OpId op = PackId({.pass = Pass::kForward, .block = 2, .micro_batch = 1}, 0);
  timeline.spans = {SpanOf(Queue::kCompute, OpClass::kGemm, 0, 50, op)};
  std::int64_t time_ns = 0;
  for (const std::int64_t bytes : {100, 300, 400, 200, 50}) {
    timeline.memory.push_back({.time_ns = time_ns += 10, .bytes = bytes});
  }
  const Allocations made = AllocationsOf(timeline, 0);
  std::vector<std::tuple<bool, std::int64_t, std::int64_t>> events;
  for (const AllocationEvent& event : made.events) {
    EXPECT_EQ(event.op, op);
    events.emplace_back(event.is_free, event.address, event.bytes);
  }
  EXPECT_THAT(events, ElementsAre(std::tuple(false, 0, 100), std::tuple(false, 512, 200),
                                  std::tuple(false, 1024, 100), std::tuple(true, 512, 200),
                                  std::tuple(true, 1024, 100), std::tuple(true, 0, 100),
                                  std::tuple(false, 0, 50)));
  ASSERT_EQ(made.live.size(), 1U);
  EXPECT_EQ(made.live[0].bytes, 50);
  EXPECT_EQ(made.segment_bytes, 2 << 20);
}

// Live allocations never overlap and have the sum that the samples say.
TEST(Allocations, OfARandomRunNeverOverlap) {
  std::mt19937_64 random(11);
  const Timeline timeline = RandomTimeline(random, 2, 2'000);
  const Allocations made = AllocationsOf(timeline, 1);
  std::map<std::int64_t, std::int64_t> live;  // bytes by address
  std::array<std::int64_t, kCategoryCount> bytes{};
  for (const AllocationEvent& event : made.events) {
    if (event.is_free) {
      ASSERT_EQ(live.at(event.address), event.bytes);
      live.erase(event.address);
      bytes[static_cast<std::size_t>(event.category)] -= event.bytes;
      continue;
    }
    const auto [at, is_new] = live.try_emplace(event.address, event.bytes);
    ASSERT_TRUE(is_new);
    if (std::next(at) != live.end()) {
      ASSERT_LE(event.address + event.bytes, std::next(at)->first);
    }
    if (at != live.begin()) {
      ASSERT_LE(std::prev(at)->first + std::prev(at)->second, event.address);
    }
    EXPECT_LE(event.address + event.bytes, made.segment_bytes);
    bytes[static_cast<std::size_t>(event.category)] += event.bytes;
  }
  std::array<std::int64_t, kCategoryCount> last{};
  for (const MemorySample& sample : timeline.memory) {
    if (sample.rank == 1 && sample.space == Space::kDevice) {
      last[static_cast<std::size_t>(sample.category)] = sample.bytes;
    }
  }
  EXPECT_EQ(bytes, last);
}

// Samples of whole microseconds come back with their categories.
TEST(Snapshot, WrittenHereGivesBackTheMemory) {
  Timeline timeline;
  timeline.world = 2;
  std::mt19937_64 random(4);
  for (std::int16_t rank = 0; rank < 2; ++rank) {
    timeline.steps.push_back({0, 400'000, 7, rank});
    for (int i = 0; i < 300; ++i) {
      timeline.memory.push_back({.time_ns = std::int64_t{1000} * (i + 1),
                                 .bytes = static_cast<std::int64_t>(random() % 100'000),
                                 .rank = rank,
                                 .category = static_cast<Category>(random() % kCategoryCount)});
    }
  }
  SortTimeline(timeline);
  FaultFileSystem files;
  const auto written = WriteMemorySnapshot(timeline, 0, files, "out.pickle");
  ASSERT_TRUE(written.has_value()) << written.error().message;
  const std::vector<std::string> paths{"out.pickle"};
  const auto runs = ReadTraces(files, paths);
  ASSERT_TRUE(runs.has_value()) << runs.error().message;
  const Timeline& again = runs->front().timeline;
  ASSERT_EQ(again.steps.size(), 2U);
  EXPECT_EQ(again.steps[1].step, 7);
  EXPECT_EQ(again.steps[1].end_ns, 400'000);
  for (std::int16_t rank = 0; rank < 2; ++rank) {
    // Bytes of each category after each microsecond.
    const auto levels = [rank](const Timeline& of) {
      std::map<std::int64_t, std::array<std::int64_t, kCategoryCount>> out;
      std::array<std::int64_t, kCategoryCount> now{};
      for (const MemorySample& sample : of.memory) {
        if (sample.rank != rank) continue;
        now[static_cast<std::size_t>(sample.category)] = sample.bytes;
        out[sample.time_ns] = now;
      }
      return out;
    };
    const auto before = levels(timeline), after = levels(again);
    for (const auto& [time_ns, bytes] : after) EXPECT_EQ(before.at(time_ns), bytes) << time_ns;
    EXPECT_GT(after.size(), 250U);
  }
}

TEST(Snapshot, OfARunWithoutMemoryIsNotWritten) {
  FaultFileSystem files;
  const auto written = WriteMemorySnapshot({}, 0, files, "out.pickle");
  ASSERT_FALSE(written.has_value());
  EXPECT_THAT(written.error().message, HasSubstr("no device memory"));
}

}  // namespace
}  // namespace foretrain
