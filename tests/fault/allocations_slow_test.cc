// Each allocation of reading inputs, compiling, searching, and of reading and recording a store
// fails in turn: the call returns an Error or throws std::bad_alloc, which `main` catches, and the
// next call gives what it gave before. So does each allocation of the store's own thread. Slow:
// every allocation is a run. Under AddressSanitizer it also finds what is leaked on the way out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/config/catalogue/catalogue.h"
#include "sim/config/model/model_json.h"
#include "sim/config/plan/plan_json.h"
#include "sim/cost/profile/derive_profile.h"
#include "sim/program/ir/program.h"
#include "sim/search/space/enumerate.h"
#include "tests/paths.h"
#include "tests/traces/temp_folder.h"
#include "traces/store.h"

namespace {

// Allocations of this thread until one fails; negative: none does.
thread_local std::int64_t allocations_left = -1;
thread_local bool allocation_failed = false;

// The same for all threads but those that are spared.
thread_local bool spared = false;
std::atomic<std::int64_t> elsewhere_left = -1;
std::atomic<bool> elsewhere_lasts = false;  // once one has failed, all do
std::atomic<bool> elsewhere_failed = false;

bool IsToFail() {
  if (!spared && elsewhere_left >= 0) {
    if (elsewhere_left > 0) {
      --elsewhere_left;
    } else {
      if (!elsewhere_lasts) elsewhere_left = -1;
      elsewhere_failed = true;
      return true;
    }
  }
  if (allocations_left < 0 || allocations_left-- > 0) return false;
  allocation_failed = true;
  return true;
}

}  // namespace

