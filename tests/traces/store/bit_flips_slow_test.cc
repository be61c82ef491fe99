// One flipped bit of a stored span or memory sample is noticed. Slow: ten thousand flips, each in a
// transaction of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/traces/stores.h"
#include "tests/traces/timelines.h"
#include "traces/store.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int kFlips = 10'000;
constexpr int kFlipsOfSamples = 1'000;

// Changes rows of a store beside its reader.
class Flipper {
 public:
  explicit Flipper(const std::string& path) : database_(nullptr, sqlite3_close) {
    sqlite3* raw = nullptr;
    EXPECT_EQ(sqlite3_open(path.c_str(), &raw), SQLITE_OK);
    database_.reset(raw);
    Run("PRAGMA synchronous = OFF");
  }

  void Run(const std::string& sql) {
    ASSERT_EQ(sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sql << ": " << sqlite3_errmsg(database_.get());
  }

  // Flips bit `bit` of `column` in the row of `table` at `where`. SQLite has no exclusive or: a | b
  // and a & b differ by it.
  void Flip(const std::string& table, const std::string& column, int bit,
            const std::string& where) {
    const std::string mask = "(1 << " + std::to_string(bit) + ")";
    Run("UPDATE " + table + " SET " + column + " = (" + column + " | " + mask + ") - (" + column +
        " & " + mask + ") WHERE " + where);
  }

 private:
  std::unique_ptr<sqlite3, int (*)(sqlite3*)> database_;
};

class BitFlips : public testing::Test {
 protected:
  BitFlips() : folder_(/*in_memory=*/true), path_(folder_.File("s.db")) {
    hurt_ = RandomTimeline(random_, 1, 60);
    EXPECT_EQ(StoreTimeline(path_, hurt_, {.label = "hurt"}), 1);
    whole_ = RandomTimeline(random_, 1, 60);
    EXPECT_EQ(StoreTimeline(path_, whole_, {.label = "whole"}), 2);
  }

  // The reader names run and batch; the other run stays readable.
  void ExpectNoticed(const StoreReader& reader, const std::string& flip) {
    const auto run = reader.LoadRun(1);
    ASSERT_FALSE(run.has_value()) << flip << " was not noticed";
    EXPECT_EQ(run.error().code, ErrorCode::kCorruptInput) << flip;
    EXPECT_THAT(run.error().message,
                AllOf(HasSubstr(path_), HasSubstr("run 1 (hurt)"), HasSubstr("batch ")))
        << flip;
    if (random_() % 50 != 0) return;
    const auto other = reader.LoadRun(2);
    ASSERT_TRUE(other.has_value()) << other.error().message;
    EXPECT_TRUE(SameTimeline(other->timeline, whole_));
  }

  // Flips one random bit at a time, expects that it is noticed, and flips it back.
  //   rows     a condition for each row, without the columns that are flipped
  //   columns  names, and how many bits of them are flipped
  void FlipRows(int flips, const std::string& table, const std::vector<std::string>& rows,
                const std::vector<std::pair<std::string, int>>& columns) {
    const auto reader = StoreReader::Open(path_);
    ASSERT_TRUE(reader.has_value()) << reader.error().message;
    Flipper flipper(path_);
    for (int i = 0; i < flips && !HasFailure(); ++i) {
      const auto& [column, bits] = columns[random_() % columns.size()];
      const int bit = static_cast<int>(random_() % static_cast<std::uint64_t>(bits));
      const std::string& where = rows[random_() % rows.size()];
      flipper.Flip(table, column, bit, where);
      ExpectNoticed(*reader, table + "." + column + " bit " + std::to_string(bit) + " " + where);
      flipper.Flip(table, column, bit, where);
    }
    const auto after = reader->LoadRun(1);
    ASSERT_TRUE(after.has_value()) << after.error().message;
    EXPECT_TRUE(SameTimeline(after->timeline, hurt_));
  }

  std::mt19937_64 random_{103};
  TempFolder folder_;
  std::string path_;
  Timeline hurt_, whole_;
};

TEST_F(BitFlips, OfAStoredSpanAreEachNoticed) {
  const std::vector<std::string> rows = Query(
      path_,
      "SELECT 'track_id = ' || track_id || ' AND batch = ' || batch || ' AND seq = ' || seq || "
      "' AND start_ns = ' || start_ns FROM span WHERE track_id IN (SELECT track_id FROM track "
      "WHERE run_id = 1)");
  ASSERT_EQ(rows.size(), 60U);
  FlipRows(kFlips, "span", rows,
           {{"duration_ns", 63},
            {"op", 63},
            {"step", 63},
            {"class", 63},
            {"bytes", 63},
            {"wait_ns", 63}});
}

// The start is part of the key: the row is found by what else it holds.
TEST_F(BitFlips, OfTheStartOfASpanAreEachNoticed) {
  const std::vector<std::string> rows = Query(
      path_,
      "SELECT 'track_id = ' || track_id || ' AND batch = ' || batch || ' AND seq = ' || seq || "
      "' AND duration_ns = ' || duration_ns || ' AND op = ' || op || ' AND bytes = ' || bytes "
      "FROM span WHERE track_id IN (SELECT track_id FROM track WHERE run_id = 1) GROUP BY "
      "track_id, batch, seq, duration_ns, op, bytes HAVING count(*) = 1");
  ASSERT_GT(rows.size(), 30U);
  FlipRows(kFlips / 10, "span", rows, {{"start_ns", 63}});
}

TEST_F(BitFlips, OfAMemorySampleAreEachNoticed) {
  const std::vector<std::string> rows = Query(
      path_,
      "SELECT 'run_id = 1 AND rank = ' || rank || ' AND time_ns = ' || time_ns || ' AND batch = ' "
      "|| batch || ' AND seq = ' || seq FROM memory WHERE run_id = 1");
  ASSERT_GT(rows.size(), 20U);
  FlipRows(kFlipsOfSamples, "memory", rows, {{"category", 63}, {"space", 63}, {"bytes", 63}});
}

}  // namespace
}  // namespace foretrain
