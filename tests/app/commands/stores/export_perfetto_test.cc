// `foretrain export` for Perfetto, against the rules of its format.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/app/commands/small_run.h"

namespace foretrain {
namespace {

using nlohmann::json;

struct Slice {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::string name;
};
using Track = std::pair<int, int>;  // process, thread

std::int64_t NsOf(const json& microseconds) {
  return std::llround(microseconds.get<double>() * 1000);
}

// Slices of each thread by start.
std::map<Track, std::vector<Slice>> SlicesOf(const json& trace) {
  std::map<Track, std::vector<Slice>> slices;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const std::int64_t start = NsOf(event.at("ts"));
    slices[{event.at("pid"), event.at("tid")}].push_back(
        {start, start + NsOf(event.at("dur")), event.at("name")});
  }
  for (auto& [track, of] : slices) {
    std::stable_sort(of.begin(), of.end(),
                     [](const Slice& a, const Slice& b) { return a.start_ns < b.start_ns; });
  }
  return slices;
}

class ExportPerfetto : public testing::Test {
 protected:
  void SetUp() override {
    SmallTraining(folder_);  // for its text
    const ProgramEnd train = RunForetrain(
        folder_.path(),
        "train --model gpt-10m --layers 2 --hidden 128 --heads 4 --sequence 64 --global-batch 4 "
        "--data text.txt --steps 3 --ranks 2 --dp 1 --pp 2 --micro-batch 1");
    ASSERT_EQ(train.code, 0) << train.errors;
    const ProgramEnd written = RunForetrain(folder_.path(), "export --out t.json --json");
    ASSERT_EQ(written.code, 0) << written.errors;
    EXPECT_EQ(written.output, "{\"schema\":1,\"out\":\"t.json\",\"runs\":[1,2]}\n");
    trace_ = json::parse(folder_.Read("t.json"));
    slices_ = SlicesOf(trace_);
  }

  // The slice of a track that encloses a time; null if there is none.
  const Slice* At(const Track& track, std::int64_t time_ns) const {
    for (const Slice& slice : slices_.at(track)) {
      if (slice.start_ns <= time_ns && time_ns < slice.end_ns) return &slice;
    }
    return nullptr;
  }

