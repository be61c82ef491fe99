// Stores that were damaged at random: each shows its runs as they were stored, or says in a
// sentence why not. FORETRAIN_DAMAGED_STORES sets their number.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "tests/traces/stores.h"
#include "tests/traces/timelines.h"
#include "traces/store.h"

namespace foretrain {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::size_t kPageBytes = 8192;

int Stores() {
  const char* const asked = std::getenv("FORETRAIN_DAMAGED_STORES");
  return asked != nullptr ? std::atoi(asked) : 100;
}

// Two runs with rows in every table.
void StoreRuns(const std::string& path) {
  std::mt19937_64 random(61);
  for (const char* label : {"first", "second"}) {
    auto store = Store::Open(path);
    ASSERT_TRUE(store.has_value()) << store.error().message;
    auto run = (*store)->BeginRun({.label = label, .world = 2, .specs = {.program_hash = 5}});
    ASSERT_TRUE(run.has_value()) << run.error().message;
    std::vector<Counter> counters;
    std::vector<MetricValue> metrics;
    for (std::int32_t step = 0; step < 200; ++step) {
      counters.push_back({"loss", -1, step, 10 * step, 1.0 / (step + 1)});
      metrics.push_back({.step = step, .name = "step_time_s", .value = 0.1 * step});
    }
    FT_ASSERT_OK((*run)->AddTimeline(RandomTimeline(random, 2, 300)));
    FT_ASSERT_OK((*run)->AddCounters(counters));
    FT_ASSERT_OK((*run)->AddMetrics(metrics));
    FT_ASSERT_OK((*run)->AddClock({1, 100, 200, 5}));
    FT_ASSERT_OK((*run)->AddNote("a note"));
    FT_ASSERT_OK((*run)->Attach("text", std::string(20'000, 'x')));
    FT_ASSERT_OK((*run)->Finish(RunStatus::kFinished));
  }
}

// One of: flipped bits, random bytes, a page of zeros, a page over another, a cut, bytes put in.
std::string DamagedBytes(std::string bytes, std::mt19937_64& random) {
  const std::size_t at = random() % bytes.size();
  const std::size_t page = at / kPageBytes * kPageBytes;
  switch (random() % 6) {
    case 0:
      for (std::uint64_t left = 1 + random() % 4; left > 0; --left) {
        char& byte = bytes[random() % bytes.size()];
        byte = static_cast<char>(byte ^ (1 << random() % 8));
      }
      break;
    case 1:
      for (std::size_t i = at; i < std::min(bytes.size(), at + 64); ++i) {
        bytes[i] = static_cast<char>(random());
      }
      break;
    case 2:
      bytes.replace(page, kPageBytes, kPageBytes, '\0');
      break;
    case 3:
      bytes.replace(page, kPageBytes,
                    bytes.substr(random() % (bytes.size() / kPageBytes) * kPageBytes, kPageBytes));
      break;
    case 4:
      bytes.resize(at);
      break;
    default:
      bytes.insert(at, 1 + random() % 100, static_cast<char>(random()));
  }
  return bytes;
}

// Expects one sentence without control bytes that names the file.
void ExpectSentence(const Error& error, const std::string& path, int store) {
  EXPECT_THAT(error.message, HasSubstr(path)) << "store " << store;
  EXPECT_THAT(error.message, Not(testing::ContainsRegex("[\x01-\x1f]"))) << "store " << store;
}

// Expects the stored rows of `run`, apart from its label and the texts of its specs, which have no
// checksum.
void ExpectSameRows(const StoredRun& run, const StoredRun& good, int store) {
  EXPECT_TRUE(SameTimeline(run.timeline, good.timeline)) << "store " << store;
  EXPECT_EQ(run.counters, good.counters) << "store " << store;
  EXPECT_EQ(run.clocks, good.clocks) << "store " << store;
  EXPECT_EQ(run.notes, good.notes) << "store " << store;
  ASSERT_EQ(run.metrics.size(), good.metrics.size()) << "store " << store;
  for (std::size_t i = 0; i < run.metrics.size(); ++i) {
    EXPECT_EQ(run.metrics[i].name, good.metrics[i].name) << "store " << store;
    EXPECT_EQ(run.metrics[i].value, good.metrics[i].value) << "store " << store;
  }
}

TEST(DamagedStores, ShowWhatWasStoredOrSayWhyNot) {
  const TempFolder folder(/*in_memory=*/true);
  const std::string good = folder.File("good.db"), path = folder.File("s.db");
  StoreRuns(good);
  const std::string bytes = ReadBytes(good);
  std::vector<StoredRun> stored;
  for (const RunId id : {1, 2}) {
    auto run = LoadFrom(good, id);
    ASSERT_TRUE(run.has_value()) << run.error().message;
    stored.push_back(*std::move(run));
  }
  std::mt19937_64 random(67);
  int refused = 0, shown = 0;
  for (int i = 0; i < Stores(); ++i) {
    WriteBytes(path, DamagedBytes(bytes, random));
    const auto reader = StoreReader::Open(path);
    if (!reader.has_value()) {
      ++refused;
      ExpectSentence(reader.error(), path, i);
      continue;
    }
    const auto runs = reader->ListRuns();
    if (!runs.has_value()) ExpectSentence(runs.error(), path, i);
    for (const RunId id : {1, 2}) {
      const auto run = reader->LoadRun(id);
      if (run.has_value()) {
        ++shown;
        ExpectSameRows(*run, stored[static_cast<std::size_t>(id - 1)], i);
      } else {
        ExpectSentence(run.error(), path, i);
      }
      const auto sums = reader->LoadSums(id);
      if (!sums.has_value()) ExpectSentence(sums.error(), path, i);
      const auto text = reader->Attachment(id, "text");
      if (text.has_value()) {
        EXPECT_EQ(*text, std::string(20'000, 'x'));
      } else {
        ExpectSentence(text.error(), path, i);
      }
    }
    // A recorder may refuse the file; if it takes it, its run is whole.
    if (const auto store = Store::Open(path); !store.has_value()) {
      ExpectSentence(store.error(), path, i);
    }
    for (const char* beside : {"-wal", "-shm"}) std::filesystem::remove(path + beside);
    if (HasFailure()) break;
  }
  std::printf("%d stores: %d refused whole, %d runs shown\n", Stores(), refused, shown);
  EXPECT_GT(refused, 0);
  EXPECT_GT(shown, 0);
}

}  // namespace
}  // namespace foretrain