// Not inlined: the compiler would then compare malloc with operator delete.
__attribute__((noinline)) void* operator new(std::size_t bytes) {
  if (IsToFail()) throw std::bad_alloc();
  void* const memory = std::malloc(std::max<std::size_t>(bytes, 1));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace foretrain {
namespace {

// Every allocation up to here is failed, and later ones in growing steps.
constexpr std::int64_t kEach = 400;

// Fails the allocations of `work` in turn until one run has no more of them. `work` returns its
// result as text, or nothing after an Error.
void Sweep(const std::function<std::optional<std::string>()>& work) {
  const auto expected = work();
  ASSERT_TRUE(expected.has_value());
  std::int64_t points = 0;
  for (std::int64_t at = 0;; at += at < kEach ? 1 : at / 40) {
    std::optional<std::string> result;
    allocation_failed = false;
    allocations_left = at;
    try {
      result = work();
    } catch (const std::bad_alloc&) {
    }
    allocations_left = -1;
    if (!allocation_failed) {
      EXPECT_EQ(result, expected);
      break;
    }
    ++points;
    // A failure may be survived, but changes no result.
    if (result.has_value()) {
      ASSERT_EQ(*result, *expected) << "allocation " << at;
    }
    if (at % 16 == 0) {
      ASSERT_EQ(work(), expected) << "after allocation " << at;
    }
  }
  std::printf("%lld points\n", static_cast<long long>(points));
  EXPECT_GT(points, 10);
}

const Catalogue& Models() {
  static const Catalogue catalogue = BuiltInCatalogue().value();
  return catalogue;
}

Plan SmallPlan() {
  Plan plan;
  plan.dp = plan.pp = 2;
  plan.sequence = 64;
  plan.global_batch = 8;
  plan.micro_batch = 1;
  return plan;
}

ModelSpec SmallModel() {
  ModelSpec model = ResolveModel("gpt-10m", "test", Models()).value().model;
  model.layers = 4;
  return model;
}

TEST(FailingAllocations, OfAConfigAreErrors) {
  const std::string path = TestDataPath("configs/llama-3-8b.json");
  std::string text(64 << 10, '\0');
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  ASSERT_NE(file, nullptr) << path;
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  Sweep([&]() -> std::optional<std::string> {
    const auto resolved = ResolveModel(text, "config", Models());
    if (!resolved.has_value()) return std::nullopt;
    return ToJson(resolved->model);
  });
}

TEST(FailingAllocations, OfAPlanAreErrors) {
  const std::string text = ToJson(SmallPlan());
  Sweep([&]() -> std::optional<std::string> {
    const auto plan = PlanFromJson(text, "plan");
    if (!plan.has_value()) return std::nullopt;
    return ToJson(*plan);
  });
}

TEST(FailingAllocations, OfCompilingAreErrors) {
  const ModelSpec model = SmallModel();
  const Plan plan = SmallPlan();
  Sweep([&]() -> std::optional<std::string> {
    const auto program = Compile(model, plan);
    if (!program.has_value()) return std::nullopt;
    std::string text;
    for (const RankProgram& rank : program->ranks) text += std::to_string(rank.step.size()) + " ";
    return text;
  });
}

TEST(FailingAllocations, OfASearchAreErrors) {
  const ModelSpec model = SmallModel();
  const ClusterSpec cluster = ParseCluster("1x8xa100-80gb-sxm", Models()).value();
  const CostModel costs = CostModel::Make(cluster, DeriveProfile(cluster)).value();
  SearchSpace space;
  space.base = SmallPlan();
  for (const char* axis : {"dp", "tp", "pp"}) space.Choose(axis, {1, 2, 4});
  EnumerateOptions options;
  options.memory_bytes = cluster.device.memory_bytes;
  options.kept = 4;
  options.threads = 1;
  Sweep([&]() -> std::optional<std::string> {
    const auto found = EnumeratePlans(model, costs, space, cluster.Devices(), options);
    if (!found.has_value()) return std::nullopt;
    std::string text;
    for (const Candidate& one : found->fastest) text += Describe(one.plan) + "\n";
    return text;
  });
}

std::vector<Span> SomeSpans() {
  std::vector<Span> spans;
  for (int i = 0; i < 100; ++i) spans.push_back({.start_ns = 10 * i, .end_ns = 10 * i + 5});
  return spans;
}

// Records a run. False after an Error.
bool Record(const std::string& path) {
  auto store = Store::Open(path);
  if (!store.has_value()) return false;
  auto run = (*store)->BeginRun({.label = "short of memory"});
  if (!run.has_value()) return false;
  std::vector<Span> spans = SomeSpans();
  return (*run)->Add(spans).has_value() && (*run)->Flush().has_value() &&
         (*run)->Finish(RunStatus::kFinished).has_value() && (*store)->Close().has_value();
}

TEST(FailingAllocations, OfReadingAStoreAreErrors) {
  const TempFolder folder(/*in_memory=*/true);
  const std::string path = folder.File("s.db");
  ASSERT_TRUE(Record(path));
  Sweep([&]() -> std::optional<std::string> {
    const auto reader = StoreReader::Open(path);
    if (!reader.has_value()) return std::nullopt;
    const auto run = reader->LoadRun(1);
    if (!run.has_value()) return std::nullopt;
    return run->info.label + " " + std::to_string(run->timeline.spans.size());
  });
}

// A recording that fails leaves the runs before it, and the next one works.
TEST(FailingAllocations, OfRecordingAreErrors) {
  const TempFolder folder(/*in_memory=*/true);
  const std::string path = folder.File("s.db");
  ASSERT_TRUE(Record(path));
  Sweep([&]() -> std::optional<std::string> {
    if (!Record(path)) return std::nullopt;
    return "recorded";
  });
  const auto reader = StoreReader::Open(path);
  ASSERT_TRUE(reader.has_value()) << reader.error().message;
  const auto runs = reader->ListRuns();
  ASSERT_TRUE(runs.has_value()) << runs.error().message;
  for (const RunInfo& info : *runs) {
    const auto run = reader->LoadRun(info.id);
    ASSERT_TRUE(run.has_value()) << run.error().message;
    if (info.status == RunStatus::kFinished) {
      EXPECT_EQ(run->timeline.spans.size(), 100U);
    }
  }
}

// Fails the allocation number `at` of other threads, and with `lasts` all after it.
void FailElsewhere(std::int64_t at, bool lasts) {
  spared = true;
  elsewhere_failed = false;
  elsewhere_lasts = lasts;
  elsewhere_left = at;
}

// Ends that. True if an allocation has failed.
bool EndFailures() {
  elsewhere_left = -1;
  return elsewhere_failed;
}

// The store's thread keeps what it could not take or write, and writes it once there is memory.
TEST(FailingAllocations, OfTheWritingThreadLoseNoRow) {
  const TempFolder folder(/*in_memory=*/true);
  for (const bool lasts : {false, true}) {
    std::int64_t points = 0;
    for (std::int64_t at = 0;; ++at) {
      const std::string path = folder.File(std::to_string(at) + (lasts ? "lasting" : "once"));
      auto store = Store::Open(path);
      ASSERT_TRUE(store.has_value()) << store.error().message;
      auto run = (*store)->BeginRun({.label = "short of memory", .world = 2});
      ASSERT_TRUE(run.has_value()) << run.error().message;
      FailElsewhere(at, lasts);
      // Errors are told at each call; rows are taken all the same.
      std::vector<Span> spans = SomeSpans(), more = SomeSpans();
      for (Span& span : more) span.rank = 1;
      static_cast<void>((*run)->Add(spans).has_value());
      static_cast<void>((*run)->AddNote("a note").has_value());
      static_cast<void>((*run)->Flush().has_value());
      static_cast<void>((*run)->Add(more).has_value());
      static_cast<void>((*run)->Flush().has_value());
      const bool failed = EndFailures();
      const auto finished = (*run)->Finish(RunStatus::kFinished);
      ASSERT_TRUE(finished.has_value()) << finished.error().message;
      ASSERT_TRUE((*store)->Close().has_value());
      const auto stored = StoreReader::Open(path)->LoadRun(1);
      ASSERT_TRUE(stored.has_value()) << stored.error().message;
      EXPECT_EQ(stored->timeline.spans.size(), 200U) << "allocation " << at;
      EXPECT_EQ(stored->notes.size(), 1U) << "allocation " << at;
      EXPECT_EQ(stored->info.totals, RecordingTotals{}) << "allocation " << at;
      if (!failed) break;
      ++points;
    }
    std::printf("%lld points\n", static_cast<long long>(points));
    EXPECT_GT(points, 10);
  }
}

// A store that is closed while there is no memory ends its thread, whatever becomes of its rows.
TEST(FailingAllocations, OfTheWritingThreadLetAStoreBeClosed) {
  const TempFolder folder(/*in_memory=*/true);
  const std::string path = folder.File("s.db");
  ASSERT_TRUE(Record(path));
  auto store = Store::Open(path);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  auto run = (*store)->BeginRun({.label = "cut off"});
  ASSERT_TRUE(run.has_value()) << run.error().message;
  std::vector<Span> spans = SomeSpans();
  FailElsewhere(0, /*lasts=*/true);
  static_cast<void>((*run)->Add(spans).has_value());
  static_cast<void>((*store)->Close().has_value());
  EXPECT_TRUE(EndFailures());
  const auto runs = StoreReader::Open(path)->ListRuns();
  ASSERT_TRUE(runs.has_value()) << runs.error().message;
  EXPECT_EQ(runs->at(0).status, RunStatus::kFinished);
  EXPECT_EQ(runs->at(1).status, RunStatus::kInterrupted);
}

}  // namespace
}  // namespace foretrain