  TemporaryFolder folder_;
  json trace_;
  std::map<Track, std::vector<Slice>> slices_;
};

TEST_F(ExportPerfetto, HasNoSlicesThatCrossOthers) {
  for (const auto& [track, slices] : slices_) {
    for (std::size_t i = 1; i < slices.size(); ++i) {
      EXPECT_GE(slices[i].start_ns, slices[i - 1].end_ns)
          << slices[i - 1].name << " and " << slices[i].name;
    }
  }
}

// A flow has one start and one end, in this order; both lie in slices. Those of counterparts join
// ops of one name in the processes of both runs, those of transfers a send and a receive.
TEST_F(ExportPerfetto, HasFlowsBetweenSlices) {
  std::map<int, json> starts, ends;
  for (const json& event : trace_.at("traceEvents")) {
    if (event.at("ph") == "s") {
      EXPECT_TRUE(starts.emplace(event.at("id"), event).second);
    }
    if (event.at("ph") == "f") {
      EXPECT_TRUE(ends.emplace(event.at("id"), event).second);
    }
  }
  ASSERT_EQ(starts.size(), ends.size());
  int counterparts = 0, transfers = 0;
  for (const auto& [id, start] : starts) {
    const json& end = ends.at(id);
    EXPECT_LE(NsOf(start.at("ts")), NsOf(end.at("ts")));
    const Slice* const from = At({start.at("pid"), start.at("tid")}, NsOf(start.at("ts")));
    const Slice* const to = At({end.at("pid"), end.at("tid")}, NsOf(end.at("ts")));
    ASSERT_TRUE(from != nullptr && to != nullptr);
    EXPECT_EQ(end.at("bp"), "e");
    // Processes 1 and 2 are the forecast's ranks, 3 and 4 the measured ones.
    const int a = start.at("pid"), b = end.at("pid");
    if (start.at("name") == "counterpart") {
      ++counterparts;
      EXPECT_EQ(from->name, to->name);
      EXPECT_EQ(std::abs(a - b), 2);
    } else {
      ++transfers;
      EXPECT_EQ(std::set<std::string>({from->name, to->name}),
                std::set<std::string>({"send", "recv"}));
      EXPECT_EQ((a - 1) / 2, (b - 1) / 2);
      EXPECT_NE(a, b);
    }
  }
  EXPECT_GT(counterparts, 300);
  // Four micro-batches forward and back, in each measured step and at least the forecast's last.
  EXPECT_GE(transfers, 8 * 4);
}

// The forecast's last step begins with a measured one.
TEST_F(ExportPerfetto, LetsTheComparedStepsBeginTogether) {
  std::set<std::int64_t> measured;
  std::int64_t last = 0;
  for (const auto& [track, slices] : slices_) {
    for (const Slice& slice : slices) {
      if (!slice.name.starts_with("step ")) continue;
      if (track.first > 2) measured.insert(slice.start_ns);
      if (track.first == 1) last = std::max(last, slice.start_ns);
    }
  }
  EXPECT_TRUE(std::any_of(measured.begin(), measured.end(), [last](std::int64_t start) {
    return std::abs(start - last) < 5'000'000;
  }));
}

TEST_F(ExportPerfetto, HasTheLossAsACounter) {
  int losses = 0;
  for (const json& event : trace_.at("traceEvents")) {
    if (event.at("ph") == "C" && event.at("name") == "loss") ++losses;
  }
  EXPECT_EQ(losses, 3);
}

TEST_F(ExportPerfetto, IsImportedWithItsOwnTimes) {
  ASSERT_EQ(RunForetrain(folder_.path(), "import t.json --store again.db").code, 0);
  const std::string query =
      " \"SELECT rank, queue, start_ns, end_ns, op FROM v_span WHERE run_id = RUN ORDER BY "
      "rank, "
      "queue, start_ns LIMIT 900\" --json --limit 1000";
  const auto rows = [&](const std::string& store, const std::string& run) {
    std::string text = query;
    text.replace(text.find("RUN"), 3, run);
    return LastLine(RunForetrain(folder_.path(), "sql " + store + text).output).at("rows");
  };
  EXPECT_EQ(rows("again.db", "1"), rows("foretrain.db", "1"));
  EXPECT_EQ(rows("again.db", "2"), rows("foretrain.db", "2"));
}

// The trace of rank 3, whose forecast holds ranks 0 and 1 in place of all eight: each of its
// kernels has an op of rank 3.
TEST(ExportPerfettoOfATrace, JoinsKernelsWithTheOpsOfTheirRank) {
  const TemporaryFolder folder;
  const std::string plan =
      "--model llama3-8b --layers 2 --cluster 1x8xh100 --tp 8 --dp 1 --sequence 256 --global-batch "
      "2 --store s.db";
  ASSERT_EQ(RunForetrain(folder.path(), "predict " + plan).code, 0);
  ASSERT_EQ(RunForetrain(folder.path(), "export --store s.db --form kineto --out traces").code, 0);
  std::string text = folder.Read("traces/rank-1.json");
  const std::string rank = "\"rank\": 1,";
  ASSERT_NE(text.find(rank), std::string::npos);
  text.replace(text.find(rank), rank.size(), "\"rank\": 3,");
  folder.Write("rank-3.json", text);
  ASSERT_EQ(RunForetrain(folder.path(), "import rank-3.json --store s.db --forecast 1").code, 0);
  const ProgramEnd written = RunForetrain(folder.path(), "export --store s.db --out t.json");
  ASSERT_EQ(written.code, 0) << written.errors;
  const json trace = json::parse(folder.Read("t.json"));
  std::map<int, std::string> processes;
  std::set<std::pair<std::string, std::string>> joined;
  std::map<int, int> starts;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("name") == "process_name") {
      processes[event.at("pid")] = event.at("args").at("name");
    }
    if (event.at("ph") == "s") starts[event.at("id")] = event.at("pid");
    if (event.at("ph") != "f") continue;
    std::string a = processes[starts.at(event.at("id"))], b = processes[event.at("pid")];
    joined.emplace(std::min(a, b), std::max(a, b));
  }
  EXPECT_GT(starts.size(), 50U);
  ASSERT_EQ(joined.size(), 1U);
  EXPECT_TRUE(joined.begin()->first.ends_with(" rank 3"));
  EXPECT_TRUE(joined.begin()->second.starts_with("predicted 1 ") &&
              joined.begin()->second.ends_with(" rank 3"));
}

}  // namespace
}  // namespace foretrain
